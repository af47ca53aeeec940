"""Grades free-text answers by the kind of the gold (correct) answer.

A gold may be a date, a quantity, a formula, yes or no, a number, a list, or plain words. The rules are in
:mod:`groundtrace.grading.answers.rules`. If no rule can decide, a judge model decides.
"""

import re

from groundtrace.grading.answers.answer_type import AnswerType, Grade
from groundtrace.grading.answers.lists import read_tuple
from groundtrace.grading.answers.number_rules import NO_NUMBER, grade_number, grade_quantity, grade_span
from groundtrace.grading.answers.number_words import is_number_in_words
from groundtrace.grading.answers.numerals import MAX_CHARS, is_whole_number
from groundtrace.grading.answers.pairs import grade_pair
from groundtrace.grading.answers.rules import (
    Rule,
    grade_assignments,
    grade_by,
    grade_date,
    grade_list,
    grade_maths,
    grade_period,
    grade_sequence,
    grade_tuple,
    method_for,
)
from groundtrace.grading.answers.yes_no import grade_polar, is_polar

_PLAIN_NUMBER = re.compile(r"[-+−]?(?:\d[\d,]*(?:\.\d+)?|\d+(?:\s\d+)?\s?/\s?\d+)\.?")


def _is_plain_number(gold: str) -> bool:
    """Return whether a text is only one number in digits, perhaps with a power of ten or a scale ("2.1k")."""
    return _PLAIN_NUMBER.fullmatch(gold.strip()) is not None or is_whole_number(gold)


def _grade_plain(predicted: str, gold: str) -> Grade | None:
    """Return the grade if the gold of a text question is yes or no, or only one number; else None.

    If the gold is a number in words ("three"), and the answer has no number ("a few"), the result is also None: the
    answer may still be right.
    """
    if is_polar(gold):
        return grade_polar(predicted, gold)
    if len(gold) > MAX_CHARS:
        return None
    if _is_plain_number(gold):
        return grade_number(predicted, gold)
    grade = grade_number(predicted, gold) if is_number_in_words(gold) else None
    # "A few" may mean "three": if the gold is a word, an answer without a number is not certainly wrong.
    return None if grade is None or grade.reason == NO_NUMBER else grade


LATER_RULES: tuple[Rule, ...] = (grade_sequence, grade_assignments, grade_maths, _grade_plain, grade_tuple, grade_list)
"""The rules that free text and numbers share; they follow the rules for dates and quantities."""

_RULES = (grade_period, grade_date, grade_span, grade_quantity, grade_pair, *LATER_RULES)


def grade_text(predicted: str, gold: str) -> Grade:
    """Grade a free-text answer by the first rule that fits the gold (correct) answer.

    ``predicted`` is the answer to grade. The grade's value is 1.0 (right), 0.0 (wrong) or None (only a judge model can
    decide).
    """
    return grade_by(_RULES, predicted, gold)


def _grade(predicted: str | None, gold: str, _choices: tuple[str, ...] | None) -> Grade:
    return Grade(0.0, method_for(gold), "no answer") if predicted is None else grade_text(predicted, gold)


def is_free(gold: str, _choices: tuple[str, ...] | None = None) -> bool:
    """Return whether no rule can grade answers against this gold (correct) answer.

    If no rule can, a judge model must grade answers that state the gold in other words. For example, the result is True
    for "a red car", and False for "yes", "5 cm" or "seven". ``_choices`` is not used.
    """
    if is_polar(gold) or method_for(gold) != "text" or read_tuple(gold) is not None:
        return False
    return not (_is_plain_number(gold) or is_number_in_words(gold[:MAX_CHARS]))


FREE_TEXT = AnswerType(name="text", form="Answer as briefly as the question allows.", grade=_grade, needs_judge=is_free)
