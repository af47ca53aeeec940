"""Describes how Molmo 2 of the Allen Institute writes points: ``<points coords="F id x y id x y">label</points>`` with
x and y from 0 to 1000.

For images, F is the number of the image, counted from 1. For a clip, F is the time of a frame in seconds. ``id`` is the
number of the object. If the points are in several images or frames, ``coords`` has one part ``F id x y …`` for each of
these, and a tab or a semicolon separates the parts. The sources are olmo/preprocessing/point_formatter.py and
data_formatter.py of allenai/molmo2.

Known limits: the models have no form for boxes, so they cannot be detectors. MolmoPoint's special tokens are not
supported.
"""

import re

from groundtrace.grading.responses.pointing import NoPoints, RawPoint, UnparsablePointing, parse_pointer_reply
from groundtrace.inference.families.base import Family
from groundtrace.schemas.coordinates import CoordinateFrame

_OPEN, _CLOSE = re.compile(r"<(?:points|tracks)\s", re.IGNORECASE), re.compile(r"</(?:points|tracks)", re.IGNORECASE)
_DECIMAL = re.compile(r"\b[xy]\d*\s*=\s*[\"'“”]?\d+\.")


def read_points(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """Parse the points of ``text``, a reply to a prompt with one image. The numbers stay as the model wrote them, in
    its coordinate frame. Returns NoPoints if the reply states that the object is absent.

    Raises :class:`groundtrace.grading.responses.pointing.UnparsablePointing` in these cases:

    - The points cannot be parsed.
    - The points are on several images or times, or on another image than the first.
    - The tags have the decimals of Molmo 1, whose coordinates are from 0 to 100.
    """
    found = parse_pointer_reply(text)
    if isinstance(found, NoPoints):
        return found
    if len(_OPEN.findall(text)) > len(_CLOSE.findall(text)):
        raise UnparsablePointing("the reply ends before its last closing tag: write </points> after the label")
    anchors = {point.anchor for point in found}
    if len(anchors) > 1 or any(anchor is not None and anchor > 1 and anchor.is_integer() for anchor in anchors):
        raise UnparsablePointing(
            "the points are on several images or times, or not on image 1: write only points on image 1"
        )
    if None in anchors and _DECIMAL.search(text):
        raise UnparsablePointing(
            "the points are in the form of Molmo 1, which has another frame of coordinates: "
            "write numbers from 0 to 1000"
        )
    return found


MOLMO2 = Family(
    "molmo2",
    CoordinateFrame.MOLMO1000,
    point_prompt="point_molmo.v1",
    box_prompt="",
    point_form='<points coords="1 1 x y 2 x y">LABEL</points> with x and y from 000 to 1000, or There are none.',
    read_points=read_points,
    reads_prose=True,
)
