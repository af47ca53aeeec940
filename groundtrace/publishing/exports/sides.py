"""A side of an export as it is written: every row of the shards ends as written or as left out for a reason."""

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target, Writer
from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.publishing.exports.rows import read_rows, ready_rows

LEFT_OUT = "left_out.jsonl"


@dataclass
class SideCounts:
    """Rows of a side: as many were read as were written or left out for a reason; ``prompts`` are the rows in the
    export, one for each stream that a row is asked in.
    """

    read: int = 0
    written: int = 0
    prompts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def write_side(run: Path, side: str, form: ExportFormat, target: Target, folder: Path) -> SideCounts:
    """Writes the rows of a side in a folder, with :data:`LEFT_OUT` where some are left out; returns the counts."""
    with contextlib.closing(form.open[side](folder, target)) as writer:
        rows = Side(side, folder, writer)
        for fields in read_rows(run, side, form):
            id, number = fields.get("id"), rows.counts.read
            rows.counts.read += 1
            try:
                rows.put(ready_rows(fields, side, number, form, target))
            except LeftOut as error:
                rows.leave_out(id, error)
        rows.end()
    return rows.counts


class Side:
    """The rows of a side on their way to a writer, and their counts.

    The streams of a question are written side by side. A question that is asked in one stream alone waits for the next
    such question, so that every two rows from the first on are whole questions, whatever the mix.
    """

    def __init__(self, side: str, folder: Path, writer: Writer) -> None:
        self.counts = SideCounts()
        self._side, self._folder, self._writer = side, folder, writer
        self._waiting: Sequence[ExportRow] = ()

    def put(self, rows: Sequence[ExportRow]) -> None:
        """Takes the rows of one question, which are written or left out together."""
        if len(rows) > 1 or not rows[0].stream:
            self._write(rows)
            return
        waiting, self._waiting = self._waiting, ()
        if waiting and self._write(waiting):
            self._write(rows)
        else:
            self._waiting = rows

    def end(self) -> None:
        """Writes the question that waits for another one."""
        waiting, self._waiting = self._waiting, ()
        if waiting:
            self._write(waiting)

    def _write(self, rows: Sequence[ExportRow]) -> bool:
        """Returns whether the rows were written, and not left out."""
        try:
            self._writer.write(rows)
        except LeftOut as error:
            self.leave_out(rows[0].fields.get("id"), error)
            return False
        self.counts.written += 1
        self.counts.prompts += len(rows)
        return True

    def leave_out(self, id: object, error: LeftOut) -> None:
        """Counts a row that is not written, and names it in the file."""
        self.counts.left_out[error.reason] += 1
        entry = {"side": self._side, "id": id, "reason": error.reason, "detail": error.detail}
        with (self._folder / LEFT_OUT).open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(entry, ensure_ascii=False)}\n")
