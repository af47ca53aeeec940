"""Finds the part of an image that a clause is about: "in the middle box", "on the left".

A denial that is limited to a part ("the middle box has no square") denies nothing in the other parts.
"""

import re
from collections.abc import Collection

from groundtrace.schemas.labels import words_of

_SIDE = r"left|right|middle|cent(?:er|re)|top|bottom|upper|lower"
_WHICH = rf"{_SIDE}|central|first|second|third|last|other|remaining|next"
_PART = re.compile(
    rf"\b(?:in|on|within|inside|for|from|at) (?:the|this|that)(?: \w+)? ?(?P<which>{_WHICH}|others|latter|former)\b"
    rf"|\b(?P<whose>{_WHICH})(?:[- ]\w+)? "
    r"(?:box|panel|section|region|part|area|tower|half|side|one|group|row|column|cluster|stack|pile)(?:e?s)?\b"
)
_HEADING = re.compile(rf"(?P<lead>(?:^|[.;,\n])[\s*•-]*)(?P<side>{_SIDE})(?P<end>\*{{0,2}} ?[:(–—]| - )")
_LISTED = re.compile(r"\b(?P<before>(?:left|middle|cent(?:er|re)|top|bottom),? (?:and |or )?)right\b")


def with_headings(text: str) -> str:
    """Return a text in which headings that name a side ("left:", "right –") say that it is a place ("in the left:").

    ``text`` is in lower case. A heading "right:" is changed only if the text also names another side. Otherwise, the
    word may be a verdict. In a list such as "left, middle, right", the last word is changed, too.
    """

    def placed(found: re.Match[str]) -> str:
        if found["side"] == "right" and not re.search(r"\b(?:left|middle|cent(?:er|re)|top|bottom)\b", text):
            return found.group()
        return f"{found['lead']}in the {found['side']}{found['end']}"

    return _HEADING.sub(placed, _LISTED.sub(r"\g<before>the right", text))


def is_of_a_part(label: str, clause: str, asked: Collection[str]) -> bool:
    """Return whether a denying clause is only about a part of the image, and about a part that was not asked for.

    ``label`` is the name of the denied object. ``asked`` are the words of the question if the denial of this object in
    the question's part contradicts the answer; else it is empty.
    """
    for part in _PART.finditer(clause):
        which = {*words_of(part["which"] or part["whose"])}
        if not which & {*label.split()} and not which <= {*asked}:
            return True
    return False
