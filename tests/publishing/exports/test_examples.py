"""The examples: what they name is in an export of the bundled sample, and their files can be read."""

import ast
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from groundtrace.pipelines.commands import cli
from tests.publishing.exports.made_runs import ROOT, lines

OTHERS = ("__pycache__", "lmms_eval", "notebook")
"""Folders of no trainer; tests/examples has the tests of lmms_eval and of the notebook."""
FOLDERS = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name not in OTHERS)
NAMED = re.compile(r"\bexports/[\w./-]*[\w-]")
PART = 48
"""How many records of the sample the commands read: a run of each recipe has rows of all kinds."""
BEAM = re.compile(r"^beam (?:run|export) .*$", re.MULTILINE)


def pages(folder: Path) -> str:
    """All that an example says."""
    return "\n".join(file.read_text("utf-8") for file in sorted(folder.iterdir()) if file.is_file())


def write_part(sample: Path, folder: Path) -> None:
    """Write a part of the bundled sample that has all kinds of its questions."""
    shutil.copytree(sample / "images", folder / "images")
    records = (sample / "records.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(records[:PART]), "utf-8")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every ``beam run`` and ``beam export`` of the examples was typed."""
    desk = tmp_path_factory.mktemp("desk")
    write_part(ROOT / "data/sample", desk / "data/sample")
    readmes = [(folder / "README.md").read_text("utf-8") for folder in (ROOT / "examples", *FOLDERS)]
    commands = [command for text in readmes for command in BEAM.findall(re.sub(r"\\\n", "", text))]
    before = Path.cwd()
    os.chdir(desk)
    try:
        for command in dict.fromkeys(commands):
            assert cli.main(shlex.split(command)[1:]) == 0, command
    finally:
        os.chdir(before)
    return desk


def test_there_is_one_for_each_trainer() -> None:
    names = ["easyr1", "llamafactory", "openrlhf", "swift", "trl", "verl"]
    assert [folder.name for folder in FOLDERS] == names
    listed = (ROOT / "examples/README.md").read_text("utf-8")
    assert re.findall(r"\| \[(\w+)\]\(\1/README.md\) \|", listed) == [
        "trl",
        "verl",
        "easyr1",
        "swift",
        "llamafactory",
        "openrlhf",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_an_example_names_is_there(folder: Path, desk: Path) -> None:
    text = pages(folder)
    found = set(NAMED.findall(text))
    assert found
    assert sorted(name for name in found if not (desk / name).exists()) == []
    scripts = set(re.findall(rf"examples/{folder.name}/[\w.-]+\.\w+", text))
    assert scripts
    assert sorted(name for name in scripts if not (ROOT / name).is_file()) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_files_are_whole(folder: Path) -> None:
    kinds = []
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name != "README.md":
            kinds.append(file.suffix)
            text = file.read_text("utf-8")
            if file.suffix == ".py":
                assert ast.get_docstring(ast.parse(text))
            elif file.suffix == ".yaml":
                assert isinstance(yaml.safe_load(text), dict)
            elif file.suffix == ".sh":
                assert subprocess.run(["sh", "-n", file], check=False).returncode == 0
    assert set(kinds) <= {".py", ".yaml", ".sh"}
    assert kinds


def verl_settings(folder: Path, *given: str, validation: str = "") -> dict[str, str]:
    """The settings with which verl/grpo.sh calls verl; the last value of a key counts, as in hydra.

    A program of the name python3 prints its arguments, because verl needs a GPU.
    """
    program = folder / "python3"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', "utf-8")
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "VALIDATION": validation}
    words = ["sh", str(ROOT / "examples/verl/grpo.sh"), *given]
    printed = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)


def test_verl_validates_on_other_rows_only(tmp_path: Path) -> None:
    without = verl_settings(tmp_path)
    assert (without["trainer.val_before_train"], without["trainer.test_freq"]) == ("False", "-1")
    found = verl_settings(tmp_path, "trainer.test_freq=5", validation="my rows/rl.parquet")
    assert found["data.val_files"] == "my rows/rl.parquet" and found["trainer.test_freq"] == "5"
    assert found["data.train_files"].endswith("exports/verl/rl.parquet") and "trainer.val_before_train" not in found


def test_the_pages_name_the_reward_of_unscored_responses() -> None:
    for page in ("README.md", "verl/README.md", "verl/grpo.sh"):
        assert "GROUNDTRACE_REWARD_UNSCORED=0" in (ROOT / "examples" / page).read_text("utf-8"), page


KEYS = [
    ("verl/grpo.sh", r"data\.(?:prompt|image|reward_fn)_key=(\w+)", "verl/rl.parquet"),
    ("openrlhf/grpo.sh", r"--data\.(?:input|label|image)_key (\w+)", "openrlhf/rl.jsonl"),
    ("easyr1/config.yaml", r"(?:prompt|answer|image)_key: (\w+)", "easyr1/rl.parquet"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("script", "pattern", "file"), KEYS)
def test_its_keys_are_columns(script: str, pattern: str, file: str, desk: Path) -> None:
    named = re.findall(pattern, (ROOT / "examples" / script).read_text("utf-8"))
    path = desk / "exports" / file
    columns = pq.read_schema(path).names if path.suffix == ".parquet" else lines(path)[0].keys()
    assert len(named) == 3
    assert set(named) <= set(columns)
