"""README's examples run as they stand, over a run of the bundled sample."""

import os
import re
from pathlib import Path

import duckdb
import pytest

from pipelines.commands import cli
from pipelines.commands.dispatch import COMMANDS
from pipelines.grounded_cot import Settings
from pipelines.running.loading import bundled_names
from schemas.config import load_config
from trainer.cli import make_parser as make_trainer_parser
from trainer.settings import TrainerSettings

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which ``runs/demo`` is what ``make demo`` leaves."""
    folder = tmp_path_factory.mktemp("readme")
    arguments = ["--input", str(ROOT / "data/sample"), "--output", str(folder / "runs/demo")]
    assert cli.main(["run", str(ROOT / "pipelines/grounded_cot.py"), *arguments]) == 0
    (folder / "data").symlink_to(ROOT / "data")
    return folder


@pytest.mark.parametrize("query", blocks("sql"))
def test_sql(demo: Path, query: str) -> None:
    rows = duckdb.sql(query.replace("runs/demo", str(demo / "runs/demo"))).fetchall()
    assert rows


def executed(demo: Path, says: str) -> dict:
    """The names that README's one Python example with these words leaves."""
    [code] = [code for code in blocks("python") if says in code]
    names: dict = {}
    before = Path.cwd()
    os.chdir(demo)
    try:
        exec(code, names)
    finally:
        os.chdir(before)
    return names


def test_looking_at_rows(demo: Path) -> None:
    names = executed(demo, "load_dataset")
    assert names["picture"].size == (400, 100)
    assert "<image>" in names["question"]
    assert "<answer>" in names["trace"]


def test_the_library(demo: Path) -> None:
    names = executed(demo, "import groundtrace")
    assert names["rows"].num_rows == names["opened"].summary.counts.sft > 0


def test_every_python_example_is_run() -> None:
    assert len(blocks("python")) == 2


def configured(folder: Path, number: int) -> Settings:
    """The settings of README's config of that number."""
    (folder / "my.toml").write_text(blocks("toml")[number], "utf-8")
    return load_config(Settings, str(folder / "my.toml"))


def test_config(tmp_path: Path) -> None:
    settings = configured(tmp_path, 0)
    assert settings.roles["teacher"] == "strong"
    assert settings.roles["segmenter"] == ""
    assert settings.difficulty.low == 0.2


def test_config_of_a_detector(tmp_path: Path) -> None:
    settings = configured(tmp_path, 1)
    kinds = [settings.endpoints[settings.roles[role]].kind for role in ("detector", "segmenter", "teacher")]
    assert kinds == ["transformers", "transformers", "classical"]
    assert settings.endpoints["boxes"].threshold == 0.3


def test_config_of_the_trainer(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(blocks("toml")[2], "utf-8")
    settings = load_config(TrainerSettings, str(tmp_path / "my.toml"))
    assert (settings.grpo.clip_high, settings.reward.roles["detector"]) == (0.28, "edges")


def test_there_is_something_to_test() -> None:
    assert len(blocks("sql")) >= 3
    assert (len(blocks("python")), len(blocks("toml"))) == (2, 3)


def lines_of(command: str) -> list[str]:
    return [line for text in blocks("bash") for line in text.splitlines() if line.startswith(f"{command} ")]


@pytest.mark.parametrize("line", lines_of("trainer"))
def test_commands_are_ones_that_trainer_knows(line: str) -> None:
    assert make_trainer_parser().parse_args(line.split()[1:]).command in ("sft", "grpo", "eval", "export")


@pytest.mark.parametrize("line", lines_of("beam"))
def test_commands_are_ones_that_beam_knows(line: str) -> None:
    arguments = re.sub(r"\s+#.*", "", line).split(" -- ")[0]
    quoted = re.findall(r'"[^"]*"|\S+', arguments)[1:]
    parsed = cli.make_parser().parse_args([part.strip('"') for part in quoted])
    assert parsed.command in COMMANDS
    if parsed.command in ("run", "preview", "validate"):
        assert (ROOT / parsed.pipeline).is_file() or parsed.pipeline in bundled_names()
