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
    r"\b(?:image|picture|photo|photograph|scene|anywhere|nowhere|overall|total|altogether|whole|in all)\b"
)
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


def is_of_a_part(label: str, clause: str, sentence: str, asked: Collection[str]) -> bool:
    """Return whether a denying clause is only about a part of the image, and about a part that was not asked for.

    ``label`` is the name of the denied object. ``sentence`` is the sentence that contains the clause. ``asked`` are the
    words of the question if the denial of this object in the question's part contradicts the answer; else it is empty.

    If the clause names no part, the part is that of the nearest clause before it in the sentence that names one. There
    are three exceptions: the clause is a conclusion ("so there is none"), it is about the whole image, or the object is
    named between the two.
    """
    named = [*_PART.finditer(clause)]
    if not named and not _WHOLE.search(clause):
        named = _carried(label, sentence.partition(clause)[0])
    for part in named:
        which = {*words_of(part["which"] or part["whose"])}
        if not which & {*label.split()} and not which <= {*asked}:
            return True
    return False


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
