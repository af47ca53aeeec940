"""Describes how Moondream 2 and 3 write coordinates: ``{"points": [{"x", "y"}]}`` and ``{"objects": [{"x_min", "y_min",
…}]}``, from 0 to 1.

The sources are vikhyat/moondream and docs.moondream.ai (point, detect).

Known limits: Moondream's API returns coordinates at the paths ``/v1/point`` and ``/v1/detect``. The model does not
generate these coordinates as text, and the API returns at most 50 instances. The replies have no labels.

This project does not use these paths. It sends all prompts to the chat path ``/v1/chat/completions``. The prompts
request JSON in the form of the responses of ``/v1/point`` and ``/v1/detect``. But the chat path is documented only for
questions. So good results need a gateway that passes the chat requests on to ``/v1/point`` or ``/v1/detect``.
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
