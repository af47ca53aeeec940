import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view import journal

NAME = Path("marks.jsonl")


@pytest.mark.parametrize(
    ("text", "found"),
    [("", []), ("{}\n\n5\n", [{}, 5]), ("{}\n[", [{}]), ("{}\n5", [{}, 5]), ("1\n2\n3\n", [1, 2, 3])],
)
def test_lines(text: str, found: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_LINES", 3)
    (tmp_path / NAME).write_text(text)
    assert list(journal.read_lines(tmp_path, NAME, lambda each: each)) == found


def test_a_line_after_the_last_that_is_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_LINES", 3)
    (tmp_path / NAME).write_text("{}\n[]\n[")
    journal.append_line(tmp_path, NAME, {})
    with pytest.raises(journal.TooManyLines, match=f"^{tmp_path / NAME} has 3 lines, and may have at most 3: remove"):
        journal.append_line(tmp_path, NAME, {})
    assert list(journal.read_lines(tmp_path, NAME, lambda each: each)) == [{}, [], {}]


def test_nothing_is_left_of_lines_for_which_the_disk_has_no_space(tmp_path: Path) -> None:
    lines = [{"text": "x" * 100}] * 8
    journal.append_line(tmp_path, NAME, lines[0])
    kept = (tmp_path / NAME).read_bytes()
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as found, journal.locked(tmp_path, NAME) as opened:
            journal.write_lines(opened, tmp_path / NAME, lines)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert found.value.filename == str(tmp_path / NAME) and (tmp_path / NAME).read_bytes() == kept


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\n2\n3\n4\n", "has more than 3 lines: remove"),
        ("1\n[\n3", "is damaged at line 2: remove"),
        ('"' + "a" * 200, "is damaged at line 1: remove"),
    ],
)
def test_files_that_are_refused(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_LINES", 3)
    monkeypatch.setattr(journal, "MAX_LINE_BYTES", 100)
    (tmp_path / NAME).write_text(text)
    with pytest.raises(InspectError, match=f"marks.jsonl {said}"):
        list(journal.read_lines(tmp_path, NAME, lambda each: each))
