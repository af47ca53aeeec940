"""The registry of row shapes. A new shape is a file of its own beside this one, and one line here."""

from collections.abc import Sequence

from groundtrace.stages.sources.shapes.base import Row, Rows, Shape
from groundtrace.stages.sources.shapes.coco import Coco
from groundtrace.stages.sources.shapes.conversations import Conversations
from groundtrace.stages.sources.shapes.verl import Verl
from groundtrace.stages.sources.shapes.vlmevalkit import VlmEvalKit

SHAPES: dict[str, Shape] = {
    Rows.name: Rows(),
    Conversations.name: Conversations(),
    Verl.name: Verl(),
    VlmEvalKit.name: VlmEvalKit(),
    Coco.name: Coco(),
}


def shape_of(columns: frozenset[str], first: Sequence[Row]) -> Shape:
    """The shape of an input: the first that fits, else one record a row."""
    return next((each for each in SHAPES.values() if each.fits(columns, first)), SHAPES[Rows.name])
