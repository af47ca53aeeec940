"""Defines the type of row that rewards and training use, and makes the prompts of a row that has several streams.

The streams are those of iVGR (§3.2): a stream is a way to answer a question, with boxes or only in words. The question
of a row is asked once in each of its streams, with the prompt of that stream. Each stream of a question has its own
rollouts and advantages. The streams' responses are scored together. The reason is that the responses only in words are
compared with the best response with boxes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from groundtrace.rewards.case import Context
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Question

FrameOf = tuple[int, int | None, float | None]
"""For an image of a row: the index of its medium and, for a frame of a clip, its number and its time in seconds."""


class UnusableRow(ValueError):
    """Raised if a row cannot be used; the message names the row and the reason."""


class HasImageSize(Protocol):
    """Describes any object that has the width and height of an image, such as a decoded image.

    The size must be that of the upright image, i.e. of the image after its EXIF orientation was applied.
    """

    @property
    def width(self) -> int:
        """Return the width of the image in pixels."""
        ...

    @property
    def height(self) -> int:
        """Return the height of the image in pixels."""
        ...


@dataclass(frozen=True)
class TrainingRow:
    """Holds one row: a prompt with its images, and the data for the reward.

    Attributes:
        id: the id of the question.
        source: the name of the data set that the question is from.
        messages: the turns of the conversation, each with ``role`` and ``content``. ``<image>`` in a content shows
            where an image belongs.
        images: one pair for each image: the bytes of its file, and its name.
        question: the question, its gold answer and its gold boxes.
        entities: the objects that the question mentions; None if they are unknown.
        pointable: the entities that the images show.
        frames: for each image, the clip and the frame that it belongs to; () if no image belongs to a clip.
        context: further data for some rewards, such as rubrics.
        streams: one pair (name, prompt) for each stream in which the question is asked. The name is ``grounded`` (with
            boxes) or ``textual`` (only in words). The prompt is the text of the user turn. :func:`per_stream` makes one
            row for each stream. The value is () if the question has a single prompt.
    """

    id: str
    source: str
    messages: tuple[Mapping[str, str], ...]
    images: tuple[tuple[bytes, str], ...]
    question: Question
    entities: tuple[str, ...] | None = ()
    pointable: tuple[str, ...] = ()
    frames: tuple[FrameOf, ...] = ()
    context: Context = field(default_factory=Context)
    streams: tuple[tuple[str, str], ...] = ()


def labels_of(boxes: Sequence[Box]) -> tuple[str, ...]:
    """Return the distinct labels of the boxes, in the order of their first use."""
    return tuple(dict.fromkeys(box.label for box in boxes))


def sizes_of(row: TrainingRow, images: Sequence[HasImageSize]) -> list[tuple[int, int]]:
    """Return the (width, height) of each image of a row in pixels, to convert the coordinates in texts.

    If the row has video clips, only the size of the first image is returned: the coordinates on all frames are
    converted with this size. ``images`` are the images of the row, in order, or other objects that have the sizes of
    these images. The images of a row with clips include the frames of the clips.
    """
    sizes = [(image.width, image.height) for image in images]
    return sizes[:1] if row.frames else sizes


def per_stream(row: TrainingRow, only: Collection[str] = ()) -> list[TrainingRow]:
    """Return one copy of the row for each of its streams, or only the row itself if it has no streams.

    A stream is a way to answer the question: with boxes, or only in words. In a copy, the user turn is the prompt of
    the stream, and ``context.stream`` is the stream. If ``only`` is not empty, it holds the wanted streams, and other
    streams are left out.
    """
    streams = [(stream, text) for stream, text in row.streams if not only or stream in only]
    if not row.streams:
        return [row]
    return [
        replace(
            row,
            messages=({"role": "user", "content": text},),
            context=replace(row.context, stream=stream),
            streams=(),
        )
        for stream, text in streams
    ]


def together(rows: Sequence[TrainingRow]) -> list[list[int]]:
    """Return the indices of ``rows`` in groups; the responses to the rows of one group must be scored together.

    Adjacent rows that ask the same question in different streams (with boxes, or only in words) are one group. Every
    other row is a group by itself. For example, the result [[0, 1], [2]] means that rows 0 and 1 ask one question in
    two streams.
    """
    found: list[list[int]] = []
    for place, row in enumerate(rows):
        before = [rows[index] for index in found[-1]] if found else []
        streams = [each.context.stream for each in (*before, row)]
        is_one = {each.id for each in before} == {row.id} and None not in streams
        if is_one and len(set(streams)) == len(streams):
            found[-1].append(place)
        else:
            found.append([place])
    return found
