"""Describes how Anthropic's Claude writes coordinates: in JSON, in pixels of the image as it is resized for the model.

The JSON has this project's own form, since Claude has no fixed form. The sources are the pages vision and
vision-coordinates of platform.claude.com. The prompt must request pixels explicitly. The pixels refer to the resized
image without its padding (:class:`groundtrace.schemas.coordinates.FitRule`).

Known limits: the size to which an image is reduced depends on the model. :data:`CLAUDE` is right for Claude 4.7 and
later, :data:`CLAUDE_1568` for earlier models. If an image is so small that the earlier models do not reduce it, these
two descriptions give the same coordinates.
"""

from dataclasses import replace

from groundtrace.inference.families.base import Family
from groundtrace.inference.families.json_reply import box_reader, coordinates, point_reader
from groundtrace.schemas.coordinates import CLAUDE_IMAGE, CLAUDE_STANDARD_IMAGE, CoordinateFrame

CLAUDE = Family(
    "claude",
    CoordinateFrame.CLAUDE_RESIZED_PX,
    resize=CLAUDE_IMAGE,
    point_prompt="point_claude.v1",
    box_prompt="box_claude.v1",
    point_form='{"points": [[x, y], …]} in pixels, with an empty list if there is none',
    box_form='{"boxes": [[x1, y1, x2, y2], …]} in pixels, with an empty list if there is none',
    read_points=point_reader(coordinates(2, "point"), "points"),
    read_boxes=box_reader(coordinates(4, "box", "bbox"), "boxes"),
    reads_prose=True,
)
CLAUDE_1568 = replace(CLAUDE, name="claude-1568", resize=CLAUDE_STANDARD_IMAGE)
