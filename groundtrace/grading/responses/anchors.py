"""Finds the image or the moment of a clip to which a point or box tag belongs, from the words around the tag."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol, TypeVar

from groundtrace.grading.responses.tags import Tag

_SENTENCE_END = re.compile(r"[.!?][\"'”’)]?\s|\n\s{0,3}\n")
_BEHIND = re.compile(r"\s?(?:(?:(?:seen|visible)\s)?(?:in|on|of)\s(?:the\s)?|\((?:in\s|at\s|on\s)?)", re.IGNORECASE)
_FORWARD = re.compile(r"\s{0,3}(?:at|:)\s{0,3}<", re.IGNORECASE)
_MAX_CHARS_BEHIND, _MAX_CHARS_BEFORE = 20, 300


class TextSpan(Protocol):
    """Describes a mention: words of a text that name an image ("picture 2") or a moment of a clip ("frame 3").

    ``text`` is the part of the text from the offset ``start`` to the offset ``end``. :func:`anchor_tags` uses mentions
    to find the image or moment to which a point or box tag belongs.
    """

    @property
    def start(self) -> int:
        """Return the offset at which the mention, such as "frame 3", starts in the text, in characters."""
        ...

    @property
    def end(self) -> int:
        """Return the offset after the last character of the mention, such as "frame 3", in the text."""
        ...

    @property
    def text(self) -> str:
        """Return the words that name a moment of a clip or an image, such as "frame 3" (from ``start`` to ``end``)."""
        ...


M = TypeVar("M", bound=TextSpan)


def anchor_tags(text: str, tags: Sequence[Tag], marks: Sequence[M]) -> list[M | None]:
    """Return, for each point or box tag, the mention of a moment or image to which it belongs.

    ``marks`` are these mentions: words of the text that name a moment of a clip ("frame 3") or an image ("picture 2").
    ``tags`` and ``marks`` must be in the order of the text. The result has one entry per tag, which is None if the tag
    belongs to no mention. For each tag, the first of these rules that finds a mention is used:

    1. the mention is directly before the tag, with only "at" or a colon between them (``[F3 @ t=1.66s] at …``);
    2. the mention is directly after the tag (``… in frame 3``);
    3. the mention is the nearest one before the tag in the same sentence, at most 300 characters away;
    4. the tag is in a list of tags, and the mention is directly after this list.

    The function takes time linear in ``len(text)``.
    """
    starts = [mark.start for mark in marks]
    anchored: list[M | None] = []
    behind_list: M | None = None
    following: Tag | None = None
    for tag in reversed(tags):
        place = bisect_left(starts, tag.start)
        behind = marks[place] if place < len(marks) and _is_behind(text, tag, marks[place]) else None
        before = marks[place - 1] if place and _is_before(text, marks[place - 1], tag) else None
        if behind is not None or following is None or not _is_list_gap(text[tag.end : following.start][:20]):
            behind_list = behind
        if before is not None and _FORWARD.fullmatch(text[before.end : tag.start + 1]):
            behind = None
        anchored.append(behind or before or behind_list)
        following = tag
    return anchored[::-1]


def _is_list_gap(between: str) -> bool:
    return between.replace(",", " ").strip().casefold() in ("", "and")


def _is_behind(text: str, tag: Tag, mark: TextSpan) -> bool:
    """Return whether a mention belongs to the tag directly before it, because a word or a sign joins them.

    The mention ``mark`` consists of words that name a moment of a clip or an image, such as "frame 3". The joining word
    or sign can be "in", "on", "of", "at", "@" or an opening bracket, as in "<tag> in frame 3".
    """
    if not 0 <= mark.start - tag.end <= _MAX_CHARS_BEHIND:
        return False
    between = text[tag.end : mark.start]
    if _BEHIND.fullmatch(between):
        return True
    joined = mark.text[0] in "[(@" or mark.text[:3].casefold() == "at "
    return not between.strip() and joined and not _FORWARD.match(text, mark.end)


def _is_before(text: str, mark: TextSpan, tag: Tag) -> bool:
    near = tag.start - mark.end <= _MAX_CHARS_BEFORE
    return near and not _SENTENCE_END.search(text, mark.end, tag.start)
