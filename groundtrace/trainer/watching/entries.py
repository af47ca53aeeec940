"""Prepares questions with their images and answers for the HTML pages of a training and of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.pages.response_parts import spans_of
from groundtrace.pages.shown_images import Image, ImageRoom, shown_image

MAX_TEXT_CHARS = 3000


@dataclass(frozen=True)
class ShownAnswer:
    """Holds an answer as a page shows it.

    Attributes:
        when: the time at which the answer was sampled, as text for the page, e.g. "after 50 steps".
        text: the text of the answer.
        reward: the reward; None if the answer is unscored.
        outcome: 1 for a right answer, 0 for a wrong one; None if it is unknown.
        verdicts: the other scores as (name, value); a value is None if it is unknown.
    """

    when: str
    text: str
    reward: float | None
    outcome: float | None
    verdicts: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True)
class ShownQuestion:
    """Holds a question as a page shows it, with its images and some answers.

    ``stream`` is the name of the form of response that the prompt requests: ``grounded`` (reasoning with boxes) or
    ``textual`` (words only). It is "" if the question has only one form. ``gold`` is the right answer. ``choices`` are
    the possible answers of a multiple-choice question, else empty. ``images`` holds the bytes of the image files.
    """

    id: str
    stream: str
    question: str
    gold: str
    choices: tuple[str, ...]
    images: tuple[bytes, ...]
    answers: tuple[ShownAnswer, ...]


def entries_of(questions: Sequence[ShownQuestion]) -> list[Mapping[str, Any]]:
    """Return the questions in the form that the page templates need, as one mapping for each question.

    A mapping holds the question, the images of the question, and the answers. The points and boxes of the first answer
    are drawn on the images. Each answer is divided into parts: plain text, structural tags such as ``<think>``, points
    and boxes. All images of the page have a common limit of bytes. An image that does not fit is not shown, and its
    caption gives the reason.
    """
    room = ImageRoom(sum(len(asked.images) for asked in questions))
    return [_entry(asked, room) for asked in questions]


def _entry(asked: ShownQuestion, room: ImageRoom) -> Mapping[str, Any]:
    """Return a question in the form that the page templates need.

    The points and boxes of the first answer are drawn on the question's images. ``room`` holds the number of bytes that
    the remaining images of the page may use.
    """
    text = asked.answers[0].text if asked.answers else ""
    return {
        "asked": asked,
        "images": [_image(data, number, text, room) for number, data in enumerate(asked.images)],
        "answers": [(answer, spans_of(answer.text, MAX_TEXT_CHARS)) for answer in asked.answers],
    }


def _image(data: bytes, number: int, text: str, room: ImageRoom) -> Image:
    points = [
        (place, point.label, (point.x, point.y))
        for place, point in enumerate(parse_points(text), 1)
        if point.media_index == number
    ]
    boxes = [
        (place, box.label, (box.x1, box.y1, box.x2, box.y2))
        for place, box in enumerate(parse_boxes(text), 1)
        if box.media_index == number
    ]
    return shown_image(data, f"image {number + 1}", room, [*points, *boxes])
