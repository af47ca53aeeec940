"""Exports rows as JSON Lines, with the images as files in a folder.

A line holds all columns of a row, except ``overlays`` (copies of the images with drawings for the teacher).
"""

from functools import partial
from pathlib import Path

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.records import with_everything
from groundtrace.publishing.exports.writers import LinesWriter, Record


def open_side(side: str, folder: Path, target: Target) -> LinesWriter:
    """Open a writer that writes the rows of a training set to one file of JSON Lines in ``folder``.

    ``side`` is sft or rl, and is the name of the file. ``target`` describes the run and the model to be trained.
    """

    def record(row: ExportRow, images: list[str]) -> Record:
        return with_everything(row, images, target)

    return LinesWriter(folder / f"{side}.jsonl", record)


JSONL = ExportFormat(
    name="jsonl",
    does="JSON lines with every column of the rows, and the images as files",
    open={side: partial(open_side, side) for side in ("sft", "rl")},
    marks_are_text=True,
    unread=("overlays",),
    is_for_training=False,
)
