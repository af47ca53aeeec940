"""Reads data sets on the Hugging Face Hub, such as published runs, by names ``hf://ORG/NAME[/CONFIG][@REVISION]``.

A data set that Groundtrace made needs no column map (``input.columns``). A row's media are its ``images``, and its
boxes are its ``gold_boxes``. Boxes that a detector found are left out. The frames of a clip are read as images. The
rows of any other data set stay unchanged.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtrace.stages.sources.base import InputError

_NAME = re.compile(
    r"hf://(?:datasets/)?(?P<id>\w[\w.-]*/\w[\w.-]*)(?:/(?P<config>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?", re.ASCII
)
_OWN = ("lineage", "gold_boxes", "boxes_source")
"""The columns that identify a set that Groundtrace made."""
_CORNERS = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True)
class HubSet:
    """Holds the parts of a data set's name on the Hub: its id, config and revision.

    ``config`` is "" if the name has no config. ``revision`` is "" for the newest revision.
    """

    id: str
    config: str = ""
    revision: str = ""


def hub_set(name: str) -> HubSet:
    """Split the name of a data set, such as ``hf://ORG/NAME/rl@v1``, into its parts, and return them.

    Raises InputError for a name of another form. Also raises InputError if a local folder has the path ``ORG/NAME``,
    because the library ``datasets`` would read that folder instead.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise InputError(
            f"{name} is not the name of a data set on the Hub: write hf://ORG/NAME, hf://ORG/NAME/rl or "
            "hf://ORG/NAME/rl@TAG"
        )
    if Path(found["id"]).exists():  # `datasets` would read the folder of that name, and not the Hub
        raise InputError(
            f"{name} names a data set on the Hub, but the package `datasets` would read the local folder "
            f"{found['id']} instead: run the command in another folder, or give the local path as --input"
        )
    return HubSet(**found.groupdict(default=""))


def as_asked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of a data set on the Hub with the fields of an input record.

    If Groundtrace wrote the row, the result has the additional field ``boxes``, with the boxes of the column
    ``gold_boxes``. The field is None if the row has no boxes, or if a detector found them: a detector's boxes are not
    known to be right, so they are not used as gold boxes. Any other row is returned unchanged.
    """
    if not all(name in row for name in _OWN):
        return row
    boxes = None if row["boxes_source"] == "detector" else row["gold_boxes"]
    return {**row, "boxes": None if boxes is None else [_as_input(box) for box in boxes]}


def _as_input(box: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "label": box["label"],
        "bbox": [box[corner] for corner in _CORNERS],
        "media_index": box.get("media_index") or 0,
    }
