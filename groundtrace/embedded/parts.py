"""Finds the part of an image that a clause is about, such as the left side in "on the left".

The embedded judge (a program without a model) uses this module to understand denials. "The middle box has a triangle,
but no square" denies squares in the middle box only, and not in the other parts of the image.
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
    """Return a text in which headings such as "left:" are replaced by phrases such as "in the left:".

    :func:`part_denied` can find the part of the image in such a phrase. ``text`` is in lower case. The word "right" may
    also mean "correct", so a heading "right:" is changed only if the text also names another side. In a list such as
    "left, middle, right", the last word becomes "the right", which cannot mean "correct".
    """

    def placed(found: re.Match[str]) -> str:
        if found["side"] == "right" and not re.search(r"\b(?:left|middle|cent(?:er|re)|top|bottom)\b", text):
            return found.group()
        return f"{found['lead']}in the {found['side']}{found['end']}"

    return _HEADING.sub(placed, _LISTED.sub(r"\g<before>the right", text))


def part_denied(label: str, clause: str, sentence: str, asked: Collection[str]) -> str | None:
    """Return the part of the image ("left") to which a denial is limited; None if it is not limited to a part.

    ``clause`` denies an object, as in "no square in the left box", and ``label`` is the object's name. ``sentence``
    contains the clause. The result is the first part that the clause names, such as "left". A part is ignored if its
    word is in ``label`` or in ``asked``.

    ``asked`` holds the words of the question if the answer requires that the object exists; otherwise it is empty. The
    parts of the image that ``asked`` names are ignored for this reason: the caller accepts a denial that is limited to
    a part, but a denial in the part that the question names contradicts the answer. For example, the question is "how
    many squares are in the left box?", and the answer is 2. The clause "no square in the left box" contradicts this
    answer. So "left" is ignored, and the result is None.

    If the clause names no part, the last part that the sentence names before the clause is used: "the left box has a
    circle, but no square" denies squares in the left box. There are four exceptions, in which the result is None:

    - The clause is a conclusion ("so there is none").
    - The clause is about the whole image ("there is none in the image").
    - Before ``clause``, the sentence names the object and the part in the same clause, or first the part and then the
      object: "the left box has a square, but no other".
    - The clause begins with "and" ("and no square"), and the sentence names several parts before the clause.
    """
    named = [*_PART.finditer(clause)]
    before = sentence.partition(clause)[0]
    if not named and not _WHOLE.search(clause) and not (_JOINED.match(clause) and len(sides_of(before)) > 1):
        named = _carried(label, before)
    return next((side for side in map(_side, named) if side not in label.split() and side not in asked), None)


def sides_of(text: str) -> set[str]:
    """Return the words by which a text names parts of the image: {"left"} for "in the left box"."""
    return {*map(_side, _PART.finditer(text))}


def _side(part: re.Match[str]) -> str:
    return words_of(part["which"] or part["whose"])[0]


def _carried(label: str, before: str) -> list[re.Match[str]]:
    """Return the part of the image that is named before a clause, if the clause is about this part, too.

    ``before`` is the text before the clause. The last part that ``before`` names is used. In "the left box has a
    circle, but no square", the clause "no square" is about the left box, too. ``label`` is the name of the object that
    the clause denies ("square"). The result is a list with the match of the part. The list is empty in these cases:

    - ``before`` names no part, or ends with a word such as "so".
    - ``before`` names the object and the part in the same clause, or first the part and then the object. In "the left
      box has a square, but no other", ``before`` already states that a square is in the left box. So the clause "no
      other" does not deny all squares in the left box.
    """
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
