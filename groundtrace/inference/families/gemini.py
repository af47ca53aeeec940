"""Describes how Google's Gemini (2.5, 3, Robotics-ER) writes coordinates: from 0 to 1000, y before x, in JSON with
``point`` or ``box_2d``.

The sources are the pages of ai.google.dev on robotics (spatial reasoning) and on image understanding. Gemini 3.6 and
later put the list in an object under ``boxes``. A box may have a mask (an image, or a polygon with x first), which is
ignored, because the segmenter makes the masks.

Known limits: the models sometimes write the corners of a box in reverse order, and the parser then exchanges them. Long
lists can repeat endlessly at temperature 0, so the prompt requests at most 50 items. If an image has more objects, the
others are not found.
"""

from groundtrace.inference.families.base import Family
from groundtrace.inference.families.json_reply import box_reader, coordinates, point_reader
from groundtrace.schemas.coordinates import CoordinateFrame

GEMINI = Family(
    "gemini",
    CoordinateFrame.GEMINI,
    point_prompt="point_gemini.v1",
    box_prompt="box_gemini.v1",
    point_form='[{"point": [y, x], "label": "LABEL"}, …] with y and x from 0 to 1000, or [] if there is none',
    box_form='[{"box_2d": [ymin, xmin, ymax, xmax], "label": "LABEL"}, …] with numbers from 0 to 1000, '
    "or [] if there is none",
    read_points=point_reader(coordinates(2, "point", y_first=True), "points"),
    read_boxes=box_reader(coordinates(4, "box_2d", y_first=True), "boxes"),
    reads_prose=True,
    any_corners=True,
)
