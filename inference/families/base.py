"""What is known of a model family: how its models write coordinates, are asked for them, and are read."""

import re
from dataclasses import dataclass

from inference.families.labels import about, quoted
from inference.grounding import (
    BadReply,
    BoxReader,
    PointReader,
    RawBox,
    boxes_of_reply,
    listed_boxes,
    points_of_reply,
)
from prompts.loader import RenderedPrompt, load_prompt
from schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, Resize
from schemas.geometry import Box, Point
from schemas.messages import MediaPart
from schemas.records import MediaRef
from schemas.responses.pointing import NoPoints, RawPoint, parse_pointer_reply

_THINK = re.compile(r"<(/?)think\s*>", re.IGNORECASE)


@dataclass(frozen=True)
class Family:
    """A model family. What is left out is our own form, which a prompt describes and any model can follow.

    ``frame`` is the coordinate frame that the models were trained to write, ``decimals`` (0 or 1) how many they write
    behind the point, ``resize`` how their processor sizes an image, where that is known.

    ``point_prompt`` and ``box_prompt`` name the prompts that ask for the points of an entity and for the boxes of a
    label; ``read_points`` and ``read_boxes`` read the numbers of the replies as they stand there; ``point_form`` and
    ``box_form`` show the form to a model whose reply could not be read. A family without a ``point_prompt`` is asked
    for boxes, whose centres are its points; one without a ``box_prompt`` cannot box.

    ``any_corners``: a box may be written from any corner to the opposite one; else such a box is a bad reply.
    ``strict_labels``: a reply repeats the label that it was asked for, so one about another thing is a bad reply.

    ``trained_as`` are the names (``model_type``) of the checkpoints of this family that the trainer can train. What
    the trainer needs of them: an image token that is repeated once for each merged patch, patches with a (t, h, w)
    grid, ``get_image_features`` and ``get_rope_index``.
    """

    name: str
    frame: CoordinateFrame
    decimals: int = 0
    resize: Resize | None = None
    point_prompt: str = "point.v1"
    box_prompt: str = "detect.v2"
    point_form: str = '<points x1="…" y1="…" x2="…" y2="…" alt="LABEL">LABEL</points>, or There are none.'
    box_form: str = '{"boxes": [[…, …, …, …], …]}, with an empty list if there is none'
    read_points: PointReader = parse_pointer_reply
    read_boxes: BoxReader = listed_boxes
    any_corners: bool = False
    strict_labels: bool = False
    trained_as: tuple[str, ...] = ()

    @property
    def asked_to_point(self) -> str:
        """The name of the prompt that asks for points, or for the boxes that stand for them; "" for neither."""
        return self.point_prompt or self.box_prompt

    def ask_points(self, image: MediaPart, entity: str) -> RenderedPrompt:
        """The prompt for the points of an entity in an image.

        Raises :class:`inference.grounding.BadReply` for an entity that no prompt can name
        (:func:`inference.families.labels.quoted`).
        """
        return self._asked(self.asked_to_point, image, entity)

    def ask_boxes(self, image: MediaPart, label: str) -> RenderedPrompt:
        """The prompt for the boxes of a label in an image. Raises as :meth:`ask_points` does."""
        return self._asked(self.box_prompt, image, label)

    def points(self, text: str, entity: str, medium: MediaRef, media_index: int) -> tuple[Point, ...]:
        """The points of a reply for one entity, in pixels of the original; empty when it says that there are none.

        Raises :class:`inference.grounding.BadReply` when it says neither, speaks of something else, or a point lies
        outside the frame.
        """
        if not self.point_prompt:
            boxes = self.boxes(text, entity, medium, media_index)
            return tuple(dict.fromkeys(Point(entity, *box.centre, media_index) for box in boxes))

        def read(reply: str) -> tuple[RawPoint, ...] | NoPoints:
            found = self.read_points(after_thinking(reply))
            return found if isinstance(found, NoPoints) else about(found, entity, self.strict_labels)

        points = points_of_reply(text, entity, self.frame, medium, media_index, read, self._rule)
        return tuple(dict.fromkeys(points))

    def boxes(self, text: str, label: str, medium: MediaRef, media_index: int) -> tuple[Box, ...]:
        """The boxes of a reply for one label, in pixels of the original. Raises as :meth:`points` does."""

        def read(reply: str) -> tuple[RawBox, ...]:
            return about(self.read_boxes(after_thinking(reply)), label, self.strict_labels)

        boxes = boxes_of_reply(text, label, self.frame, medium, media_index, read, self._rule, self.any_corners)
        return tuple(dict.fromkeys(boxes))

    def _asked(self, prompt: str, image: MediaPart, label: str) -> RenderedPrompt:
        named = quoted(label)
        values = {"label": named, "entity": named, "box_order": self._box_order}
        wanted = load_prompt(prompt)
        return wanted.render(
            {"original": [image]}, **{name: values[name] for name in wanted.variables if name in values}
        )

    @property
    def _box_order(self) -> str:
        """How our own form asks for a box in this frame (:mod:`schemas.coordinates`)."""
        return "[y1, x1, y2, x2]" if self.frame is CoordinateFrame.GEMINI else "[x1, y1, x2, y2]"

    @property
    def _rule(self) -> Resize:
        return self.resize or QWEN25_IMAGE


def after_thinking(text: str) -> str:
    """What stands after the thinking of a reply: boxes drafted within it do not count.

    A reply may begin within its thinking, where the chat template opened it. Raises
    :class:`inference.grounding.BadReply` for one that ends within it.
    """
    marks = list(_THINK.finditer(text))
    if not marks:
        return text
    if not marks[-1][1]:
        raise BadReply("the reply ends before its thinking does")
    return text[marks[-1].end() :]
