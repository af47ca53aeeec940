"""Qwen2.5-VL: pixels of the image as its processor resized it; ``bbox_2d`` in JSON, points in XML tags or JSON.

Source: QwenLM/Qwen2.5-VL, cookbooks/spatial_understanding.ipynb. Images are resized as qwen-vl-utils does
(:func:`schemas.coordinates.smart_resize`), in steps of 28 px.

Known limits: a server that resizes otherwise (``max_pixels`` below the default, another version of vLLM) shifts every
coordinate: serve it with the limits of :data:`schemas.coordinates.QWEN25_IMAGE`.
"""

from inference.families.base import Family
from inference.families.json_reply import box_reader, key, point_reader
from schemas.coordinates import QWEN25_IMAGE, CoordinateFrame
from schemas.responses.pointing import NoPoints, RawPoint, parse_pointer_reply

_in_json = point_reader(key("point_2d"))


def read_points(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """The points of tags, or of ``point_2d`` in JSON.

    Raises :class:`schemas.responses.pointing.UnparsablePointing` and :class:`inference.grounding.BadReply`.
    """
    return parse_pointer_reply(text) if "<point" in text.lower() else _in_json(text)


QWEN25_VL = Family(
    "qwen2.5-vl",
    CoordinateFrame.QWEN25_RESIZED_PX,
    resize=QWEN25_IMAGE,
    point_prompt="point_qwen25_vl.v1",
    box_prompt="box_qwen25_vl.v1",
    point_form='<points x1="…" y1="…" x2="…" y2="…" alt="LABEL">LABEL</points> in pixels, or There are none.',
    box_form='[{"bbox_2d": [x1, y1, x2, y2], "label": "LABEL"}, …] in pixels, or [] if there is none',
    read_points=read_points,
    read_boxes=box_reader(key("bbox_2d")),
    strict_labels=True,
    trained_as=("qwen2_5_vl",),
)
