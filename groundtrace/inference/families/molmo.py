"""Describes how Molmo 1 of the Allen Institute writes points: from 0 to 100 with one decimal, in tags. The model is
trained to point.

The sources are two files of allenai/molmo: olmo/data/data_formatter.py has the prompts, and olmo/util.py has the
parser, which also reads ``Click(x, y)``. Replies for absent objects are parsed by
:func:`groundtrace.grading.responses.pointing.parse_pointer_reply`.

Known limits: the models have no form for boxes, so they cannot be detectors.
"""

import re

from groundtrace.grading.responses.pointing import (
    NoPoints,
    RawPoint,
    UnparsablePointing,
    has_point_tags,
    parse_pointer_reply,
)
from groundtrace.inference.families.base import Family
from groundtrace.schemas.coordinates import CoordinateFrame

_ANY_CLICK = re.compile(r"\bclick\s*\(", re.IGNORECASE)
_CLICK = re.compile(r"Click\((\d{1,3}\.\d), ?(\d{1,3}\.\d)\)")


def read_points(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """Parse the points of the reply ``text``, which are in tags (``<point x="…" y="…">``) or clicks (``Click(x, y)``).
    The numbers stay as the model wrote them, in its coordinate frame. Returns NoPoints if the reply states that the
    object is absent.

    Raises :class:`groundtrace.grading.responses.pointing.UnparsablePointing` if the points cannot be parsed, if some
    are in tags and others in clicks, or if they are in tags of Molmo 2.
    """
    clicks = tuple(RawPoint("", float(x), float(y)) for x, y in _CLICK.findall(text))
    if clicks and (len(clicks) < len(_ANY_CLICK.findall(text)) or has_point_tags(text)):
        raise UnparsablePointing(
            f"the reply has points in several forms ({text.strip()[:80]!r}): write all as tags with x and y"
        )
    found = clicks or parse_pointer_reply(text)
    if not isinstance(found, NoPoints) and any(point.anchor is not None for point in found):
        raise UnparsablePointing(
            "the points are in the form of Molmo 2, which has another frame of coordinates: write numbers from 0 to 100"
        )
    return found


MOLMO = Family(
    "molmo",
    CoordinateFrame.MOLMO100,
    decimals=1,
    point_prompt="point_molmo.v1",
    box_prompt="",
    read_points=read_points,
    reads_prose=True,
)
