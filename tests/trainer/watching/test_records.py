"""JSON lines of a training's records."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.trainer.watching.records import read_lines, read_metrics, read_steps, write_lines

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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[" * 100_000, "line 2 of {} cannot be read (RecursionError)"),
        ('{"step": ' + "1" * 5000 + "}", "line 2 of {} cannot be read (ValueError)"),
        ("[1]", "line 2 of {} is not a JSON object"),
        ("null", "line 2 of {} is not a JSON object"),
        ('{"loss": 1.5}', "{} has the line {{'loss': 1.5}}, whose step is missing or not a whole number"),
        ('{"step": [1]}', "{} has the line {{'step': [1]}}, whose step is missing or not a whole number"),
        ('{"step": 1, "loss": "x"}', "{} has a line of step 1 in which the value of 'loss' is not a number"),
        ('{"step": 1, "loss": {}}', "{} has a line of step 1 in which the value of 'loss' is not a number"),
    ],
)
@pytest.mark.parametrize("read", [read_steps, read_metrics])
def test_metrics_that_no_trainer_wrote(read: Callable[[Path], object], line: str, said: str, tmp_path: Path) -> None:
    """Another person may have sent the folder."""
    (tmp_path / "a.jsonl").write_text(f'{{"step": 1, "loss": null}}\n{line}\n', "utf-8")
    with pytest.raises(UserError) as refused:
        read(tmp_path / "a.jsonl")
    remedy = "delete this line, or move the file away"
    assert str(refused.value) == f"{said.format(tmp_path / 'a.jsonl')}: {remedy}"


@pytest.mark.parametrize("line", ["{}", '{"row": ["x"]}', '{"row": 5}'])
def test_a_line_that_lacks_a_text(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f"{line}\n", "utf-8")
    with pytest.raises(UserError, match=r"line 1 of .*a\.jsonl has no text in 'row': delete this line, or move"):
        read_lines(tmp_path / "a.jsonl", ("row",))
