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
