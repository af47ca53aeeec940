"""What is known of a model family: how its models write coordinates, are asked for them, and are read."""

from dataclasses import dataclass

from inference.grounding import BoxReader, PointReader, boxes_of_reply, listed_boxes, points_of_reply
from schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, ResizeRule
from schemas.geometry import Box, Point
from schemas.records import MediaRef
from schemas.responses.pointing import parse_pointer_reply


@dataclass(frozen=True)
class Family:
    """A model family. What is left out is our own form, which a prompt describes and any model can follow.

    ``frame`` is the coordinate frame that the models were trained to write, ``decimals`` (0 or 1) how many they write
    behind the point, ``resize`` how their processor sizes an image, where that is known.

    ``point_prompt`` and ``box_prompt`` name the prompts that ask for the points of an entity and for the boxes of a
    label; ``read_points`` and ``read_boxes`` read the numbers of the replies as they stand there.

    ``trained_as`` are the names (``model_type``) of the checkpoints of this family that the trainer can train. What
    the trainer needs of them: an image token that is repeated once for each merged patch, patches with a (t, h, w)
    grid, ``get_image_features`` and ``get_rope_index``.
    """

    name: str
    frame: CoordinateFrame
    decimals: int = 0
    resize: ResizeRule | None = None
    point_prompt: str = "point.v1"
    box_prompt: str = "detect.v2"
    read_points: PointReader = parse_pointer_reply
    read_boxes: BoxReader = listed_boxes
    trained_as: tuple[str, ...] = ()

    def points(self, text: str, entity: str, medium: MediaRef, media_index: int) -> tuple[Point, ...]:
        """The points of a reply for one entity, in pixels of the original; empty when it says that there are none.

        Raises :class:`inference.grounding.BadReply` when it says neither, or a point lies outside the frame.
        """
        return points_of_reply(text, entity, self.frame, medium, media_index, self.read_points, self._rule)

    def boxes(self, text: str, label: str, medium: MediaRef, media_index: int) -> tuple[Box, ...]:
        """The boxes of a reply for one label, in pixels of the original. Raises as :meth:`points` does."""
        return boxes_of_reply(text, label, self.frame, medium, media_index, self.read_boxes, self._rule)

    @property
    def _rule(self) -> ResizeRule:
        return self.resize or QWEN25_IMAGE
