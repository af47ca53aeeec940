"""Describes how Qwen3-VL (and 3.5) writes coordinates: from 0 to 1000, in a JSON list of objects with ``bbox_2d`` or
``point_2d``.

The sources are cookbooks/2d_grounding.ipynb and evaluation/ODinW-13 of QwenLM/Qwen3-VL. Images are resized as
qwen-vl-utils does (:func:`groundtrace.schemas.coordinates.smart_resize`): the width and the height become multiples of
32 px. This matters only to the trainer, since the coordinates do not depend on the size of the image.

Known limits: lists of more than about 40 instances can repeat until the token limit. A truncated list is requested
again and never used in part.
"""

from groundtrace.inference.families.base import Family
from groundtrace.inference.families.json_reply import box_reader, key, point_reader
from groundtrace.schemas.coordinates import CoordinateFrame, ResizeRule

QWEN3_IMAGE = ResizeRule(32, 4 * 32**2, 16384 * 32**2)

QWEN3_VL = Family(
    "qwen3-vl",
    CoordinateFrame.NORM1000,
    resize=QWEN3_IMAGE,
    point_prompt="point_qwen3_vl.v1",
    box_prompt="box_qwen3_vl.v1",
    point_form='[{"point_2d": [x, y], "label": "LABEL"}, …] with x and y from 0 to 1000, or [] if there is none',
    box_form='[{"bbox_2d": [x1, y1, x2, y2], "label": "LABEL"}, …] with numbers from 0 to 1000, or [] if there is none',
    read_points=point_reader(key("point_2d")),
    read_boxes=box_reader(key("bbox_2d")),
    reads_prose=True,
    trained_as=("qwen3_vl",),
)
