"""The turns of a row: checked, and the assistant's tags in the frame of a family."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groundtrace.publishing.exports.base import MARK, Turn
from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.schemas.control_text import find_control
from groundtrace.schemas.coordinates import OutOfFrame, UnresizableImage
from groundtrace.schemas.responses.response import parse_boxes, parse_points
from groundtrace.schemas.responses.speech import Size, Speech
from groundtrace.schemas.responses.tags import scan_tags

_TAG = re.compile(r"<(?:points?|box)\b", re.IGNORECASE)
_MEDIA_MARKS = re.compile(r"<(?:image|video|audio)>")
# What begins a position: a coordinate among the attributes, or a number behind an opened box.
_POSITION = re.compile(
    r"<(?:(?:points?|box)\b[^<>]*[\s,][xy][0-9]*\s*=|box\b[^<>]*>\s*\[?\s*[-+]?[0-9])", re.IGNORECASE
)


def has_tags(text: str | None) -> bool:
    """Whether a text holds, or asks for, points or boxes."""
    return bool(text and _TAG.search(text))


def turns_of(fields: Mapping[str, Any], column: str) -> tuple[Turn, ...]:
    """Returns the turns of a column. Raises LeftOut where there are none, or a text is null."""
    turns = fields.get(column)
    if not turns:
        raise LeftOut("missing_text", column)
    if not all(isinstance(turn[name], str) for turn in turns for name in ("role", "content")):
        raise LeftOut("missing_text", f"a turn of {column}")
    return tuple({"role": turn["role"], "content": turn["content"]} for turn in turns)


def check_marks(turns: Iterable[Turn], images: int, is_strict: bool) -> None:
    """Raises LeftOut where the marks of the turns are not the places of that many images.

    The first marks are the places, since :func:`groundtrace.schemas.question_text.user_text` puts them before the
    question. A further one is text of the question, which with ``is_strict`` no text may spell. No text may hold
    another special token or a control character (:mod:`groundtrace.schemas.control_text`).
    """
    turns = list(turns)
    asked = "\n".join(turn["content"] for turn in turns if turn["role"] != "assistant")
    if asked.count(MARK) < images:
        raise LeftOut("image_count", f"{images} images, {asked.count(MARK)} places")
    answered = "\n".join(turn["content"] for turn in turns if turn["role"] == "assistant")
    for text in (answered, asked.replace(MARK, " ", images)):
        if found := find_control(text if is_strict else _MEDIA_MARKS.sub(" ", text)):
            raise LeftOut("control_token", found)


def in_frame(text: str, sizes: Sequence[Size], speech: Speech) -> str:
    """Returns a text in pixels of the original as the model writes it. Raises LeftOut where it has no such form."""
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
    """Returns the first tag that states a position which cannot be read, or nothing.

    Such a tag would stay in pixels of the original beside others in the model's frame.
    """
    read = [tag for tag in scan_tags(text) if _has_position(text[tag.start : tag.end])]
    starts = {tag.start for tag in read}
    return next((found.group()[:100] for found in _POSITION.finditer(text) if found.start() not in starts), "")


def _has_position(tag: str) -> bool:
    return bool(parse_points(tag) or parse_boxes(tag))


def spoken(turns: Iterable[Turn], sizes: Sequence[Size], speech: Speech) -> tuple[Turn, ...]:
    """Returns the turns with the assistant's in the model's frame. Raises LeftOut."""
    return tuple(
        {**turn, "content": in_frame(turn["content"], sizes, speech)} if turn["role"] == "assistant" else turn
        for turn in turns
    )


def parts(content: str, images: int) -> list[dict[str, str | None]]:
    """Returns a text as parts ``{"type": "text", "text": …}`` and ``{"type": "image", "text": None}``.

    The first ``images`` marks are images; a further one stays text.
    """
    texts = content.split(MARK, images)
    found: list[dict[str, str | None]] = []
    for index, text in enumerate(texts):
        if index:
            found.append({"type": "image", "text": None})
        if text:
            found.append({"type": "text", "text": text})
    return found or [{"type": "text", "text": ""}]
