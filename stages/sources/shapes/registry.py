"""Registers the shapes (layouts of input rows) by name. A new shape needs a file in this folder, and one line here."""

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
    """Return the first known shape (layout of rows) that fits an input.

    If none of them fits, the default shape ``rows`` is returned. In this shape, each row holds one record. ``columns``
    are the names of the input's columns, and ``first`` are its first rows.
    """
    return next((each for each in SHAPES.values() if each.fits(columns, first)), SHAPES["rows"])
