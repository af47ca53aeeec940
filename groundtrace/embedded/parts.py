"""Finds the part of an image that a clause is about: "in the middle box", "on the left".

A denial that is limited to a part ("the middle box has a triangle, but no square") denies nothing in the other parts.
"""

import re
from collections.abc import Collection

from groundtrace.embedded.sentences import CLAUSE
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
_WHOLE = re.compile(
    r"\b(?:image|picture|photo|photograph|scene|anywhere|nowhere|overall|total|altogether|whole|in all"
    r"|bild|insgesamt|nirgends|nirgendwo|imagen)\b"
)
_JOINED = re.compile(r"\W*and\b")
_CONCLUDES = re.compile(r"\b(?:so|hence|thus|therefore|also|daher|donc)[\s,]*$")


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


def part_denied(label: str, clause: str, sentence: str, asked: Collection[str]) -> str | None:
    """Return the part ("left") that a denying clause is limited to, if it was not asked for; else None.

    ``label`` is the name of the denied object. ``sentence`` is the sentence that contains the clause. ``asked`` are the
    words of the question if the denial of this object in the question's part contradicts the answer; else it is empty.

    If the clause names no part, the part is that of the nearest clause before it in the sentence that names one. There
    are four exceptions: the clause is a conclusion ("so there is none"), it is about the whole image, the object is
    named between the two, or the clause is joined by "and" to clauses about several parts.
    """
    named = [*_PART.finditer(clause)]
    before = sentence.partition(clause)[0]
    if not named and not _WHOLE.search(clause) and not (_JOINED.match(clause) and len(sides_of(before)) > 1):
        named = _carried(label, before)
    return next((side for side in map(_side, named) if side not in label.split() and side not in asked), None)


def sides_of(text: str) -> set[str]:
    """Return the words for the parts of the image that a text names: {"left"} for "in the left box"."""
    return {*map(_side, _PART.finditer(text))}


def _side(part: re.Match[str]) -> str:
    return words_of(part["which"] or part["whose"])[0]


def _carried(label: str, before: str) -> list[re.Match[str]]:
    """Return the parts that the text before a clause names for the clause, too."""
    if _CONCLUDES.search(before):
        return []
    since = ""
    for each in reversed(CLAUSE.split(before)):
        since = f"{each} {since}"
        named = [*_PART.finditer(each)]
        if named:
            words = " ".join(words_of(since))
            return [] if re.search(rf"\b{re.escape(label)}\b", words) else named[-1:]
    return []
