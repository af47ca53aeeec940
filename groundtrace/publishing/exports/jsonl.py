"""Exports JSON Lines with every column of the shards except ``overlays``, and with the images as files in a folder."""

from functools import partial
from pathlib import Path

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.records import with_everything
from groundtrace.publishing.exports.writers import LinesWriter, Record


def open_side(side: str, folder: Path, target: Target) -> LinesWriter:
    """Return a writer that writes all rows of a side (sft or rl) to one file."""

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
