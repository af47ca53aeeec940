"""Grades answers that are numbers or text by rules, with one function for each kind of gold (correct) answer.

The arguments of each function are the predicted answer and the gold. A function returns None if the gold is not of its
kind; the next function is then tried. If a function cannot decide, its grade has the value None (unscored) and the
method "judge": a judge model decides.

- Numbers, quantities, ranges and ratios are graded by :mod:`groundtrace.grading.answers.number_rules`.
- Decades and centuries are compared as periods (:mod:`groundtrace.grading.answers.periods`). A judge decides on a year
  within a period, but the first year of the period (1990 for "the 1990s") is wrong.
- Dates and times of day are compared by their fields (:mod:`groundtrace.grading.answers.dates`). A judge decides on an
  ambiguous date (03/04/2021).
- Formulas are compared by math-verify (:mod:`groundtrace.grading.answers.maths`).
- Tuples "(5, 6)" and intervals "[1, 3)" must have equal numbers in the same order, and equal brackets. A judge decides
  on numbers without brackets in another order.
- The items of a list may be in any order, but each must occur as often as in the gold. If arrows join the items, their
  order matters (:mod:`groundtrace.grading.answers.lists`).
- Other text (paper Argos, Eq. 6) is right if its words equal those of the gold. A judge decides on different words,
  because they may mean the same (sofa and couch).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence

from groundtrace.grading.answers.answer_type import Grade
from groundtrace.grading.answers.choices import normalise_text
from groundtrace.grading.answers.dates import read_date, same_date
from groundtrace.grading.answers.lists import (
    may_be_interval,
    read_assignments,
    read_list,
    read_tuple,
    same_list,
    same_tuple,
)
from groundtrace.grading.answers.maths import MAX_CHARS as MAX_MATHS_CHARS
from groundtrace.grading.answers.maths import MathsMatch, compare_maths, is_maths
from groundtrace.grading.answers.number_rules import GOLDS_KEPT
from groundtrace.grading.answers.number_words import is_number_in_words
from groundtrace.grading.answers.numerals import MAX_CHARS, read_numerals, with_digits
from groundtrace.grading.answers.periods import holds_year, is_bare_tens, read_period, same_period
from groundtrace.grading.answers.quantities import whole_quantity
from groundtrace.grading.answers.spans import read_span
from groundtrace.grading.answers.wrapping import bare_answer, without_markup, without_wrapping

Rule = Callable[[str, str], Grade | None]
"""A function that grades (predicted, gold). It returns None if the gold is not of the rule's kind. It never raises."""

_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{4,}|∈|\\in(?![A-Za-z])")
_AROUND_SIGN = re.compile(r"\s*([<>=+|])\s*")
_SIGN_OF_LETTER = re.compile(r"(?<![\w*#-])(?:[^\W\d_]{1,2})([-#*])(?=[\s,.;)]|$)")
"""Matches a sign that is part of a short name, such as the grade "B-", the note "F#" and the blood group "AB-"."""
_OR = re.compile(r"\bor\b", re.IGNORECASE)
_gold_date = functools.lru_cache(GOLDS_KEPT)(read_date)
_gold_period = functools.lru_cache(GOLDS_KEPT)(read_period)
_gold_assignments = functools.lru_cache(GOLDS_KEPT)(read_assignments)
_gold_list = functools.lru_cache(GOLDS_KEPT)(read_list)
_gold_is_maths = functools.lru_cache(GOLDS_KEPT)(is_maths)


def grade_by(rules: Sequence[Rule], predicted: str, gold: str) -> Grade:
    """Grade an answer by the first of several rules that fits the gold (correct) answer.

    ``rules`` are functions that take the answer (``predicted``) and the gold, and return a grade. They are tried in
    order; a rule that does not fit the gold returns None. If no rule fits, the words of the answer and the gold are
    compared. An answer with the same text as the gold is always right.
    """
    grade = next((grade for rule in rules if (grade := rule(predicted, gold)) is not None), None)
    if grade is None:
        return _compare_words(predicted, gold)
    if grade.value != 1.0 and _is_same_text(predicted, gold):
        return Grade(1.0, "text", "same text")
    return grade


def method_for(gold: str, is_number: bool = False) -> str:
    """Return the name of the method that would grade answers against this gold (correct) answer.

    The name is ``date``, ``numeric``, ``list``, ``maths`` or ``text``. This function is used for a missing answer:
    nothing is compared, but the grade needs the name of a method. ``is_number`` is True if the question's answer type
    is a number; a gold such as "5" is then ``numeric``.
    """
    if read_date(gold) is not None or (read_period(gold) and not is_bare_tens(gold)):
        return "date"
    if read_span(gold) is not None:
        return "numeric"
    if (is_number and read_numerals(gold).single is not None) or whole_quantity(gold) is not None:
        return "numeric"
    if read_list(gold) is not None:
        return "list"
    return "maths" if is_maths(gold) else "text"


def grade_period(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a decade ("the 1990s") or a century.

    ``predicted`` is the answer to grade. The grade's value is 1.0 (right), 0.0 (wrong) or None (only a judge model can
    decide). Returns None instead of a grade for any other gold; the caller then tries the next rule.
    """
    wanted = _gold_period(gold)
    if not wanted or is_bare_tens(gold):
        return None
    words = bare_answer(predicted) if len(predicted) <= MAX_CHARS else ""
    given, year = read_period(words), read_numerals(words).single
    if given:
        same = same_period(given, wanted)
    elif year is not None and year.value.denominator == 1:
        same = None if holds_year(wanted, int(year.value)) else False
    else:
        return _compare_words(predicted, gold)
    if same is None:
        return Grade(None, "judge", "may be of the same years")
    return Grade(float(same), "date", "same years" if same else "other years, or one of them")


def grade_date(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a date, a time of day, or both.

    ``predicted`` is the answer to grade. The grade's value is 1.0 (right), 0.0 (wrong) or None (only a judge model can
    decide). Returns None instead of a grade for any other gold; the caller then tries the next rule.
    """
    wanted = _gold_date(gold)
    if wanted is None:
        return None
    given = read_date(bare_answer(predicted)) if len(predicted) <= MAX_CHARS else None
    if given is None:
        return _compare_words(predicted, gold)
    same = same_date(given, wanted)
    if same is None:
        return Grade(None, "judge", "the dates or times may be the same")
    return Grade(float(same), "date", "same date or time" if same else "another date or time")


def grade_maths(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a formula. The library math-verify compares the two.

    ``predicted`` is the answer to grade. The grade's value is 1.0 (right), 0.0 (wrong) or None (only a judge model can
    decide). Returns None instead of a grade if the gold is not a formula, or if math-verify cannot read it; the caller
    then tries the next rule.
    """
    if not _gold_is_maths(gold):
        return None
    words = bare_answer(predicted)
    match = compare_maths(gold, predicted)
    if match is not MathsMatch.EQUAL and is_number_in_words(words):
        match = compare_maths(gold, with_digits(words))
    if match is MathsMatch.ROUNDED or (match is MathsMatch.PREDICTION_UNREADABLE and _is_prose(words)):
        return Grade(None, "judge", match.value)
    if match is MathsMatch.DIFFERENT and "pi" in gold and ("°" in predicted or "circ" in predicted):
        return Grade(None, "judge", "an angle in degrees")
    if match is MathsMatch.DIFFERENT and "matrix}" in gold and "matrix}" not in predicted:
        return Grade(None, "judge", "a vector may be written as a tuple")
    if match is not MathsMatch.GOLD_UNREADABLE:
        return Grade(float(match is MathsMatch.EQUAL), "maths", match.value)
    return None


def _is_prose(text: str) -> bool:
    """Return whether an answer has a word of at least four letters, or the sign ∈ (also written as ``\\in``).

    The name of a LaTeX command (``\\frac``) is not a word. An answer with a word or this sign may describe the gold
    formula in words. So a judge decides on it if math-verify cannot read it. The result is False for a text that is
    too long for math-verify.
    """
    return len(text) <= MAX_MATHS_CHARS and _PROSE.search(text) is not None


def grade_tuple(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a tuple or an interval of numbers, such as "(5, 6)" or "[1, 3)".

    ``predicted`` is the answer to grade. The numbers must be equal and in the same order. The grade's value is 1.0
    (right), 0.0 (wrong) or None (only a judge model can decide). For example, a judge decides if a gold without
    brackets and the answer differ only in the order of their numbers, because the numbers may be a list.

    Returns None instead of a grade for any other gold, and also if the gold has no brackets and the answer is not a
    tuple. The caller then tries the next rule.
    """
    wanted, given = read_tuple(gold), read_tuple(bare_answer(predicted))
    if wanted is None or (given is None and not wanted.brackets):
        return None
    if given is None and [numeral.value for numeral in read_numerals(predicted).numerals] == [*wanted.values]:
        return Grade(None, "judge", "the same numbers in the same order")
    same = same_tuple(given, wanted)
    if same is None:
        return Grade(None, "judge", "the same numbers in another order or other brackets")
    return Grade(float(same), "numeric", "same tuple" if same else "not the same tuple")


def grade_list(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a list, such as "red, blue and green".

    ``predicted`` is the answer to grade. The grade's value is 1.0 if the answer has the same items as the gold, and 0.0
    if the answer is certainly a different list. The value is None (a judge model decides) if the gold is a set of two
    numbers, such as "{1, 2}", and the answer may be an interval, such as "(1, 2)".

    The function returns None instead of a grade if the gold is not a list, or if the answer differs from the gold but
    may mean the same list. The caller then tries the next rule.
    """
    listed = _gold_list(gold)
    same = None if listed is None else same_list(bare_answer(predicted), listed)
    if same and may_be_interval(bare_answer(predicted), gold):
        return Grade(None, "judge", "the items of the set, or the ends of an interval")
    return None if same is None else Grade(float(same), "list", "same items" if same else "not the same items")


def grade_assignments(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer assigns values to names, such as "a = 2, b = 5".

    ``predicted`` is the answer to grade. The grade's value is 1.0 if all values are equal, and 0.0 if a value differs
    or a name is missing. The value is None if only a judge model can decide, for example if the answer has values
    without names ("2, 5"). Returns None instead of a grade for any other gold; the caller then tries the next rule.
    """
    wanted = _gold_assignments(gold)
    if wanted is None:
        return None
    given = read_assignments(bare_answer(predicted), 1)
    if given is not None and given.keys() < wanted.keys():
        return Grade(0.0, "maths", "the values of some names")
    if given is None or given.keys() != wanted.keys():
        return _compare_words(predicted, gold)
    matches = {compare_maths(wanted[name], given[name]) for name in wanted}
    if matches <= {MathsMatch.EQUAL, MathsMatch.DIFFERENT}:
        return Grade(float(matches == {MathsMatch.EQUAL}), "maths", "the values of each name")
    return Grade(None, "judge", "the values of several names")


def grade_sequence(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a list whose items are joined by arrows, such as "A → B → C".

    ``predicted`` is the answer to grade. The grade's value is 1.0 if the answer has the same items in the same order,
    and 0.0 if the answer is certainly a different list. Returns None instead of a grade for any other gold, and if it
    is uncertain whether the answer means the same list. The caller then tries the next rule. Try this rule before
    :func:`grade_maths`, which treats arrows as formulas.
    """
    listed = _gold_list(gold)
    return grade_list(predicted, gold) if listed is not None and listed.is_sequence else None


def _compare_words(predicted: str, gold: str) -> Grade:
    """Grade an answer by its words. It is right if its words equal those of the gold; a judge decides on other words.

    An answer that names the gold as one of several alternatives ("white or black") is wrong. An answer without any
    letter, digit or symbol is wrong too.
    """
    if _is_same_text(predicted, gold):
        return Grade(1.0, "text", "same text")
    if len(predicted) > MAX_CHARS:
        return Grade(None, "judge", "a long text that may mean the same")
    gold, plain = (_AROUND_SIGN.sub(r"\1", without_markup(text)) for text in (gold, predicted))
    wanted = normalise_text(gold)
    if wanted and wanted in {normalise_text(bare_answer(plain)), normalise_text(plain)}:
        if _SIGN_OF_LETTER.findall(gold.strip()) != _SIGN_OF_LETTER.findall(plain.strip()):
            return Grade(None, "judge", "the same words, but another sign behind a letter")
        return Grade(1.0, "text", "same text")
    alternatives = (
        {normalise_text(bare_answer(part)) for part in _OR.split(plain)} if not _OR.search(gold) else set[str]()
    )
    if wanted and wanted in alternatives:
        return Grade(0.0, "text", "several alternatives")
    if not any(unicodedata.category(char)[0] in "LNS" for char in bare_answer(plain)):
        return Grade(0.0, "text", "no letter, digit or symbol")
    return Grade(None, "judge", "texts differ and may still mean the same")


def _is_same_text(predicted: str, gold: str) -> bool:
    """Return whether an answer and the gold answer are the same text; markup around a whole text does not count.

    For example, ``**5**`` and ``5`` are the same text (:func:`without_wrapping`). In an answer of more than
    :data:`MAX_CHARS` characters, markup counts.
    """
    if predicted.strip() == gold.strip():
        return True
    return len(predicted) <= MAX_CHARS and without_wrapping(predicted) in (gold.strip(), without_wrapping(gold))
