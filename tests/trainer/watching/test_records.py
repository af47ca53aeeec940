"""JSON lines of a training's records."""

import os
from pathlib import Path

import pytest

from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.trainer.watching.records import read_lines, read_metrics, write_lines

LINES = [{"step": 0, "text": "one"}, {"step": 1, "text": "a\u2028b\u0085c\x1cd\x0be\rf"}]


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Separators that JSON does not escape are part of a text."""
    write_lines(tmp_path / "a.jsonl", LINES)
    assert read_lines(tmp_path / "a.jsonl") == LINES
    with (tmp_path / "a.jsonl").open("a") as stream:
        stream.write('{"step": 2, "te')
    assert read_lines(tmp_path / "a.jsonl") == LINES, "a truncated last line is left out"
    write_lines(tmp_path / "a.jsonl", [])
    assert not (tmp_path / "a.jsonl").exists() and read_lines(tmp_path / "a.jsonl") == []


def test_lines_that_cannot_be_written_leave_the_old_ones(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", LINES)
    with pytest.raises(TypeError):
        write_lines(tmp_path / "a.jsonl", [{"step": 3}, {"step": object()}])
    with pytest.raises(UnicodeEncodeError):
        write_lines(tmp_path / "a.jsonl", [{"text": "\ud800"}])
    assert read_lines(tmp_path / "a.jsonl") == LINES
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    for read in (read_lines, read_metrics):
        with pytest.raises(UnsafeFile, match="is not a regular file, but a pipe: move it away"):
            read(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [([], []), ([1, 2, 3], [1, 2, 3]), ([0, 1, 2], [1, 2, 3]), ([0], [1]), ([2, 3], [2, 3])],
    ids=["no steps", "from 1", "from 0, as in earlier versions", "only step 0", "the first line is damaged"],
)
def test_steps_are_numbered_from_1(steps: list[int], expected: list[int], tmp_path: Path) -> None:
    write_lines(tmp_path / "metrics.jsonl", [{"step": step, "loss": 1.5} for step in steps])
    found = read_metrics(tmp_path / "metrics.jsonl")
    assert found == [{"step": step, "loss": 1.5} for step in expected]
