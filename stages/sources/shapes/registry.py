"""The registry of row shapes. A new shape is a file of its own beside this one, and one line here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from groundtrace.schemas.registry import Registry

if TYPE_CHECKING:
    from groundtrace.stages.sources.shapes.base import Row, Shape

SHAPES: "Registry[Shape]" = Registry(
    "shapes",
    "shape",
    "groundtrace.stages.sources.shapes.base:Shape",
    {
        "rows": "groundtrace.stages.sources.shapes.base:ROWS",
        "conversations": "groundtrace.stages.sources.shapes.conversations:CONVERSATIONS",
        "verl": "groundtrace.stages.sources.shapes.verl:VERL",
        "vlmevalkit": "groundtrace.stages.sources.shapes.vlmevalkit:VLMEVALKIT",
        "coco": "groundtrace.stages.sources.shapes.coco:COCO",
    },
)


def shape_of(columns: frozenset[str], first: "Sequence[Row]") -> "Shape":
    """The shape of an input: the first that fits, else one record a row."""
    return next((each for each in SHAPES.values() if each.fits(columns, first)), SHAPES["rows"])
