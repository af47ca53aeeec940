"""Defines :class:`Family`, the description of a model family. A family consists of models that write coordinates in the
same way. A description states the form of the coordinates, the prompts for points and boxes, and the parsers of the
replies.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from groundtrace.grading.messages import MediaPart
from groundtrace.grading.responses.pointing import (
    NoPoints,
    RawPoint,
    UnparsablePointing,
    has_point_tags,
    parse_pointer_reply,
)
from groundtrace.inference.families.json_reply import box_reader, coordinates, point_reader
from groundtrace.inference.families.labels import about, quoted
from groundtrace.inference.families.prose import rows_in_prose
from groundtrace.inference.grounding import (
    BadReply,
    BoxReader,
    ParsedPointing,
    PointReader,
    RawBox,
    boxes_in_px,
    points_in_px,
    raw_box,
    raw_point,
)
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, Resize
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.quoting import quote
from groundtrace.schemas.records import MediaRef

_THINK = re.compile(r"<(/?)think\s*>", re.IGNORECASE)
_CUT_TAG = re.compile(r"<(?:[|/]?[A-Za-z][^<>]*|[|/]?)\Z")
Raw = TypeVar("Raw", RawPoint, RawBox)
OBJECT_PROMPT = "ground_object.v1"
read_our_boxes = box_reader(coordinates(4, "box", "bbox"), "boxes")
"""Parses the boxes of a reply in this project's own form, ``{"boxes": [[x1, y1, x2, y2], …]}``."""
_listed_points = point_reader(coordinates(2, "point"), "points")


def read_our_points(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """Parse the points of the reply ``text``. The numbers stay as the model wrote them, in its coordinate frame. The
    reply has either tags (``<points x1="…" y1="…">``, this project's own form), or a JSON list of points. Returns
    NoPoints if the reply states that the object is absent.

    If the points cannot be parsed, the function raises :class:`groundtrace.inference.grounding.BadReply` for JSON, and
    :class:`groundtrace.grading.responses.pointing.UnparsablePointing` for any other reply.
    """
    return _listed_points(text) if "{" in text and not has_point_tags(text) else parse_pointer_reply(text)


@dataclass(frozen=True)
class Family:
    """Describes a model family: models that write coordinates in the same way. The default values describe this
    project's own form of coordinates. Prompts can explain this form to any model.

    ``frame`` is the coordinate frame (such as pixels, or 0 to 1000) that the models were trained to write. ``decimals``
    (0 or 1) is the number of decimals that the models write. ``resize`` describes how the models' processor resizes an
    image. It is None if this is not known.

    ``point_prompt`` and ``box_prompt`` are the names of two prompts: for the points of an object, and for the boxes of
    a label. If ``point_prompt`` is "", the models are asked for boxes, and the centres of the boxes are the points. If
    ``box_prompt`` is "", the models cannot find boxes. ``read_points`` and ``read_boxes`` are the parsers of the
    replies, which leave the numbers in the frame of the model. If a reply cannot be parsed, a second prompt asks the
    model to repair the reply. This prompt shows the requested form: ``point_form`` for points, ``box_form`` for boxes.

    If ``reads_prose`` is True, a reply that these parsers reject is parsed as prose
    (:mod:`groundtrace.inference.families.prose`). The numbers in prose are in the order of the frame (for example x
    before y).

    If ``any_corners`` is True, a box may be written from any corner to the opposite one. Otherwise the first corner
    must be the upper left one, and any other box is a bad reply.

    ``trained_as`` holds the types (``model_type``) of the checkpoints of this family that the trainer can train. The
    trainer needs three things of such a checkpoint:

    - The model has the methods ``get_image_features`` and ``get_rope_index``.
    - The image processor splits an image into patches with a (t, h, w) grid.
    - In the token sequence, the image token is repeated once for each merged patch of an image.
    """

    name: str
    frame: CoordinateFrame
    decimals: int = 0
    resize: Resize | None = None
    point_prompt: str = "point.v1"
    box_prompt: str = "detect.v2"
    point_form: str = '<points x1="…" y1="…" x2="…" y2="…" alt="LABEL">LABEL</points>, or There are none.'
    box_form: str = '{"boxes": [[…, …, …, …], …]}, with an empty list if there is none'
    read_points: PointReader = read_our_points
    read_boxes: BoxReader = read_our_boxes
    reads_prose: bool = False
    any_corners: bool = False
    trained_as: tuple[str, ...] = ()

    @property
    def asked_to_point(self) -> str:
        """Return the name of the prompt that asks these models for points. If the models can write only boxes, the
        result is the name of their prompt for boxes: the centres of the boxes are then used as points. Returns "" if
        the family has neither prompt.
        """
        return self.point_prompt or self.box_prompt

    def ask_points(self, image: MediaPart, entity: str) -> RenderedPrompt:
        """Return the prompt that asks the model for the points of an object in ``image``. ``entity`` is the name of the
        object.

        Raises :class:`groundtrace.inference.grounding.BadReply` if the name cannot be written into a prompt, for
        example because it has no letter or digit (:func:`groundtrace.inference.families.labels.quoted`).
        """
        return self._asked(self.asked_to_point, image, entity)

    def ask_boxes(self, image: MediaPart, label: str) -> RenderedPrompt:
        """Return the prompt that asks the model for the boxes of all objects with this label in ``image``. Raises
        BadReply if the label cannot be written into a prompt, for example because it has no letter or digit.
        """
        return self._asked(self.box_prompt, image, label)

    def ask_object(self, image: MediaPart, label: str, question: str) -> RenderedPrompt:
        """Return the prompt that asks the model for boxes in ``image``: the boxes of the objects to which ``question``
        refers. ``label`` names these objects. A box must contain the entire object, even if the question is only about
        a part of the object.

        The families' own prompts for boxes are not used. They ask for all objects with the label, even those to which
        the question does not refer. Instead all families get the same prompt, which asks for boxes in the family's
        :attr:`box_form`. Raises BadReply if the label cannot be written into a prompt, for example because it has no
        letter or digit.
        """
        named, shown = quoted(label), quote(question)
        form = self.box_form.replace("LABEL", named).replace("[…, …, …, …]", self._box_order)
        values = {"question": shown.texts[0], "mark": shown.mark, "label": named, "form": form}
        return load_prompt(OBJECT_PROMPT).render({"original": [image]}, **values)

    def points(self, text: str, entity: str, medium: MediaRef, media_index: int) -> ParsedPointing[Point]:
        """Parse a model's reply to :meth:`ask_points`, and return the points in pixels of the original image. The
        result has no points if the reply states that the image has no such object.

        ``text`` is the reply, and ``entity`` is the name of the object that was requested. ``medium`` is the original
        image, whose size is used. ``media_index`` is the position of this image among the media of the question. Raises
        :class:`groundtrace.inference.grounding.BadReply` in these cases:

        - The reply has no points, and does not state that the object is absent.
        - The reply is about another object.
        - The reply is truncated, or cannot be parsed.
        - A point is outside the frame (the range of the model's coordinates).
        """
        if not self.point_prompt:
            boxes = self.boxes(text, entity, medium, media_index)
            middles = (Point(entity, *box.centre, media_index) for box in boxes.found)
            return ParsedPointing(tuple(dict.fromkeys(middles)), boxes.called)
        read = self._read(text, entity, self.read_points, 2, raw_point)
        points = points_in_px(read.found, entity, self.frame, medium, media_index, self._rule)
        return ParsedPointing(tuple(dict.fromkeys(points)), read.called)

    def boxes(self, text: str, label: str, medium: MediaRef, media_index: int) -> ParsedPointing[Box]:
        """Parse a model's reply to :meth:`ask_boxes` or :meth:`ask_object`, and return the boxes in pixels of the
        original image. The result has no boxes if the reply states that the image has no such object.

        ``text`` is the reply, and ``label`` is the label that was requested. ``medium`` is the original image, whose
        size is used. ``media_index`` is the position of this image among the media of the question. Raises
        :class:`groundtrace.inference.grounding.BadReply` in these cases:

        - The reply has no boxes, and does not state that the object is absent.
        - The reply is about another object.
        - The reply is truncated, or cannot be parsed.
        - A box is outside the frame (the range of the model's coordinates).
        - The first corner of a box is not its upper left one, and :attr:`any_corners` is False.
        """
        read = self._read(text, label, self.read_boxes, 4, raw_box)
        boxes = boxes_in_px(read.found, label, self.frame, medium, media_index, self._rule, self.any_corners)
        return ParsedPointing(tuple(dict.fromkeys(boxes)), read.called)

    def _read(
        self,
        text: str,
        label: str,
        reader: Callable[[str], Sequence[Raw] | NoPoints],
        count: int,
        raw: Callable[[list[float]], Raw],
    ) -> ParsedPointing[Raw]:
        """Parse a reply, and return its points or boxes of the requested object. The numbers stay as the model wrote
        them. The reply may have the form that the models of this family use. If :attr:`reads_prose` is True, it may
        also be prose.

        ``text`` is the reply, and ``label`` is the name of the requested object. ``reader`` parses this form.
        ``count`` is the number of coordinates of each point or box, and ``raw`` makes a point or box of these numbers.
        Raises :class:`groundtrace.inference.grounding.BadReply` if the reply is truncated, cannot be parsed, or is
        about another object.
        """
        answer = after_thinking(text)
        if cut := _CUT_TAG.search(answer.rstrip()):
            raise BadReply(f"the reply ends within a tag ({cut[0][:80]!r}): write the whole tag")
        try:
            found = reader(answer)
        except (BadReply, UnparsablePointing) as error:
            rows = rows_in_prose(answer, count, label) if self.reads_prose else None
            if rows is None:
                raise BadReply(str(error)) from error
            return ParsedPointing(tuple(map(raw, rows)))
        return ParsedPointing(()) if isinstance(found, NoPoints) else about(found, label)

    def _asked(self, prompt: str, image: MediaPart, label: str) -> RenderedPrompt:
        named = quoted(label)
        values = {"label": named, "entity": named, "box_order": self._box_order}
        wanted = load_prompt(prompt)
        return wanted.render(
            {"original": [image]}, **{name: values[name] for name in wanted.variables if name in values}
        )

    @property
    def _box_order(self) -> str:
        """Return the order of a box's numbers in the coordinate frame, such as "[x1, y1, x2, y2]", for prompts.

        The module :mod:`groundtrace.schemas.coordinates` describes the frames.
        """
        return "[y1, x1, y2, x2]" if self.frame is CoordinateFrame.GEMINI else "[x1, y1, x2, y2]"

    @property
    def _rule(self) -> Resize:
        return self.resize or QWEN25_IMAGE


def after_thinking(text: str) -> str:
    """Return the answer in the reply ``text`` without the thinking before it (``<think>…</think>``). Boxes within the
    thinking are not final, so they must not be read. A reply without thinking is returned unchanged.

    Some chat templates write ``<think>`` into the prompt, so a reply may have only ``</think>``. Raises
    :class:`groundtrace.inference.grounding.BadReply` if the reply ends within its thinking.
    """
    marks = list(_THINK.finditer(text))
    if not marks:
        return text
    if not marks[-1][1]:
        raise BadReply("the reply ends before its thinking ends: write </think> and then the answer")
    return text[marks[-1].end() :]
