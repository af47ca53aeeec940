"""README.md is short, and its own-data steps work; tests/docs has the tests of all pages, README among them."""

import re
import shutil
from pathlib import Path

import pytest

from groundtrace.config.settings import load_config
from groundtrace.pipelines.commands import cli
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.pipelines.running.endings import ConservationError, RunPaused, ending_of
from groundtrace.schemas.errors import UserError

from .docs.pages import ROOT, blocks, commands
from .pipelines.far_server import filled, right, serving

README = ROOT / "README.md"
MAX_WORDS = 1200


def test_it_is_short() -> None:
    assert len(README.read_text("utf-8").split()) <= MAX_WORDS


def test_its_figures_are_those_of_the_page() -> None:
    """Every number of README's table of figures is also in docs/figures.md."""
    _, _, below = README.read_text("utf-8").partition("## Measured")
    numbers = set(re.findall(r"\d[\d.,]*\d|\d", below.partition("\nThese figures")[0])) - {"2"}
    page = (ROOT / "docs/figures.md").read_text("utf-8")
    assert len(numbers) > 15
    assert sorted(number for number in numbers if number not in page) == []


def exit_codes(page: Path) -> list[str]:
    return re.findall(r"^\| (\d+) \|", page.read_text("utf-8"), re.MULTILINE)


def test_its_exit_codes_are_those_of_the_page() -> None:
    assert exit_codes(README) == exit_codes(ROOT / "docs/running.md")
    ends = (KeyboardInterrupt(), UserError("x"), ConservationError("x"), RunPaused("x"), OSError(28, "No space left"))
    assert exit_codes(README) == ["0", *map(str, sorted({ending_of(end).code for end in ends}))]


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with README's table and images of the names in it."""
    monkeypatch.chdir(tmp_path)
    [table] = blocks(README, "csv")
    image = next((ROOT / "data/sample/images").iterdir())
    (tmp_path / "my-photos").mkdir()
    (tmp_path / "my-photos/questions.csv").write_text(table, "utf-8")
    for name in ("IMG_0001.jpg", "street, east.png"):
        assert name in table
        shutil.copy(image, tmp_path / "my-photos" / name)
    return tmp_path


def test_own_data(photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    init, validate = (line.split()[1:] for line in commands(README, "beam")[:2])
    assert (init[0], validate[0]) == ("init", "validate")
    assert cli.main(init) == 0
    config = photos / "my.toml"
    endpoint = load_config(Settings, str(config)).endpoints["model"]
    assert f"vllm serve {endpoint.model}" in README.read_text("utf-8")
    monkeypatch.setenv("FAR_KEY", "secret")
    with serving(right) as server:
        config.write_text(filled(config.read_text("utf-8"), server.url), "utf-8")
        assert cli.main(validate) == 0
    assert "2 can be used" in capsys.readouterr().out
    settings = load_config(Settings, str(config))
    assert settings.roles["teacher"] == settings.roles["detector"] == "model"
