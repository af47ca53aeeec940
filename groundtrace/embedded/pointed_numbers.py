"""Checks the counts and comparisons in a reasoning against the points in the same reasoning.

For example, the sentence "more circles than squares" is wrong if the reasoning points at 2 circles and 3 squares.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

from groundtrace.embedded.sentences import STATEMENTS
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.responses.stated_counts import stated_counts
from groundtrace.schemas.labels import words_of

_MORE = re.compile(r"\b(?P<much>more|fewer|less) (?P<a>(?:[a-z]+ ){0,3}?[a-z]+) than (?P<b>(?:the )?(?:[a-z]+ ?){1,4})")
_OUTNUMBER = re.compile(
    r"(?P<a>(?:[a-z]+ ){1,3})(?:(?:do|does|did|are|is) not )?(?:outnumber|outnumbers|exceed|beat)\b(?P<b> [a-z ]+)"
)
_EQUAL = re.compile(r"\b(?:equally many|(?<!at least )as many|the same number|equal in number|the same amount)\b")
_PART = re.compile(
    r"\b(\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten) (?:[a-z]+ ){0,3}?(?:on|in|at) the "
    r"(?:left|right|middle|top|bottom|cent(?:er|re)|upper|lower)\b"
)


def contradicted_number(sentence: str, pointed: Mapping[str, int], answer: Fraction | None) -> str | None:
    """Return a message if the points of a reasoning contradict a count or a comparison in one of its sentences.

    Returns None if there is no contradiction. ``pointed`` maps each label to the number of objects with this label that
    the reasoning points at. ``answer`` is the answer as a number, or None if the answer is not a number. A sentence
    with a word such as "statement" is not checked. Which counts are checked depends on the answer:

    - The answer is not a number: the count of a label must equal the number in ``pointed``, apart from the exceptions
      in :func:`_miscounted`.
    - The answer is a number: the sum of counts in parts of the image ("2 on the left, 3 on the right") must be the
      answer. Other counts are not checked.
    """
    if STATEMENTS & {*re.findall(r"[^\W\d_]+", sentence)} or not pointed:
        return None
    negated = re.search(r"\b(?:not|no|never)\b", sentence) is not None
    for pattern in (_MORE, _OUTNUMBER):
        for match in pattern.finditer(sentence):
            first, second = _number_of(match["a"], pointed), _number_of(match["b"], pointed)
            if first is None or second is None:
                continue
            less = match.groupdict().get("much") in ("fewer", "less")
            holds = first < second if less else first > second
            if holds == negated:
                return f"{first} against {second} are pointed at, but the reasoning states: {sentence.strip()}"
    counts = list(pointed.values())
    if _EQUAL.search(sentence) and len(counts) == 2 and (counts[0] == counts[1]) == negated:
        return f"{counts[0]} and {counts[1]} are pointed at, but the reasoning states: {sentence.strip()}"
    return _wrong_sum(sentence, answer) if answer is not None else _miscounted(sentence, pointed)


def _wrong_sum(sentence: str, answer: Fraction) -> str | None:
    """Return a message if a sentence counts objects in parts of the image, and the sum is not the answer; else None.

    For example, "2 on the left and 2 on the right" is wrong if the answer is 5. The sentence is checked only if it has
    at least two such counts and no other number.
    """
    parts = [int(part) if part.isdigit() else read_numerals(part).numerals[0].value for part in _PART.findall(sentence)]
    alone = len(parts) > 1 and len(parts) == len(read_numerals(sentence).numerals)
    return f"its parts are not {answer}: {sentence.strip()}" if alone and sum(parts) != answer else None


def _miscounted(sentence: str, pointed: Mapping[str, int]) -> str | None:
    """Return a message if a sentence states a wrong count for a label; else None.

    A count is wrong if it differs from the number of objects with this label that the reasoning points at. ``pointed``
    maps each label to this number. Only the sentence's last count for a label is compared. It is compared only if it
    certainly includes all objects with the label, as in "5 circles in total". The count 0 is never treated as wrong.
    """
    for label, number in pointed.items():
        words = frozenset(label.split())
        stated = [each for each in stated_counts(sentence, words, words) if words <= frozenset(words_of(each.text))]
        if stated and stated[-1].is_whole and stated[-1].value not in (number, 0):
            return f"{number} are pointed at, but the reasoning states: {stated[-1].text}"
    return None


def _number_of(text: str, pointed: Mapping[str, int]) -> int | None:
    """Return how many objects with the label in a phrase the reasoning points at.

    ``text`` is the phrase. For example, the phrase "the red circles" has the label "red circle": an article and the
    plural do not matter. ``pointed`` maps each label to the number of objects with this label that the reasoning points
    at. Returns None if the phrase neither begins nor ends with one of these labels.
    """
    words = words_of(text)
    for label, number in pointed.items():
        parts = tuple(label.split())
        if parts and (words[: len(parts)] == parts or words[-len(parts) :] == parts):
            return number
    return None
