"""Checks the numbers of objects that a reasoning states directly before or after a list of tags.

A tag is an XML element with a label and points, by which a reasoning points at objects. The stated number must equal
the number of points in the list, or another count of points in the reasoning (:func:`miscounted_tags` lists these
counts). For example, "two black squares, [3 points], and three yellow squares, [2 points]" has two faults.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groundtrace.embedded.marked_text import RUN, Assertion, Marked, MarkedText, assertions
from groundtrace.embedded.sight.labels import Noun, colour_word, kind_word, read_label, singular
from groundtrace.grading.answers.number_words import WORDS

_N = rf"(?:[1-9]\d?|{'|'.join(word for word in sorted(WORDS, key=len, reverse=True) if WORDS[word])})"
_COUNTED = re.compile(rf"(?<![\w.,/*=<>-])(?P<n>{_N})(?=(?P<words>(?: [a-z]+){{1,4}}))")
_NOT_OF_ALL = re.compile(
    r"\b(?:another|others?|more|first|second|third|last|next|least|most|than|of|over|under|about|box|panel|tower|number"
    r"|no|not|remaining|further|additional|extra|group|row|column|step|between|or|to)\s*$|[-+*/×#<>]\s*$"
)
"""Matches the end of the text before a number that does not count all objects of a list of tags ("at least 2 squares").

Such a number is not compared with the number of points in the list."""
_EXAMPLES = re.compile(r"\b(?:such as|e ?\.?g|for example|for instance|like|including|among|each|every|per|apiece)\b")
_PART = re.compile(
    r"\b(?:left|right|middle|cent(?:er|re)|top|bottom|upper|lower|corner|side|box|panel|tower|row|column|half|here and"
    r"|(?:one|some|two|three|part) of)\b"
)
_LINK = r"(?:\s*[,:(–—]\s*|\s+-\s+|\s+)(?:(?:namely|i\.?e\.?|that is|located at|at|here|here:|these|are)[,:]?\s*)?"
_END = r"(?=\s*(?:$|[.,;:)!\n–—]|(?:and|but|while|whereas|so|against|versus|make|makes|in total)\b))"
_AND = re.compile(r",?\s*(?:and|plus|against|versus|but)?\s*(?:only |just |exactly )?$")
_RUN_BEHIND = re.compile(rf"{_LINK}(?P<run>{RUN})(?P<end>{_END})?")
_RUN_BEFORE = re.compile(
    rf"(?P<run>{RUN})\s*(?:[,:(–—]\s*|\s-\s)?(?:(?:so|these|that|they|this) )?"
    rf"(?:are |make |makes |is |i\.?e\.? |in total )?(?:only |exactly |just |the )?$"
)
_ENDS = re.compile(r"\s*(?:$|[.;:)!\n])")


@dataclass(frozen=True)
class _Counted:
    """Holds a stated number and the noun after the number, such as "two black squares".

    ``start`` and ``end`` are the offsets of this phrase in its sentence.
    """

    start: int
    end: int
    number: int
    noun: Noun
    text: str


def miscounted_tags(marked: MarkedText) -> str | None:
    """Return a message if a number directly before or after a list of tags is wrong; else None.

    ``marked`` is the reasoning; its tags are XML elements that point at objects. Each number has a noun, such as
    "squares" in "two squares, [3 points]". The points at the objects of this noun are counted in five texts: the list
    of tags, the sentence, the reasoning up to the number, the reasoning up to the end of the sentence, and the whole
    reasoning. The number is right if it equals one of these five counts. In the example, "two" is wrong if no other tag
    of the reasoning points at squares.

    There are two exceptions:

    - The sentence names a part of the image ("left"). A number that equals none of the counts is then wrong only if the
      first tag of the list alone has more points than the number.
    - The list is after the number, and more words of the clause follow the list ("two squares [3 points] touch"). The
      five counts are then not used. The number is wrong if the list has only one tag, and this tag has more points than
      the number.
    """
    for sentence in assertions(marked):
        if _EXAMPLES.search(sentence.text):
            continue
        found = list(_counted(sentence.text))
        for index, each in enumerate(found):
            number = _number_beside(marked, sentence, found, index)
            if number is not None:
                return f"{number} are pointed at, but the reasoning states: {each.text}"
    return None


def _counted(sentence: str) -> Iterator[_Counted]:
    """Yield each number in a sentence that a noun follows, as in "two squares" or "two black squares"."""
    for found in _COUNTED.finditer(sentence):
        words = found["words"].split()
        last = next((n for n, word in enumerate(words) if kind_word(word) is not None), None)
        number = WORDS.get(found["n"]) or int(found["n"])
        if last is None or any(colour_word(word) is None and word != "or" for word in words[:last]):
            continue
        noun = read_label(" ".join(words[: last + 1]))
        before = sentence[max(0, found.start() - 20) : found.start()]
        is_plural = words[last] != singular(words[last])  # "tower 2 square" and "no. 2 square" count nothing
        if noun is not None and is_plural == (number > 1) and not _NOT_OF_ALL.search(before):
            end = found.start("words") + sum(len(word) + 1 for word in words[: last + 1])
            yield _Counted(found.start(), end, number, noun, sentence[found.start() : end])


def _number_beside(marked: MarkedText, sentence: Assertion, found: list[_Counted], index: int) -> int | None:
    """Return the number of points of the tags beside a stated number if the stated number is wrong; else None.

    For example, the result is 3 for "two squares, [3 points]": the text states 2, but the tags after the words have
    three points. A tag is an XML element with points at objects. Tags are beside a number if they are directly before
    or after it. The result is also None if no tags are beside the number, or if the points of these tags cannot be
    counted.

    In some sentences, e.g. if they name a part of the image ("left"), the later tags may belong to another number. Then
    only the first tag is compared: if it has more points than the stated number, the result is its number of points.

    ``found`` are the stated numbers of the sentence with their nouns, and ``index`` selects one of them.
    """
    counted, text = found[index], sentence.text
    last = index
    while last + 1 < len(found) and _AND.fullmatch(text[found[last].end : found[last + 1].start]):
        last += 1
    behind = _RUN_BEHIND.match(text, found[last].end)
    if behind is not None:
        run = marked.among(behind["run"])
        if last == index and behind["end"] is None:
            return None if len(run) > 1 else _above(counted, run)
    else:
        before = _RUN_BEFORE.search(text[max(0, counted.start - 500) : counted.start])
        if before is None or not _ENDS.match(text, counted.end):
            return None
        run = marked.among(before["run"])
        if not all(each.noun is not None and counted.noun.covers(each.noun) for each in run):
            return None
    number = _points(run, counted.noun)
    end = sentence.start + len(text)
    others = (
        _points(marked.among(part), counted.noun)
        for part in (text, marked.text[: sentence.start + counted.start], marked.text[:end], marked.text)
    )
    if not number or counted.number in (number, *others):
        return None
    if _PART.search(text):
        return _above(counted, run)
    return number


def _above(counted: _Counted, run: list[Marked]) -> int | None:
    """Return the number of points of the first tag if this number is larger than the stated number; else None.

    ``run`` is the list of tags directly before or after the stated number. A tag is an XML element with points at
    objects. The stated number is ``counted.number``, such as 2 in "two squares, [3 points]". Only the first tag is
    used, because the later tags may belong to another part of the image or to another number. If the first tag alone
    has more points, the stated number is wrong in any case.
    """
    first = _points(run[:1], counted.noun)
    return first if first is not None and first > counted.number else None


def _points(tags: list[Marked], noun: Noun) -> int | None:
    """Return the number of different points (or centres of boxes) of the tags that belong to a noun.

    For example, tags with the label "black square" belong to the noun "square". Tags of other objects are not counted.
    Return None if the label of a tag is unknown, or may name other objects too: a "block" is a square or a rectangle.
    """
    centres: set[tuple[float, float]] = set()
    for tag in tags:
        if tag.noun is None or (tag.noun.overlaps(noun) and not noun.covers(tag.noun)):
            return None
        centres |= {*tag.centres} if noun.covers(tag.noun) else set()
    return len(centres)
