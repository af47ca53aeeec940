"""The rules by which answers that are numbers or text are graded, one function for each thing that a gold can be.

Each takes the predicted answer and the gold, and returns None where the gold is not of its kind, so that the next rule
is tried. Where a rule cannot tell, its grade is unscored with the method "judge".

- numbers (Argos Eq. 7-8): 5 % of the gold where both sides are decimal, exact otherwise, fractions too
  (:func:`schemas.answers.numerals.same_number`). Several different numbers ("3-5", "5 or 6") are wrong. "About 5" is 5;
  a bound or a denial of the right number ("more than 5", "not 5", "5+") is for the judge. Of a chain of equations
  ("2 + 3 = 5") the last side counts; "third" is 3, and "none" is 0.
- numbers with a unit: compared in the gold's unit (:mod:`schemas.answers.units`), however it is spelt; another
  dimension or currency is wrong. A bare number counts as given in the gold's unit. Where the gold has no unit, the
  prediction's unit isn't looked at: gold "5" is met by "5 %" and "5 cm". A percentage is met by its value ("80 %" and
  "0.8" are the same, in both directions), and by its number without the sign, but "2 %" is not "200 %".
- dates and times of day: by their fields; ambiguous ones (03/04/2021) are for the judge (:mod:`schemas.answers.dates`).
- mathematics: by math-verify (:mod:`schemas.answers.maths`).
- tuples "(5, 6)" and intervals "[1, 3)": in order, exactly, with their brackets. Numbers without brackets in another
  order are for the judge.
- lists: any order but every item as often as in the gold; arrows make the order count (:mod:`schemas.answers.lists`).
- other text (Argos Eq. 6): equal words are right; others may mean the same (sofa and couch), which is for the judge.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace

from schemas.answers.answer_type import Grade
from schemas.answers.choices import normalise_text
from schemas.answers.dates import read_date, same_date
from schemas.answers.lists import read_list, read_tuple, same_list, same_tuple
from schemas.answers.maths import MathsMatch, compare_maths, is_maths
from schemas.answers.number_words import is_number_in_words
from schemas.answers.numerals import (
    MAX_CHARS,
    Numeral,
    is_qualified,
    last_side,
    read_count,
    read_numerals,
    same_number,
    with_decimal_point,
    with_digits,
)
from schemas.answers.quantities import compare_quantity, whole_quantity
from schemas.answers.wrapping import bare, without_markup

Rule = Callable[[str, str], Grade | None]
"""Grades (predicted, gold), or returns None where the gold is not of the rule's kind. Never raises."""

_OR = re.compile(r"\bor\b", re.IGNORECASE)
NO_NUMBER = "no number"
"""The reason of a grade for an answer in which no number stands."""

# A group of responses is graded against one gold: what is read in it is kept for the next of them.
GOLDS_KEPT = 256
_gold_date = functools.lru_cache(GOLDS_KEPT)(read_date)
_gold_numerals = functools.lru_cache(GOLDS_KEPT)(read_numerals)
_gold_list = functools.lru_cache(GOLDS_KEPT)(read_list)
_gold_is_maths = functools.lru_cache(GOLDS_KEPT)(is_maths)


def grade_by(rules: Sequence[Rule], predicted: str, gold: str) -> Grade:
    """Returns the grade of the first rule that fits the gold, else that of the words alone. Equal text is right."""
    grade = next((grade for rule in rules if (grade := rule(predicted, gold)) is not None), None)
    if grade is None:
        return _compare_words(predicted, gold)
    if grade.value != 1.0 and predicted.strip() == gold.strip():
        return Grade(1.0, "text", "same text")
    return grade


def method_for(gold: str, is_number: bool = False) -> str:
    """Returns the method that a gold answer calls for, to be named where there is no answer to grade."""
    if read_date(gold) is not None:
        return "date"
    if (is_number and read_numerals(gold).single is not None) or whole_quantity(gold) is not None:
        return "numeric"
    if read_list(gold) is not None:
        return "list"
    return "maths" if is_maths(gold) else "text"


def grade_number(predicted: str, gold: str) -> Grade | None:
    """Numbers by Argos Eq. 7-8; None where the gold is not a single number or an ordinal."""
    wanted = _gold_numerals(gold).single or read_count(gold)
    if wanted is None:
        return None
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, "numeric", f"an answer of more than {MAX_CHARS} characters is not a number")
    predicted = with_decimal_point(last_side(predicted), wanted)
    counted = read_count(bare(predicted))
    if counted is not None:
        return Grade(float(same_number(counted, wanted)), "numeric", "an ordinal, or none")
    reading = read_numerals(predicted)
    if reading.is_expression:
        match = compare_maths(gold, predicted)
        return Grade(float(match is MathsMatch.EQUAL), "maths", match.value)
    if reading.single is None:
        reason = "several different numbers" if reading.numerals else NO_NUMBER
        return Grade(0.0, "numeric", reason)
    if same_number(reading.single, wanted):
        return _stated(predicted, "same number")
    if same_number(_unscaled(reading.single), _unscaled(wanted)):
        return Grade(None, "judge", "the same number but for a word like million")
    return Grade(0.0, "numeric", "another number")


def _unscaled(numeral: Numeral) -> Numeral:
    """The number as its digits alone would read."""
    return replace(numeral, value=numeral.value / numeral.scale, scale=1)


def _stated(predicted: str, reason: str) -> Grade:
    """Right, unless the words deny the number or make it a bound."""
    if is_qualified(predicted):
        return Grade(None, "judge", "a bound or a denial, not the number itself")
    return Grade(1.0, "numeric", reason)


def grade_date(predicted: str, gold: str) -> Grade | None:
    """Dates and times of day; None where the gold is neither."""
    wanted = _gold_date(gold)
    if wanted is None:
        return None
    given = read_date(bare(predicted)) if len(predicted) <= MAX_CHARS else None
    if given is None:
        return _compare_words(predicted, gold)
    same = same_date(given, wanted)
    if same is None:
        return Grade(None, "judge", "the dates or times may be the same")
    return Grade(float(same), "date", "same date or time" if same else "another date or time")


def grade_quantity(predicted: str, gold: str) -> Grade | None:
    """A number with a unit by Eq. 7-8, in the gold's unit; None where the gold isn't one."""
    compared = compare_quantity(bare(predicted), gold)
    if compared is None or compared.same is None:
        return None if compared is None else Grade(None, "judge", compared.reason)
    return _stated(predicted, compared.reason) if compared.same else Grade(0.0, "numeric", compared.reason)


def grade_maths(predicted: str, gold: str) -> Grade | None:
    """Formulas by math-verify; None where the gold isn't one."""
    if not _gold_is_maths(gold):
        return None
    words = bare(predicted)
    match = compare_maths(gold, with_digits(words) if is_number_in_words(words) else predicted)
    if match is not MathsMatch.GOLD_UNREADABLE:
        return Grade(float(match is MathsMatch.EQUAL), "maths", match.value)
    if predicted.strip() == gold.strip():
        return Grade(1.0, "text", "same text")
    return Grade(None, "judge", match.value)


def grade_tuple(predicted: str, gold: str) -> Grade | None:
    """Tuples and intervals of numbers, exactly; without brackets they may be a list, so another order may do."""
    wanted, given = read_tuple(gold), read_tuple(bare(predicted))
    if wanted is None or (given is None and not wanted.brackets):
        return None
    same = same_tuple(given, wanted)
    if same is None:
        return Grade(None, "judge", "the same numbers in another order or other brackets")
    return Grade(float(same), "numeric", "same tuple" if same else "not the same tuple")


def grade_list(predicted: str, gold: str) -> Grade | None:
    """Lists; None where the gold isn't one or two lists may still mean the same."""
    listed = _gold_list(gold)
    same = None if listed is None else same_list(bare(predicted), listed)
    return None if same is None else Grade(float(same), "list", "same items" if same else "not the same items")


def grade_sequence(predicted: str, gold: str) -> Grade | None:
    """Lists with arrows, which maths would take for formulas."""
    listed = _gold_list(gold)
    return grade_list(predicted, gold) if listed is not None and listed.is_sequence else None


def _compare_words(predicted: str, gold: str) -> Grade:
    """Whole comparison of words: equal ones are right, the right ones among alternatives ("white or black") are wrong,
    and whether others mean the same only a judge can tell.
    """
    if predicted.strip() == gold.strip():
        return Grade(1.0, "text", "same text")
    if len(predicted) > MAX_CHARS:
        return Grade(None, "judge", "a long text that may mean the same")
    wanted = normalise_text(without_markup(gold))
    plain = without_markup(predicted)
    if wanted and wanted in {normalise_text(bare(plain)), normalise_text(plain)}:
        return Grade(1.0, "text", "same text")
    alternatives = {normalise_text(bare(part)) for part in _OR.split(plain)} if not _OR.search(gold) else set[str]()
    if wanted and wanted in alternatives:
        return Grade(0.0, "text", "several alternatives")
    if not any(unicodedata.category(char)[0] in "LNS" for char in bare(plain)):
        return Grade(0.0, "text", "no letter, digit or symbol")
    return Grade(None, "judge", "texts differ and may still mean the same")
