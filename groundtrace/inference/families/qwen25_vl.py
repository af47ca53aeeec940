"""Describes how Qwen2.5-VL writes coordinates: in pixels of the image as resized by its processor. Boxes are in JSON
(``bbox_2d``), points in XML tags or JSON.

Checkpoints trained on the form of Qwen2-VL write
``<|object_ref_start|>label<|object_ref_end|><|box_start|>(x1,y1),(x2,y2)<|box_end|>``, in the same pixels
(QwenLM/Qwen3-VL issues 762 and 733; ms-swift).

The source is cookbooks/spatial_understanding.ipynb of QwenLM/Qwen2.5-VL. Images are resized as qwen-vl-utils does
(:func:`groundtrace.schemas.coordinates.smart_resize`): the width and the height become multiples of 28 px.

Known limits: all coordinates are shifted if a server resizes images differently, e.g. because its ``max_pixels`` is
below the default, or because its version of vLLM has another rule. So serve the model with the limits on the image size
that are in :data:`groundtrace.schemas.coordinates.QWEN25_IMAGE`.
"""

import re
from collections.abc import Sequence

from groundtrace.grading.responses.pointing import NoPoints, RawPoint, has_point_tags, parse_pointer_reply
from groundtrace.inference.families.base import Family
from groundtrace.inference.families.json_reply import box_reader, key, point_reader
from groundtrace.inference.families.number_groups import groups_of
from groundtrace.inference.grounding import BadReply, RawBox, raw_box, raw_point
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame

_points_in_json, _boxes_in_json = point_reader(key("point_2d")), box_reader(key("bbox_2d"))
_REF = re.compile(r"<\|object_ref_start\|>([^<]*)<\|object_ref_end\|>")
_BEGIN, _END = "<|box_start|>", "<|box_end|>"


def read_points(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """Parse the points of the reply ``text``, which are in tags, in JSON under ``point_2d``, or between the special
    tokens of Qwen2-VL. The numbers stay as the model wrote them, in its coordinate frame. Returns NoPoints if the reply
    states that the object is absent.

    If the points cannot be parsed, the function raises
    :class:`groundtrace.grading.responses.pointing.UnparsablePointing` for tags, and
    :class:`groundtrace.inference.grounding.BadReply` for any other reply.
    """
    if _BEGIN in text:
        return tuple(raw_point(row, label) for row, label in _marked(text))
    return parse_pointer_reply(text) if has_point_tags(text) else _points_in_json(text)


def read_boxes(text: str) -> Sequence[RawBox]:
    """Parse the boxes of the reply ``text``, which are in JSON under ``bbox_2d``, or between the special tokens of
    Qwen2-VL. The numbers stay as the model wrote them, in its coordinate frame. The result is empty if the reply states
    that the object is absent. Raises :class:`groundtrace.inference.grounding.BadReply` if the boxes cannot be parsed.
    """
    return [raw_box(row, label) for row, label in _marked(text)] if _BEGIN in text else _boxes_in_json(text)


def _marked(text: str) -> list[tuple[list[float], str]]:
    """Return the points or boxes of a reply in the form of Qwen2-VL.

    Each pair of ``<|box_start|>`` and ``<|box_end|>`` gives one element of the result: the numbers between them, and
    the last label before them ("" if there is no label). Raises BadReply if the reply is truncated.
    """
    before, *opened = text.split(_BEGIN)
    found: list[tuple[list[float], str]] = []
    label = ""
    for part in opened:
        inside, end, after = part.partition(_END)
        if not end:
            raise BadReply(f"the reply ends before {_END}")
        labels = _REF.findall(before)
        label = labels[-1].strip() if labels else label
        found.append(([value for pair in groups_of(inside, 2, "corner") for value in pair], label))
        before = after
    if "<|object_ref_start|>" in before:
        raise BadReply("the reply ends before its last label has a box: write a box after each label")
    return found


QWEN25_VL = Family(
    "qwen2.5-vl",
    CoordinateFrame.QWEN25_RESIZED_PX,
    resize=QWEN25_IMAGE,
    point_prompt="point_qwen25_vl.v1",
    box_prompt="box_qwen25_vl.v1",
    point_form='<points x1="…" y1="…" x2="…" y2="…" alt="LABEL">LABEL</points> in pixels, or There are none.',
    box_form='[{"bbox_2d": [x1, y1, x2, y2], "label": "LABEL"}, …] in pixels, or [] if there is none',
    read_points=read_points,
    read_boxes=read_boxes,
    reads_prose=True,
    trained_as=("qwen2_5_vl",),
)
