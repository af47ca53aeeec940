"""The queries and the Python of docs/outputs.md and docs/running.md run as they are, over the bundled sample."""

import os
from pathlib import Path

import duckdb
import pytest

from .pages import ROOT, blocks

pytestmark = pytest.mark.slow

OUTPUTS, RUNNING = ROOT / "docs/outputs.md", ROOT / "docs/running.md"


def executed(folder: Path, code: str) -> dict:
    """The names that the code leaves when it runs in the folder."""
    names: dict = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(code, names)
    finally:
        os.chdir(before)
    return names


@pytest.mark.parametrize("query", blocks(OUTPUTS, "sql"))
def test_sql(demo: Path, query: str) -> None:
    rows = duckdb.sql(query.replace("runs/demo", str(demo / "runs/demo"))).fetchall()
    assert rows


def test_there_are_queries() -> None:
    assert len(blocks(OUTPUTS, "sql")) >= 3


def test_looking_at_rows(demo: Path) -> None:
    [code] = blocks(OUTPUTS, "python")
    names = executed(demo, code)
    assert names["image"].size == (400, 100)
    assert "<image>" in names["question"]
    assert "<answer>" in names["trace"]


def test_the_library(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = executed(demo, "\n".join(blocks(RUNNING, "python")))
    assert names["rows"].num_rows == names["opened"].summary.counts.sft > 0
    printed = capsys.readouterr().out.splitlines()
    at = printed.index("kept")
    assert printed[at + 1] == "  score 1 (floor 0.7)"


def test_the_folder_is_the_one_that_is_drawn(demo: Path) -> None:
    [drawn] = blocks(OUTPUTS, "")
    left = {path.name for path in (demo / "runs/demo").iterdir() if not path.name.startswith(".")}
    for name in left - {"input.json"}:
        assert name in drawn
