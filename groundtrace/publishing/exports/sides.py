"""Writes one side (sft or rl) of an export. Every row of the shards is written, or left out with a reason."""

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
    """Holds the counts of a side. ``read``, ``written`` and ``left_out`` (by reason) count rows of the shards.

    ``read`` is ``written`` plus all ``left_out``. ``prompts`` counts the rows of the export: a row of the shards gives
    one row, or one row for each of its streams.
    """

    read: int = 0
    written: int = 0
    prompts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def write_side(run: Path, side: str, form: ExportFormat, target: Target, folder: Path) -> SideCounts:
    """Write the rows of a side to a folder, and list the left-out rows in :data:`LEFT_OUT`. Return the counts."""
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
    """Passes the rows of a side to a writer and counts them.

    A stream is one of several prompts of a question. The rows of a question's two streams are written one after the
    other. A question with only one stream is stored until :meth:`put` gets the next question with one stream. So each
    pair of rows (0 and 1, 2 and 3, and so on) holds the two streams of one question, or two questions with one stream.
    """

    def __init__(self, side: str, folder: Path, writer: Writer) -> None:
        self.counts = SideCounts()
        self._side, self._folder, self._writer = side, folder, writer
        self._waiting: Sequence[ExportRow] = ()

    def put(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question, or leave out all of them if the writer cannot write one of them.

        A question with only one stream is written together with the next question with one stream. Until then, this
        object stores its row.
        """
        if len(rows) > 1 or not rows[0].stream:
            self._write(rows)
            return
        waiting, self._waiting = self._waiting, ()
        if waiting and self._write(waiting):
            self._write(rows)
        else:
            self._waiting = rows

    def end(self) -> None:
        """Write the stored question, if a question is still stored."""
        waiting, self._waiting = self._waiting, ()
        if waiting:
            self._write(waiting)

    def _write(self, rows: Sequence[ExportRow]) -> bool:
        """Return True if the rows were written, False if they were left out."""
        try:
            self._writer.write(rows)
        except LeftOut as error:
            self.leave_out(rows[0].fields.get("id"), error)
            return False
        self.counts.written += 1
        self.counts.prompts += len(rows)
        return True

    def leave_out(self, id: object, error: LeftOut) -> None:
        """Count a row that is left out, and add it to the file :data:`LEFT_OUT`."""
        self.counts.left_out[error.reason] += 1
        entry = {"side": self._side, "id": id, "reason": error.reason, "detail": error.detail}
        with (self._folder / LEFT_OUT).open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(entry, ensure_ascii=False)}\n")
