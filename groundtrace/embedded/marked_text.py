"""Converts a reasoning to plain text in which each tag is replaced by one character, the tag's mark.

A tag is an XML element with a label and points or boxes, by which a reasoning points at objects. The checks of counts,
colours and places use this text to find the tags to which a number, a colour or a place belongs. They check only the
sentences that assert something (:func:`assertions`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from groundtrace.embedded.hedges import HYPOTHETICAL
from groundtrace.embedded.sentences import NEGATIONS, SENTENCE, spelled
from groundtrace.embedded.sight.labels import Noun, kind_word, singular
from groundtrace.embedded.sight.names import read_name
from groundtrace.grading.responses.conclusions import TAKES_BACK
from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.grading.responses.tags import Tag, scan_tags
from groundtrace.schemas.labels import plain_label

_FIRST, _LAST = 0xE000, 0xF8FF
MARK = f"[{chr(_FIRST)}-{chr(_LAST)}]"
"""Matches a mark: one character that replaces a tag in the text (:func:`read_marked`).

A mark is a private-use character of Unicode. Ordinary text has no such characters; if a reasoning has them, they are
replaced by blanks first.
"""
_ANY_MARK = re.compile(MARK)
SEPARATOR = r"\s{0,4}(?:[,;/&+]|,?\s{0,4}\b(?:and|und|et)\b)?\s{0,4}"
RUN = rf"{MARK}(?:{SEPARATOR}{MARK})*"
"""Matches a list of tags, such as "[a], [b] and [c]"."""
_BESIDE = re.compile(
    r"\b(?:below|above|under|underneath|beneath|over|on|onto|near|beside|besides|behind|by|with|without|from|than|as"
    r"|like|between|(?:left|right|top|bottom|front|side|edge|corner|half|part) of|(?:next|close|closest|compared) to"
    r"|touching|touches|containing|holding|(?:that|which) (?:has|have|contains?|holds?))"
    rf" (?:(?:the|an?) )?(?P<run>{RUN})"
)
"""Matches tags that only describe another object: in "the square below [a] is yellow", [a] gives the square's place."""
_QUOTED = re.compile(r"[\"“][^\"“”\n]*[\"”]")
_REPORTED = re.compile(
    r"\b(?:say|said|claim|assert|require|demand|ask|need|expect|describe)(?:s|d|ed)?\b"
    r"|\b(?:would|should|must|(?:has|have|had) to|according to)\b|\bstatement(?: (?:that|about|of)\b|:)"
)
"""Matches words of a sentence that reports what someone says or requires, and asserts nothing itself."""
_FALSE = frozenset({"false", "wrong", "incorrect", "untrue", "inaccurate", "contradiction", "contradicts", "fails"})
_IS_FALSE = re.compile(
    r"\W{0,4}(?:(?:but|and) )?no\s?(?:$|[.,;:!])"
    r"|\W{0,4}(?:(?:but|and|so) )?(?:(?:that|this|it|which) (?:\w+ ){1,2}?)?(?:not|false|wrong|untrue)\b"
)
"""Matches the beginning of a sentence that calls the previous sentence false."""


@dataclass(frozen=True)
class Marked:
    """Holds the content of one tag: an XML element by which a reasoning points at objects.

    ``noun`` is the class that the tag's label names ("yellow square"); None if the embedded engine does not know the
    label. ``centres`` are the points of the tag and the centres of its boxes, each as (x, y) in pixels. ``is_beside``
    is True if the text uses the tag only to describe another object, as in "the square below [the circle] is red". The
    words after such a tag are about the other object. ``inside`` is the text inside the tag, in lower case.
    """

    noun: Noun | None
    centres: tuple[tuple[float, float], ...]
    is_beside: bool = False
    inside: str = ""


@dataclass(frozen=True)
class MarkedText:
    """Holds a reasoning in which one character, a mark, replaces each tag (XML element that points at objects).

    ``text`` is the reasoning in lower case and without quotations. ``marks`` maps each mark to the content of its tag.
    If the text inside a tag is a plural, such as "four black squares", this text is kept before the mark.
    """

    text: str
    marks: dict[str, Marked]

    def among(self, text: str) -> list[Marked]:
        """Return the tags (XML elements that point at objects) of a part of the reasoning, in order.

        ``text`` is this part, in which each tag is replaced by its mark (one character).
        """
        return [self.marks[mark] for mark in _ANY_MARK.findall(text) if mark in self.marks]


@dataclass(frozen=True)
class Assertion:
    """Holds a sentence of a reasoning that asserts something. Questions and suppositions assert nothing.

    ``text`` is the sentence, and ``start`` is its offset in the text of the reasoning.
    """

    start: int
    text: str


def read_marked(reasoning: str) -> MarkedText:
    """Convert a reasoning: replace each tag (XML element that points at objects) by one character, its mark.

    Returns the text with the marks, and the content of each tag. Never raises.
    """
    plain, marks, pieces, done = _ANY_MARK.sub(" ", reasoning), dict[str, Marked](), list[str](), 0
    for number, tag in enumerate(scan_tags(plain)[: _LAST - _FIRST + 1]):
        mark = chr(_FIRST + number)
        pieces += plain[done : tag.start], _plural_inside(tag), mark
        marks[mark] = _marked(tag, plain[tag.start : tag.end])
        done = tag.end
    text = _QUOTED.sub(" ", spelled("".join([*pieces, plain[done:]]).replace("*", " ")))
    for mark in "".join(found["run"] for found in _BESIDE.finditer(text)):
        marks |= {mark: replace(marks[mark], is_beside=True)} if mark in marks else {}
    return MarkedText(text, marks)


def _marked(tag: Tag, written: str) -> Marked:
    boxes = parse_boxes(written)
    name = read_name(plain_label(boxes[0].label if boxes else tag.label))
    centres = [(point.x, point.y) for point in parse_points(written)]
    noun = None if name is None else name.noun
    return Marked(noun, (*centres, *(box.centre for box in boxes)), inside=(tag.inner or "").casefold())


def _plural_inside(tag: Tag) -> str:
    words = (tag.inner or "").casefold().split()
    is_plural = bool(words) and kind_word(words[-1]) is not None and singular(words[-1]) != words[-1]
    return f"{tag.inner} " if is_plural else ""


def assertions(marked: MarkedText) -> Iterator[Assertion]:
    """Yield the sentences of a reasoning that assert something and that no later sentence corrects.

    ``marked`` is the reasoning. Questions, suppositions ("it may be red") and reports ("the statement says …") are left
    out. A sentence that calls something false is left out. A sentence is also left out if the next sentence calls the
    sentence false. If the reasoning corrects itself ("wait", "I missed one"), the sentences before its last correction
    are left out.
    """
    corrected = max((found.start() for found in TAKES_BACK.finditer(marked.text)), default=0)
    for found in SENTENCE.finditer(marked.text):
        sentence, behind = found.group(), marked.text[found.end() :]
        words = {*re.findall(r"[^\W\d_]+", sentence)}
        open_or_reported = (
            sentence.rstrip().endswith("?") or HYPOTHETICAL.search(sentence) or _REPORTED.search(sentence)
        )
        if found.end() <= corrected or open_or_reported or _FALSE & words or _IS_FALSE.match(behind):
            continue
        yield Assertion(found.start(), sentence)


def is_negated(text: str) -> bool:
    """Return whether a part of a sentence, in lower case, contains a negation."""
    return not NEGATIONS.isdisjoint(re.findall(r"[^\W\d_]+", text))
