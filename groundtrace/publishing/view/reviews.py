"""Keeps what a person marks in a view: flags, tags and notes on records, in ``RUN/reviews/marks.jsonl``.

Each change is one line with the record's id, the SHA-256 of its best trace at that time, the flag, the tags, the note
and the time. The last line of an id counts. The folder is not part of the committed set, so a review changes no shard.
"""

import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from groundtrace.publishing.view.journal import append_line, read_lines
from groundtrace.schemas.text import utc_now

FILE = Path("reviews") / "marks.jsonl"
MAX_NOTE_CHARS, MAX_TAG_CHARS, MAX_TAGS = 4000, 60, 20


@dataclass(frozen=True)
class Mark:
    """Holds what a reviewer marked on a record. ``trace`` is the SHA-256 of the trace that was seen, or ""."""

    id: str
    trace: str = ""
    flagged: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""
    at: str = ""

    @property
    def tags_text(self) -> str:
        """Return the tags as one text."""
        return ", ".join(self.tags)


class Reviews:
    """Reads and writes the marks of a run. Thread-safe.

    With ``is_copy`` the folder is a copy of a run in an object store; its marks cannot be changed, because they
    would be lost with the copy. Raises :class:`groundtrace.publishing.reading.InspectError` for a file that cannot be
    read.
    """

    def __init__(self, run: Path, is_copy: bool = False) -> None:
        self._file, self._is_copy = run / FILE, is_copy
        self._lock = threading.Lock()
        self._marks = {mark.id: mark for mark in read_lines(self._file, _mark)}

    def __iter__(self) -> Iterator[Mark]:
        """Iterate over the marks that count, one for each record."""
        return iter(list(self._marks.values()))

    def of(self, record_id: str) -> Mark:
        """Return the mark of a record; one without flag, tags and note if it has none."""
        return self._marks.get(record_id) or Mark(record_id)

    def keep(self, mark: Mark) -> Mark:
        """Write a mark to the file, and return it with its time. Raises ValueError for one that cannot be kept."""
        if self._is_copy:
            raise ValueError("the run is in an object store: copy it to this machine to keep marks on it")
        if len(mark.note) > MAX_NOTE_CHARS:
            raise ValueError(f"the note has {len(mark.note)} characters, at most {MAX_NOTE_CHARS} are kept")
        if len(mark.tags) > MAX_TAGS or any(not 0 < len(tag) <= MAX_TAG_CHARS or "," in tag for tag in mark.tags):
            raise ValueError(f"at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARS} characters without commas are kept")
        dated = replace(mark, at=utc_now())
        with self._lock:
            append_line(self._file, asdict(dated))
            self._marks[dated.id] = dated
        return dated


def _mark(fields: dict[str, Any]) -> Mark:
    return Mark(**{**fields, "tags": tuple(fields["tags"])})
