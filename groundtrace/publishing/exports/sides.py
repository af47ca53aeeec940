"""Writes one training set (sft or rl) of an export. Every row of the shards is written, or left out with a reason."""

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target, Writer
from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.publishing.exports.rows import read_rows, ready_rows
from groundtrace.publishing.view.reviews import Mark, seen_trace

LEFT_OUT = "left_out.jsonl"


@dataclass
class SideCounts:
    """Holds how many rows of a training set an export read, wrote and left out.

    Attributes:
        read: the number of rows read from the shards (Parquet files of the run). It is ``written`` plus all rows in
            ``left_out``.
        written: the number of these rows that were written.
        prompts: the number of rows in the export. It is larger than ``written`` if a row of the shards becomes one row
            for each of its streams (prompts).
        left_out: the number of left-out rows by reason.
        flagged: the number of written rows whose record a reviewer has flagged in ``beam view``.
        outdated: the number of rows that are left out because of a flag that was set on another version of the row.
    """

    read: int = 0
    written: int = 0
    prompts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    flagged: int = 0
    outdated: int = 0


def write_side(
    run: Path,
    side: str,
    form: ExportFormat,
    target: Target,
    folder: Path,
    flags: Mapping[str, Mark],
    without_flagged: bool,
) -> SideCounts:
    """Write the rows of a training set to a folder. Return how many rows were read, written and left out.

    ``run`` is the run folder. ``side`` is the training set: sft or rl. ``form`` is the export format, and ``target``
    describes the model to be trained. ``flags`` holds the marks of the rows that a reviewer flagged in ``beam view``,
    by id. These rows are left out if ``without_flagged`` is True, and else counted. Rows that the format cannot
    represent are left out, too. ``folder`` is the folder to write. Its file :data:`LEFT_OUT` lists all left-out rows.
    """
    with contextlib.closing(form.open[side](folder, target)) as writer:
        rows = Side(side, folder, writer, flags)
        for fields in read_rows(run, side, form):
            id, number = fields.get("id"), rows.counts.read
            rows.counts.read += 1
            if without_flagged and (mark := flags.get(id or "")):
                rows.leave_out_flagged(mark, fields)
                continue
            try:
                rows.put(ready_rows(fields, side, number, form, target))
            except LeftOut as error:
                rows.leave_out(id, error)
        rows.end()
    return rows.counts


class Side:
    """Passes the rows of a training set to a writer, so that all rows of a question get into the same training batch.

    A question may have two streams, which are two prompts for the same question. Such a question becomes two rows. The
    trainer must take an even number of rows for each batch. Then the two rows are in the same batch if they are the
    rows 0 and 1, or 2 and 3, and so on.

    A question with only one stream becomes a single row. If this row were written immediately, the two rows of the next
    question could be the rows 1 and 2, and get into different batches. So the single row is stored until :meth:`put`
    gets the single row of another question with only one stream. Then the two single rows are written, one after the
    other.

    ``side`` is the training set (sft or rl), ``folder`` is the export folder, and ``writer`` writes the rows. ``flags``
    holds the marks of the rows that a reviewer flagged, by id. ``counts`` holds the numbers of written and left-out
    rows.
    """

    def __init__(self, side: str, folder: Path, writer: Writer, flags: Mapping[str, Mark]) -> None:
        self.counts = SideCounts()
        self._side, self._folder, self._writer, self._flags = side, folder, writer, flags
        self._waiting: Sequence[ExportRow] = ()

    def put(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question. If the writer cannot write one of them, leave out all of them.

        There are three cases:

        - ``rows`` are two rows, because the question has two prompts (streams). They are written immediately.
        - ``rows`` is one row without a stream. It is written immediately.
        - ``rows`` is one row with a stream. It is stored, and written together with the next such row (see the class).
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
        """Write the stored single row, if there is one. Call this after the last row.

        A stream is one of the prompts for a question. The row of a question with only one stream is stored until the
        next such question, so that both are written together (:meth:`put`). After the last row, no question follows.
        """
        waiting, self._waiting = self._waiting, ()
        if waiting:
            self._write(waiting)

    def _write(self, rows: Sequence[ExportRow]) -> bool:
        """Write the rows of one question. Return True if they were written, False if they were left out."""
        try:
            self._writer.write(rows)
        except LeftOut as error:
            self.leave_out(rows[0].fields.get("id"), error)
            return False
        self.counts.written += 1
        self.counts.flagged += rows[0].fields.get("id") in self._flags
        self.counts.prompts += len(rows)
        return True

    def leave_out_flagged(self, mark: Mark, fields: Mapping[str, Any]) -> None:
        """Leave out a row because of its flag. ``mark`` has the flag, and ``fields`` are the row's columns.

        The detail (a text in the list of left-out rows) states whether the flag was set on another version of the row,
        because a repeated run may have replaced the row's trace. The detail does not contain the reviewer's note. The
        note may name people or other private facts, and exports are often passed on to other people.
        """
        details = ["the reviewer's note is in `beam view`"] if mark.note else []
        if not mark.is_about(self._side, seen_trace(fields)):
            self.counts.outdated += 1
            details.append("the row has changed since it was flagged")
        self.leave_out(mark.id, LeftOut("flagged", "; ".join(details)))

    def leave_out(self, id: object, error: LeftOut) -> None:
        """Count a row that is left out, and add it to the file :data:`LEFT_OUT`.

        ``id`` is the id of the row. ``error`` states the reason.
        """
        self.counts.left_out[error.reason] += 1
        entry = {"side": self._side, "id": id, "reason": error.reason, "detail": error.detail}
        with (self._folder / LEFT_OUT).open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(entry, ensure_ascii=False)}\n")
