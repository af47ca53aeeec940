"""GLM-4.1V, GLM-4.5V and later of Z.ai: shares of 1000 between ``<|begin_of_box|>`` and ``<|end_of_box|>``.

Within these tokens stand lists of numbers, in brackets of varying kind and without labels, or JSON objects with
``bbox_2d`` and ``label``. A server that drops special tokens leaves the lists alone. Source: zai-org/GLM-V README
(Grounding) and skills.

Known limits: its thinking holds drafts of boxes, which are not read.
"""

from inference.families.base import Family
from inference.families.json_reply import json_items, key, label_of
from inference.families.number_groups import groups_of
from inference.grounding import BadReply, RawBox, raw_box, raw_point
from schemas.coordinates import CoordinateFrame
from schemas.responses.pointing import NoPoints, RawPoint, says_none

_BEGIN, _END = "<|begin_of_box|>", "<|end_of_box|>"


def read_boxes(text: str) -> tuple[RawBox, ...]:
    """The boxes of a reply. Raises :class:`inference.grounding.BadReply`."""
    return tuple(raw_box(row, label) for row, label in _rows(text, "bbox_2d", 4, "box"))


def read_points(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """The points of a reply. Raises :class:`inference.grounding.BadReply`."""
    rows = _rows(text, "point_2d", 2, "point")
    return tuple(raw_point(row, label) for row, label in rows) or NoPoints(text.strip())


def _rows(text: str, name: str, count: int, what: str) -> list[tuple[object, str]]:
    """The coordinates of a reply with their labels, part by marked part."""
    opened = text.split(_BEGIN)[1:]
    if any(_END not in part for part in opened):
        raise BadReply(f"the reply ends before {_END}")
    marked = [part.partition(_END)[0] for part in opened]
    found: list[tuple[object, str]] = []
    for part in marked or [text]:
        if "{" in part and name in part:
            found += [(item[name], label_of(item)) for item in json_items(part, key(name))]
        elif not says_none(part):
            found += [(row, "") for row in groups_of(part, count, what)]
    return found


GLM_V = Family(
    "glm-v",
    CoordinateFrame.NORM1000,
    point_prompt="point_glm_v.v1",
    box_prompt="box_glm_v.v1",
    point_form="<|begin_of_box|>[[x, y], …]<|end_of_box|> with numbers from 0 to 1000, and [] in it if there is none",
    box_form="<|begin_of_box|>[[x1, y1, x2, y2], …]<|end_of_box|> with numbers from 0 to 1000, and [] in it if there "
    "is none",
    read_points=read_points,
    read_boxes=read_boxes,
    strict_labels=True,
)
