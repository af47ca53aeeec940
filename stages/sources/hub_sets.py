"""Reads sets on the Hugging Face Hub that are named ``hf://ORG/NAME[/CONFIG][@REVISION]``, above all published runs.

A set that Groundtrace made needs no column map: ``images`` are a row's media, and ``gold_boxes`` its boxes, unless a
detector found them. The frames of a clip are read as images. The rows of any other set stay unchanged.
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
    """The names of a set: its id, its config ("" for the only one) and its revision ("" for the newest)."""

    id: str
    config: str = ""
    revision: str = ""


def hub_set(name: str) -> HubSet:
    """Return the set that a name with ``hf://`` means. Raises InputError for a name of another form."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise InputError(
            f"{name} is not the name of a set: write hf://ORG/NAME, hf://ORG/NAME/rl or hf://ORG/NAME/rl@TAG"
        )
    if Path(found["id"]).exists():  # `datasets` would read the folder of that name, and not the Hub
        raise InputError(
            f"{name}: the folder {found['id']} here has the same name: run in another folder, or give its path as input"
        )
    return HubSet(**found.groupdict(default=""))


def as_asked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row that Groundtrace made, with its boxes converted to the form of an input; return any other row
    unchanged.
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
