"""Describes how Moondream 2 and 3 write coordinates: ``{"points": [{"x", "y"}]}`` and ``{"objects": [{"x_min", "y_min",
…}]}``, from 0 to 1.

The sources are vikhyat/moondream and docs.moondream.ai (point, detect).

Known limits: Moondream has two separate calls: ``/v1/point`` for pointing, and ``/v1/detect`` for detection. In these
two calls the model does not generate the coordinates as text. They return at most 50 instances. The chat call of
Moondream (``/v1/chat/completions``) is documented only for questions. But the prompts of this family are sent as chat
requests, and request JSON in the form that the two calls return. So good results need a gateway that answers such a
chat request by one of the two calls. The replies have no labels.
"""

from groundtrace.inference.families.base import Family
from groundtrace.inference.families.json_reply import box_reader, coordinates, point_reader
from groundtrace.schemas.coordinates import CoordinateFrame

MOONDREAM = Family(
    "moondream",
    CoordinateFrame.UNIT,
    point_prompt="point_moondream.v1",
    box_prompt="box_moondream.v1",
    point_form='{"points": [{"x": …, "y": …}, …]} with numbers from 0 to 1, and an empty list if there is none',
    box_form='{"objects": [{"x_min": …, "y_min": …, "x_max": …, "y_max": …}, …]} with numbers from 0 to 1, and an '
    "empty list if there is none",
    read_points=point_reader(coordinates(2), "points"),
    read_boxes=box_reader(coordinates(4), "objects"),
    reads_prose=True,
)
