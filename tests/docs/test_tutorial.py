"""docs/tutorial.md: its commands as they are, one after the other, in a new folder, with fewer scenes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import ROOT, blocks

pytestmark = pytest.mark.installs

PAGE = ROOT / "docs/tutorial.md"
INSTALL, *COMMANDS = blocks(PAGE, "bash")
FEW = "scenes=12"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the files of the checkout in which the page was typed, and the output of its commands."""
    desk = tmp_path_factory.mktemp("desk")
    for path in ROOT.iterdir():
        if path.name != "runs" and not path.name.startswith("."):
            (desk / path.name).symlink_to(path)
    (desk / "home").mkdir()
    whole = "\n".join(COMMANDS)
    assert whole.count("scenes=600\n") == 1
    script = whole.replace("scenes=600", FEW)
    environment = {"HOME": str(desk / "home"), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=desk,
        env=environment | {"LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return desk, done.stdout


def test_the_first_block_installs() -> None:
    assert INSTALL.splitlines() == ["make setup", "source .venv/bin/activate"]


def test_it_ends_with_the_comparison(desk: tuple[Path, str]) -> None:
    sft, grpo = "runs/tiny/eval-sft", "runs/tiny/eval-grpo"
    lines = [line.strip() for line in desk[1].splitlines() if line.startswith("  runs/tiny/eval-")]
    assert [line.partition(": accuracy ")[0] for line in lines] == [sft, grpo, f"{grpo} − {sft}"]
    assert all(re.match(r"[-+]?\d\.\d{3} \[", line.partition(": accuracy ")[2]) for line in lines)


def test_the_pages_that_it_names_exist(desk: tuple[Path, str]) -> None:
    text, (folder, _) = PAGE.read_text("utf-8"), desk
    table = [line for line in text.splitlines() if line.startswith("| `runs/")]
    assert len(table) > 3
    for line in table:
        path = line.split("`")[1]
        assert list(folder.glob(path)), path


def test_it_trains(desk: tuple[Path, str]) -> None:
    folder = desk[0] / "runs/tiny"
    for name in ("sft", "grpo"):
        lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text("utf-8").splitlines()]
        assert lines and (folder / name / "model/model.safetensors").is_file()
    losses = [json.loads(line)["loss"] for line in (folder / "sft/metrics.jsonl").read_text("utf-8").splitlines()]
    assert losses[-1] < losses[0]
