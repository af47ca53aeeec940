"""Checks the turns of a row, and converts the assistant's coordinates to the frame of a model family.

The frame is the form in which the models of the family write coordinates: pixels, 0–100 or 0–1000.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.grading.responses.speech import Size, Speech
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.publishing.exports.base import MARK, Turn
from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.schemas.control_text import find_control
from groundtrace.schemas.coordinates import OutOfFrame, UnresizableImage

_TAG = re.compile(r"<(?:points?|box)\b", re.IGNORECASE)
_MEDIA_MARKS = re.compile(r"<(?:image|video|audio)>")
# The beginning of a position: a coordinate among the attributes, or a number after an opening box tag.
_POSITION = re.compile(
    r"<(?:(?:points?|box)\b[^<>]*[\s,][xy][0-9]*\s*=|box\b[^<>]*>\s*\[?\s*[-+]?[0-9])", re.IGNORECASE
)


def has_tags(text: str | None) -> bool:
    """Return whether a text contains a tag for points or boxes, such as ``<point …>`` or ``<box>``.

    A prompt also contains such a tag if it asks the model to write points or boxes.
    """
    return bool(text and _TAG.search(text))


def turns_of(fields: Mapping[str, Any], column: str) -> tuple[Turn, ...]:
    """Return the turns in a column of a row, each with ``role`` and ``content``.

    ``fields`` holds the columns of the row. Raises LeftOut if the column has no turns, or if a role or content is not a
    text.
    """
    turns = fields.get(column)
    if not turns:
        raise LeftOut("missing_text", column)
    if not all(isinstance(turn[name], str) for turn in turns for name in ("role", "content")):
        raise LeftOut("missing_text", f"a turn in the column {column} has no role or no text")
    return tuple({"role": turn["role"], "content": turn["content"]} for turn in turns)


def check_marks(turns: Iterable[Turn], images: int, is_strict: bool) -> None:
    """Raise LeftOut if the turns have too few placeholders ``<image>``, or if a text has a forbidden special token.

    ``images`` is the number of the row's images. The turns that the assistant did not write must have at least one
    placeholder for each image. The placeholders of the images come first in these turns, because
    :func:`groundtrace.grading.question_text.user_text` writes them before the question. Any further placeholder of an
    image, a video or a sound is part of the text of a question or an answer. For example, a row has two images, and its
    prompt has three placeholders. Then the third placeholder is part of the question.

    ``is_strict`` states whether such further placeholders are forbidden. It is True if the program that reads the
    export does not treat placeholders as plain text. Other special tokens and control characters
    (:mod:`groundtrace.schemas.control_text`) are always forbidden.
    """
    turns = list(turns)
    asked = "\n".join(turn["content"] for turn in turns if turn["role"] != "assistant")
    if asked.count(MARK) < images:
        raise LeftOut(
            "image_count", f"the row has {images} images, but its prompt has {asked.count(MARK)} <image> marks"
        )
    answered = "\n".join(turn["content"] for turn in turns if turn["role"] == "assistant")
    for text in (answered, asked.replace(MARK, " ", images)):
        if found := find_control(text if is_strict else _MEDIA_MARKS.sub(" ", text)):
            raise LeftOut("control_token", found)


def in_frame(text: str, sizes: Sequence[Size], speech: Speech) -> str:
    """Convert the coordinates in a text from pixels of the original image to the coordinate frame of the model.

    ``sizes`` are the (width, height) of the images in px, and ``speech`` describes the model's frame. A text without
    points and boxes is returned unchanged. Raises LeftOut if a position cannot be read or converted.
    """
    if not has_tags(text):
        return text
    if unread := _unread_position(text):
        raise LeftOut("unreadable_tag", unread)
    try:
        return speech.to_model(text, sizes)
    except OutOfFrame as error:
        raise LeftOut("outside_image", str(error)) from error
    except UnresizableImage as error:
        raise LeftOut("unresizable_image", str(error)) from error


def _unread_position(text: str) -> str:
    """Return the first tag in ``text`` whose position cannot be parsed; "" if the positions of all tags can be parsed.

    :func:`in_frame` raises LeftOut for such a tag. Otherwise the tag's position would stay in pixels of the original
    image, although the positions of all other tags are converted to the model's coordinate frame.
    """
    read = [tag for tag in scan_tags(text) if _has_position(text[tag.start : tag.end])]
    starts = {tag.start for tag in read}
    return next((found.group()[:100] for found in _POSITION.finditer(text) if found.start() not in starts), "")


def _has_position(tag: str) -> bool:
    return bool(parse_points(tag) or parse_boxes(tag))


def spoken(turns: Iterable[Turn], sizes: Sequence[Size], speech: Speech) -> tuple[Turn, ...]:
    """Convert the coordinates in the assistant's turns to the form that the model to be trained uses; return all turns.

    The coordinates are converted from pixels of the original image, e.g. to 0–1000. ``sizes`` are the (width, height)
    of the images in px, and ``speech`` describes how the model writes coordinates. Raises LeftOut if a position cannot
    be read or converted.
    """
    return tuple(
        {**turn, "content": in_frame(turn["content"], sizes, speech)} if turn["role"] == "assistant" else turn
        for turn in turns
    )


def content_parts(content: str, images: int) -> list[dict[str, str | None]]:
    """Split a text at its placeholders ``<image>`` into a list of text parts and image parts.

    A text part is ``{"type": "text", "text": …}``, and an image part is ``{"type": "image", "text": None}``. ``images``
    is the maximum number of image parts. If the text has more placeholders, the last ones stay in the text.
    """
    texts = content.split(MARK, images)
    found: list[dict[str, str | None]] = []
    for index, text in enumerate(texts):
        if index:
            found.append({"type": "image", "text": None})
        if text:
            found.append({"type": "text", "text": text})
    return found or [{"type": "text", "text": ""}]
