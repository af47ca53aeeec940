"""Splits a model's response into parts that a page shows in different styles: plain text, tags, points and boxes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.grading.responses.tags import Tag, format_number, scan_tags

_MARKUP = re.compile(r"(</?[A-Za-z_]{1,20}>)")


@dataclass(frozen=True)
class ResponsePart:
    """Holds one part of a response, which a page shows in its own style.

    Attributes:
        kind: ``text``, ``markup`` (a structural tag such as ``<think>``), ``points``, ``box``, or ``more`` (a note that
            text was cut off).
        text: the text of the part; for points and boxes, their label.
        marks: for points and boxes, pairs (number, coordinates as text). Points and boxes are numbered separately, each
            from 1 at the start of the response. The tuple is empty for all other kinds.
    """

    kind: str
    text: str
    marks: tuple[tuple[int, str], ...] = ()


def spans_of(text: str, max_chars: int) -> tuple[ResponsePart, ...]:
    """Split the start of a response into plain text, structural tags, points and boxes, in their order.

    At most ``max_chars`` characters of the text are used. If the text is longer, the last part of the result is a note
    with the number of characters that were cut off.
    """
    shown, spans = text[:max_chars], list[ResponsePart]()
    at = points = boxes = 0
    for tag in scan_tags(shown):
        chip = _chip(shown, tag, points, boxes)
        if chip is None:
            continue
        spans += _prose(shown[at : tag.start])
        spans.append(chip)
        at = tag.end
        points += len(chip.marks) if chip.kind == "points" else 0
        boxes += len(chip.marks) if chip.kind == "box" else 0
    spans += _prose(shown[at:])
    if len(text) > len(shown):
        spans.append(ResponsePart("more", f"… {len(text) - len(shown):,} more characters"))
    return tuple(spans)


def _chip(text: str, tag: Tag, points: int, boxes: int) -> ResponsePart | None:
    """Return the part that shows a points tag or box tag; None if the tag has no coordinates.

    The response has ``points`` points and ``boxes`` boxes before this tag, and the numbers in the part continue from
    there. E.g. if ``points`` is 2, the first point of the tag gets the number 3.
    """
    written = text[tag.start : tag.end]
    if tag.name == "box":
        kind, label, number = "box", dict(tag.attributes).get("alt", ""), boxes + 1
        corners = [(box.x1, box.y1, box.x2, box.y2) for box in parse_boxes(written)]
    else:
        kind, label, number = "points", tag.label, points + 1
        corners = [(point.x, point.y) for point in parse_points(written)]
    marks = tuple((number + i, ", ".join(map(format_number, corner))) for i, corner in enumerate(corners))
    return ResponsePart(kind, label, marks) if marks else None


def _prose(text: str) -> Iterator[ResponsePart]:
    for part in _MARKUP.split(text):
        if part:
            yield ResponsePart("markup" if _MARKUP.fullmatch(part) else "text", part)
