"""Exports to WebDataset: tar files with the images of each row, and with its columns as JSON.

In WebDataset, all files of a row have the same key at the beginning of their names. The keys are ``sft-000000000``,
``sft-000000001`` and so on. The ids of the rows are not used as keys, because they may contain slashes, full stops and
other characters; the JSON of a row holds its id. The JSON's ``images`` lists the extensions of the row's images, in
order.
"""

from functools import partial
from pathlib import Path

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.records import with_everything
from groundtrace.publishing.exports.writers import Record, TarWriter


def open_side(side: str, folder: Path, target: Target) -> TarWriter:
    """Open a writer that writes the rows of a training set to tar files of bounded size in ``folder``.

    ``side`` is sft or rl. ``target`` describes the run and the model to be trained.
    """

    def record(row: ExportRow, images: list[str]) -> Record:
        return with_everything(row, images, target)

    return TarWriter(folder, side, record)


WEBDATASET = ExportFormat(
    name="webdataset",
    does="tar files of images and JSON for webdataset",
    open={side: partial(open_side, side) for side in ("sft", "rl")},
    marks_are_text=True,
)
