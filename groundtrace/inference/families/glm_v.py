"""Describes how GLM-4.1V, GLM-4.5V and later models of Z.ai write coordinates, which are from 0 to 1000.

The models write the coordinates between the special tokens ``<|begin_of_box|>`` and ``<|end_of_box|>``, in one of two
forms:

- JSON objects with the keys ``bbox_2d`` and ``label``;
- lists of numbers, in different kinds of brackets. They have no label between the tokens, but may have one before the
  tokens: ``dog: <|begin_of_box|>[[1, 2, 3, 4]]<|end_of_box|>``.

Some servers drop the special tokens of a reply. Without these tokens, JSON objects are parsed as usual, but lists of
numbers are parsed as prose (:mod:`groundtrace.inference.families.prose`). The sources are in the GitHub repository
zai-org/GLM-V: the section Grounding of the README, and the folder ``skills``.

Known limits: the thinking contains drafts of boxes, which are ignored.
"""

import re

from groundtrace.grading.responses.pointing import NoPoints, RawPoint, states_none
from groundtrace.inference.families.base import Family
from groundtrace.inference.families.json_reply import json_items, key, label_of
from groundtrace.inference.families.number_groups import groups_of
from groundtrace.inference.families.prose import label_in
from groundtrace.inference.grounding import BadReply, RawBox, raw_box, raw_point
from groundtrace.schemas.coordinates import CoordinateFrame

_NO_ROWS = re.compile(r"\s*\[[\[\]\s]*\]\s*")
_BEGIN, _END = "<|begin_of_box|>", "<|end_of_box|>"


def read_boxes(text: str) -> tuple[RawBox, ...]:
    """Parse the boxes of the reply ``text``. The numbers stay as the model wrote them, in its coordinate frame. Returns
    an empty tuple if the reply states that the object is absent. Raises
    :class:`groundtrace.inference.grounding.BadReply` if the boxes cannot be parsed.
    """
    return tuple(raw_box(row, label) for row, label in _rows(text, "bbox_2d", 4, "box"))


def read_points(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """Parse the points of the reply ``text``. The numbers stay as the model wrote them, in its coordinate frame.
    Returns NoPoints if the reply states that the object is absent. Raises
    :class:`groundtrace.inference.grounding.BadReply` if the points cannot be parsed.
    """
    rows = _rows(text, "point_2d", 2, "point")
    return tuple(raw_point(row, label) for row, label in rows) or NoPoints(text.strip())


def _rows(text: str, name: str, count: int, what: str) -> list[tuple[object, str]]:
    """Return the points or boxes of a reply, each as its coordinates and its label ("" if there is no label).

    The points or boxes are read from each part between ``<|begin_of_box|>`` and ``<|end_of_box|>``. A reply without
    these tokens may hold JSON objects, or state that the object is absent. Raises BadReply if the reply is truncated or
    has another form.

    ``text`` is the reply. ``name`` is the key of the coordinates in JSON objects, e.g. "bbox_2d". ``count`` is 2 for
    points and 4 for boxes. ``what`` is the word for a point or box in error messages, e.g. "box".
    """
    before, *opened = text.split(_BEGIN)
    if not opened:
        if "{" in text and name in text:
            return _objects(text, name)
        if states_none(text) or _NO_ROWS.fullmatch(text):
            return []
        raise BadReply(f"the reply has no {_BEGIN}: {text.strip()[:80]!r}; follow the requested form")
    found: list[tuple[object, str]] = []
    for part in opened:
        inside, end, after = part.partition(_END)
        if not end:
            raise BadReply(f"the reply ends before {_END}")
        if "{" in inside and name in inside:
            found += _objects(inside, name)
        elif not states_none(inside):
            found += [(row, _label_before(before)) for row in groups_of(inside, count, what)]
        before = after
    return found


def _objects(text: str, name: str) -> list[tuple[object, str]]:
    return [(item[name], label_of(item)) for item in json_items(text, key(name))]


def _label_before(text: str) -> str:
    """Return the label in the last line of ``text``, the part of a reply before ``<|begin_of_box|>``. E.g. the line
    "dog: " gives "dog". Returns "" if the line's last sentence is anything else than a label and a colon.
    """
    line = text.rpartition("\n")[2].rstrip()
    label, is_plain = label_in(line)
    return label if is_plain and line.endswith(":") else ""


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
    reads_prose=True,
)
