"""Defines the row type that rewards and training use, and makes the prompts of a row with several streams.

The streams are those of iVGR (§3.2): the question of a row is asked once in each of its streams, with the prompt of
that stream. Each stream of a question has its own rollouts and advantages. The streams' responses are scored together,
because the textual responses are compared with the best grounded response.
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
    """Describes any object that has the size of an upright image."""

    @property
    def width(self) -> int:
        """Return the width of the image in pixels."""
        ...

    @property
    def height(self) -> int:
        """Return the height in pixels."""
        ...


@dataclass(frozen=True)
class TrainingRow:
    """Holds one row: the turns with ``<image>`` marks, the image files, and the data for the reward.

    ``images`` are (bytes, name) pairs. ``frames`` has an entry for each image; it is () if no image belongs to a clip.
    ``entities`` are the objects that the question mentions; None if they are unknown. ``pointable`` are the entities
    that the images show. ``context`` is further data for some rewards. ``streams`` are pairs of a stream (a form of
    response) and the user turn that requests it. For each stream, :func:`per_stream` makes a row with this user turn as
    ``messages``.
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
    """Return the distinct labels of the boxes, in order."""
    return tuple(dict.fromkeys(box.label for box in boxes))


def sizes_of(row: TrainingRow, images: Sequence[HasImageSize]) -> list[tuple[int, int]]:
    """Return the (width, height) of each image of the row; for a row with clips, only the size of the first image."""
    sizes = [(image.width, image.height) for image in images]
    return sizes[:1] if row.frames else sizes


def per_stream(row: TrainingRow, only: Collection[str] = ()) -> list[TrainingRow]:
    """Return a copy of the row for each of its streams (forms of response); a row without streams is not changed.

    If ``only`` is not empty, streams that are not in ``only`` are left out. In a copy, the user turn is the prompt of
    the stream, and ``context.stream`` is the stream.
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
    """Return the indices of ``rows`` in groups; the responses to the rows of a group are scored together.

    Adjacent rows that ask one question in different streams are a group. Every other row is a group of its own.
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
