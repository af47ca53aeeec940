"""Finds the image of each point or box tag in a text about several images. The words around a tag name its image."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from groundtrace.grading.responses.anchors import anchor_tags
from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.grading.responses.tags import Tag, scan_tags
from groundtrace.schemas.geometry import Box, Point

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_MENTION = re.compile(
    r"(?<!\bthe\s)\b(?:picture|image|photo|figure)\s{0,3}(?:no\.|number|#)?\s{0,3}(\d{1,3})\b"
    rf"|\b({'|'.join(_ORDINALS)})\s{{1,3}}(?:picture|image|photo|figure)\b",
    re.IGNORECASE | re.ASCII,
)
INSTRUCTION = "Where you point into another picture than the first, say which one: picture 2, picture 3."
"""The instruction to a model that is shown several images."""


@dataclass(frozen=True)
class Mention:
    """Holds the words of a text that name one of several images, such as "picture 2" or "the second image".

    ``text`` is the part of the text from the offset ``start`` to the offset ``end``. ``index`` is the index of the
    named image, from 0.
    """

    start: int
    end: int
    text: str
    index: int


def images_of_tags(text: str, tags: Sequence[Tag]) -> list[int]:
    """Return the index (from 0) of the image to which each tag belongs, in a text about several still images.

    ``tags`` are the point and box tags of the text, in order. The image of a tag is chosen in this order:

    - the image that the text names next to the tag (:func:`groundtrace.grading.responses.anchors.anchor_tags`);
    - the image that the text names last before the tag;
    - the first image.

    If the text names an image that does not exist, the index is too large. In "there are in the image 3 dogs", the
    words "image 3" do not name the third image, because 3 is a count. Never raises; takes time linear in ``len(text)``.
    """
    mentions = list(_mentions(text, tags))
    ends = [mention.end for mention in mentions]
    found: list[int] = []
    for tag, mention in zip(tags, anchor_tags(text, tags, mentions), strict=True):
        last = bisect_right(ends, tag.start) - 1
        found.append(mention.index if mention is not None else mentions[last].index if last >= 0 else 0)
    return found


def place_in_images(text: str) -> tuple[tuple[Point, ...], tuple[Box, ...]]:
    """Return all points and all boxes of a text about several still images, each with the index of its image.

    Coordinates are as written. If the text names an image that does not exist, the points and boxes on it get an index
    that is too large. Such points and boxes are later scored as 0. Never raises.
    """
    tags = scan_tags(text)
    points: list[Point] = []
    boxes: list[Box] = []
    for tag, index in zip(tags, images_of_tags(text, tags), strict=True):
        written = text[tag.start : tag.end]
        points += (replace(point, media_index=index) for point in parse_points(written))
        boxes += (replace(box, media_index=index) for box in parse_boxes(written))
    return tuple(points), tuple(boxes)


def _mentions(text: str, tags: Sequence[Tag]) -> Iterator[Mention]:
    """Yield the mentions of images outside of tags; the labels inside tags may name images too, but are skipped."""
    ends = iter([*((tag.start, tag.end) for tag in tags), (len(text), len(text))])
    start, end = next(ends)
    for found in _MENTION.finditer(text):
        while found.start() >= end and end < len(text):
            start, end = next(ends)
        if start <= found.start() < end:
            continue
        number = int(found[1]) if found[1] else _ORDINALS.index(found[2].lower()) + 1
        if number:
            yield Mention(found.start(), found.end(), found.group(), number - 1)
