"""Describes how InternVL 2 to 3.5 writes coordinates: from 0 to 1000, in ``<ref>label</ref><box>[[x1, y1, x2, y2],
…]</box>``.

Some servers drop the special tokens of a reply. The reply is then ``label[[…], […]]``, which is parsed as prose
(:mod:`groundtrace.inference.families.prose`). The sources are streamlit_demo/app.py of OpenGVLab/InternVL and its
documents on grounding data.

Known limits: the models have no form for points. So they are asked for boxes, and the centres of the boxes are used as
points. The models tend to write a box even if the object is absent. They sometimes repeat the literal ``[x1, y1, x2,
y2]`` of a prompt. Such a reply is rejected.
"""

import re

from groundtrace.grading.responses.pointing import states_none
from groundtrace.inference.families.base import Family
from groundtrace.inference.families.number_groups import groups_of
from groundtrace.inference.grounding import BadReply, RawBox, raw_box
from groundtrace.schemas.coordinates import CoordinateFrame

_REF = re.compile(r"<ref>([^<]*)</ref>\s*\Z")


def read_boxes(text: str) -> tuple[RawBox, ...]:
    """Parse the boxes of the reply ``text``. The numbers stay as the model wrote them, in its coordinate frame. Returns
    an empty tuple if the reply states that the object is absent. Raises
    :class:`groundtrace.inference.grounding.BadReply` if the boxes cannot be parsed.
    """
    before, *opened = text.split("<box>")
    if not opened:
        if states_none(text):
            return ()
        raise BadReply(f"the reply has no <box>: {text.strip()[:80]!r}; follow the requested form")
    parts: list[tuple[str, str]] = []
    for part in opened:
        inside, end, after = part.partition("</box>")
        if not end:
            raise BadReply("the reply ends before </box>")
        ref = _REF.search(before)
        parts.append((ref[1] if ref else "", inside))
        before = after
    if "<ref>" in before:
        raise BadReply("the reply ends before its last label has a box: write a box after each label")
    return tuple(raw_box(row, label.strip()) for label, part in parts for row in groups_of(part, 4, "box"))


INTERNVL = Family(
    "internvl",
    CoordinateFrame.NORM1000,
    point_prompt="",
    box_prompt="box_internvl.v1",
    box_form="<ref>LABEL</ref><box>[[…, …, …, …], …]</box> with numbers from 0 to 1000, or There are none.",
    read_boxes=read_boxes,
    reads_prose=True,
)
