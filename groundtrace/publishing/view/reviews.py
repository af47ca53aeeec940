"""Stores the marks that a person sets on records in ``beam view``: flags, tags and notes.

``RUN/reviews/marks.jsonl`` holds one line for each change. The line has the record's id, the flag, the tags, the note
and the time. It also has two values of the record's row at that time: the output set (sft, rl or rejected), and the
SHA-256 of the best trace (reasoning with answer). They are needed because a repeated run may change the row
(:meth:`Mark.is_about`). Only the last line of a record is valid. No shard is changed.
"""

import hashlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from groundtrace.publishing.view.journal import locked, read_lines, write_lines
from groundtrace.publishing.view.opened_run import file_state
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import say, storable, utc_now

FILE = Path("reviews") / "marks.jsonl"
CHANGED = ("flagged", "tags", "note")
"""The fields of a mark that a person changes."""
MAX_NOTE_CHARS, MAX_TAG_CHARS, MAX_TAGS = 4000, 60, 20


@dataclass(frozen=True)
class Mark:
    """Holds what a person has noted about a record: a flag, tags and a note.

    Attributes:
        id: the id of the record.
        trace: the SHA-256 of the row's trace at the time of the last change (:func:`seen_trace`); "" if the row had
            none, or if it is unknown.
        flagged: whether the record is flagged.
        tags: the tags, which are short texts without commas.
        note: a text; "" for none.
        at: the time of the last change, in UTC.
        set: the output set of the row at that time: sft, rl or rejected; "" if it is unknown.
    """

    id: str
    trace: str = ""
    flagged: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""
    at: str = ""
    set: str = ""

    def is_about(self, set_name: str, trace: str) -> bool:
        """Whether the record's present row is the one on which the mark was set.

        ``set_name`` is the output set of the present row (e.g. sft), and ``trace`` is the SHA-256 of its trace
        (:func:`seen_trace`). A mark that an earlier version of the code stored has no output set, and may also have no
        SHA-256 of the trace. In such a mark, a missing value counts as equal to that of the present row.
        """
        is_unknown = not self.set and not self.trace
        return self.set in ("", set_name) and (is_unknown or self.trace == trace)

    def outdated(self, set_name: str, trace: str) -> str:
        """Return a sentence for the reviewer if this mark (flag, tags and note) was set on another version of the
        record's row; else "".

        ``set_name`` is the output set of the present row (e.g. sft), and ``trace`` is the SHA-256 of its trace. The
        result is "" for a mark without a flag, tag and note.
        """
        parts = {"flag": self.flagged, "tags": self.tags, "note": self.note}
        held = [f"the {name}" for name, value in parts.items() if value]
        if not held or self.is_about(set_name, trace):
            return ""
        named = " and ".join([", ".join(held[:-1]), held[-1]] if len(held) > 1 else held)
        verb = "were" if len(held) > 1 or self.tags else "was"
        then = "had another trace" if self.set in ("", set_name) else f"was in {self.set}"
        return f"{named.capitalize()} {verb} set on another version of this row, which {then}."

    @property
    def tags_text(self) -> str:
        """Return the tags of the record as one text, separated by commas; "" if the record has no tags."""
        return ", ".join(self.tags)


class Reviews:
    """Reads and writes the marks (flags, tags and notes) of a run's records. Several threads may use one instance.

    Several processes may view the same run. Before a mark is changed, the file is read again if another process has
    written to it. So a change of the tags, for example, keeps a flag that another process has set.

    ``run`` is the run folder. ``is_copy`` is True if it is a local copy of a run in an object store. The marks of a
    copy cannot be changed, because the changes would be lost with the copy. Raises
    :class:`groundtrace.publishing.reading.InspectError` if the file of marks cannot be read, and
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if it or its folder is a link.
    """

    def __init__(self, run: Path, is_copy: bool = False) -> None:
        self._run, self._is_copy = run, is_copy
        self._lock = threading.Lock()
        self._marks, self._state = dict[str, Mark](), None
        self._read()

    def _read(self) -> None:
        """Read the file again if another program has written to it since this object read or wrote it."""
        state = file_state(self._run / FILE)
        if state != self._state:
            self._marks, self._state = {mark.id: mark for mark in read_lines(self._run, FILE, _mark)}, state

    def __iter__(self) -> Iterator[Mark]:
        """Iterate over the latest marks (flag, tags and note), one for each record that has been marked."""
        return iter(list(self._marks.values()))

    def of(self, record_id: str) -> Mark:
        """Return the mark (flag, tags and note) of the record with this id; an empty mark if it has none."""
        return self._marks.get(record_id) or Mark(record_id)

    def change(self, changes: Mapping[str, Any], seen: Mapping[str, tuple[str, str]]) -> list[Mark]:
        """Change the flag, the tags or the note of records, and return their marks with the time of the change.

        ``changes`` holds the new values of ``flagged``, ``tags`` and ``note``, which are the same for all records;
        missing ones are not changed. ``seen`` maps the id of each record to the output set of its row (e.g. sft) and
        the SHA-256 of the row's trace (:func:`seen_trace`). The whole marks are then about these rows, also the values
        that are not changed. Raises ValueError for a value of the wrong type, and the errors of :meth:`keep`. In case
        of an error, no mark is changed.
        """
        self._refuse_copy()
        with self._lock, locked(self._run, FILE) as opened:
            self._read()
            marks = [_changed(self.of(record_id), changes, *row) for record_id, row in seen.items()]
            return self._write(opened, marks)

    def keep(self, mark: Mark) -> Mark:
        """Write a mark (flag, tags and note of a record) to the file, and return it with the time of the change.

        Raises ValueError if the run is a copy, if the note or a tag is too long, if a tag contains a comma, if there
        are too many tags, if a text contains half a character, or if the file has too many lines. Raises OSError with
        the path of the file if the file cannot be written.
        """
        self._refuse_copy()
        _check(mark)
        with self._lock, locked(self._run, FILE) as opened:
            self._read()
            (kept,) = self._write(opened, [mark])
            return kept

    def _refuse_copy(self) -> None:
        if self._is_copy:
            raise ValueError(
                "flags, tags and notes cannot be stored in an object store: copy the run to this machine, and view the "
                "copy"
            )

    def _write(self, opened: BinaryIO, marks: Sequence[Mark]) -> list[Mark]:
        for mark in marks:
            _check(mark)
        now = utc_now()
        dated = [replace(mark, at=now) for mark in marks]
        write_lines(opened, self._run / FILE, [asdict(mark) for mark in dated])
        self._marks |= {mark.id: mark for mark in dated}
        self._state = file_state(self._run / FILE)
        return dated


def _changed(mark: Mark, changes: Mapping[str, Any], set_name: str, trace: str) -> Mark:
    """Return a mark with new values. Raises ValueError for a value of the wrong type.

    ``changes`` holds the new values of ``flagged``, ``tags`` and ``note``; missing ones are not changed. ``set_name``
    is the output set of the record's row (e.g. sft), and ``trace`` is the SHA-256 of the row's trace.
    """
    flagged, tags, note = (changes.get(name, getattr(mark, name)) for name in CHANGED)
    are_texts = isinstance(tags, list | tuple) and all(isinstance(each, str) for each in (note, *tags))
    if not (are_texts and isinstance(flagged, bool)):
        raise ValueError(
            'a field has the wrong type: "flagged" must be true or false, "tags" a list of texts, and "note" a text'
        )
    return Mark(mark.id, trace, flagged, tuple(tags), note, set=set_name)


def _check(mark: Mark) -> None:
    """Raise ValueError for a mark that cannot be kept.

    The note or a tag is too long, a tag contains a comma, there are too many tags, or a text contains half a character
    (a lone surrogate). Files and the table of rows cannot hold half a character.
    """
    for name, texts in {"id": [mark.id], "trace": [mark.trace], "tags": mark.tags, "note": [mark.note]}.items():
        if any(storable(each) != each for each in texts):
            raise ValueError(f'"{name}" contains half a character (a lone surrogate): remove it')
    if len(mark.note) > MAX_NOTE_CHARS:
        raise ValueError(f"the note has {len(mark.note)} characters: shorten it to at most {MAX_NOTE_CHARS}")
    if len(mark.tags) > MAX_TAGS or any(not 0 < len(tag) <= MAX_TAG_CHARS or "," in tag for tag in mark.tags):
        raise ValueError(
            f"the tags are invalid: give at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARS} characters without commas"
        )


def seen_trace(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the trace (reasoning with answer) that the page of a row shows first; "" if it has none.

    ``row`` is a row of a shard. Only two of its columns are used; both may be missing. If ``traces`` has traces, the
    trace with the highest score is used. Otherwise the trace is the last turn in ``messages``.
    """
    traces, messages = row.get("traces") or [], row.get("messages") or []
    if traces:
        return text_digest(max(traces, key=lambda each: each["score"] if each["score"] is not None else -1.0)["text"])
    return text_digest(messages[-1]["content"]) if messages else ""


def text_digest(text: str | None) -> str:
    """Return the SHA-256 of a text in UTF-8, as hexadecimal digits. None is treated as an empty text."""
    return hashlib.sha256((text or "").encode("utf-8", "backslashreplace")).hexdigest()


def flags_of(run: Path) -> dict[str, Mark]:
    """Return the marks of the records that a person has flagged in ``beam view``, by the id of the record.

    ``run`` is the run folder. Raises :class:`groundtrace.publishing.reading.InspectError` if the file of marks cannot
    be read.
    """
    return {mark.id: mark for mark in Reviews(run) if mark.flagged}


def known_flags(run: Path) -> dict[str, Mark]:
    """Return the marks of the flagged records by record id (:func:`flags_of`). If the marks cannot be read, print a
    note on stderr, and return an empty dict.

    Use this function for hints about flags: a command that does not leave out flagged rows must not fail because of the
    marks.
    """
    try:
        return flags_of(run)
    except (UserError, OSError) as error:
        say(f"note: it is unknown which rows are flagged, because {error}", file=sys.stderr)
        return {}


def outdated_hint(flags: int) -> str:
    """Return a hint for a user who leaves out flagged rows. ``flags`` (above 0) is the number of these rows whose flag
    was set on another version of the row.
    """
    were = "was set on another version of its row" if flags == 1 else "were set on other versions of their rows"
    return f"{flags} of these flags {were}: look at the present row in `beam view`, and remove a flag that is outdated"


def flags_hint(rows: int) -> str:
    """Return a hint for a user who exports or publishes flagged rows. ``rows`` (above 0) is their number."""
    them = "is flagged in `beam view`: --without-flagged leaves it out"
    if rows > 1:
        them = "are flagged in `beam view`: --without-flagged leaves them out"
    return f"{rows} of these rows {them}"


def _mark(fields: dict[str, Any]) -> Mark:
    """Convert a line of ``marks.jsonl``, parsed as JSON, to a mark: the flag, tags and note of a record.

    Raises KeyError or TypeError if the id or the tags are missing, if a field is unknown, or if a field has the wrong
    type.
    """
    mark = Mark(**{**fields, "tags": tuple(fields["tags"])})
    texts = (mark.id, mark.trace, mark.note, mark.at, mark.set, *mark.tags)
    if not all(isinstance(each, str) for each in texts) or not isinstance(mark.flagged, bool):
        raise TypeError("'flagged' must be true or false, and id, trace, note, at, set and all tags must be texts")
    return mark
