"""Grades answers if the gold (correct) answer is a number (paper Argos, Eq. 7-8).

The gold may also be a fraction, range, ratio, quantity, date or formula. The rules are in
:mod:`groundtrace.grading.answers.number_rules` and :mod:`groundtrace.grading.answers.rules`. A gold is valid if these
rules can grade answers against it. If the gold is a plain number, its thousands separators are removed.
"""

import decimal
import functools
import re

from groundtrace.grading.answers.answer_type import AnswerType, Gold, Grade, InvalidGold
from groundtrace.grading.answers.free_text import LATER_RULES
from groundtrace.grading.answers.maths import MathsMatch, compare_maths, is_maths
from groundtrace.grading.answers.number_rules import grade_number, grade_quantity, grade_span
from groundtrace.grading.answers.number_words import is_number_in_words
from groundtrace.grading.answers.numerals import MAX_CHARS
from groundtrace.grading.answers.pairs import grade_pair
from groundtrace.grading.answers.rules import Rule, grade_by, grade_date, grade_period, method_for
from groundtrace.grading.answers.wrapping import legible
from groundtrace.schemas.text import excerpt

_grade_pair = functools.partial(grade_pair, is_number=True)
_NUMBER_RULES: tuple[Rule, ...] = (grade_period, grade_date, grade_span, grade_quantity, _grade_pair, grade_number)
_RULES = (*_NUMBER_RULES, *LATER_RULES)
_GOLD = re.compile(r"[+\-\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|[+\-\u2212]?\.\d+")

_CONSTANT = re.compile(r"[π√∞½⅓⅔¼¾]|\\(?:pi|sqrt|infty)")


def plain_number(text: str) -> str | None:
    """Return a plain number in a uniform spelling, such as "-1200.5" for "−1,200.5"; None if the text is anything else.

    A plain number has only digits, a sign, commas between thousands, a decimal point and an exponent ("1e5"). The
    commas are removed, and the minus sign becomes "-".
    """
    return text.strip().replace(",", "").replace("\u2212", "-") if _GOLD.fullmatch(text.strip()) else None


def value_of(text: str) -> decimal.Decimal | None:
    """Return the exact value of a plain number (:func:`plain_number`), such as 1200 for "1,200".

    Returns None for any other text, and for a number whose exponent is out of range.
    """
    number = plain_number(text)
    try:
        return None if number is None else decimal.Decimal(number)
    except decimal.InvalidOperation:
        return None


def _grade(predicted: str | None, gold: str, _choices: tuple[str, ...] | None) -> Grade:
    if predicted is None:
        return Grade(0.0, method_for(gold, is_number=True), "no answer")
    return grade_by(_RULES, predicted, gold)


def is_gradable(gold: str) -> bool:
    """Return whether rules can grade answers against this gold (correct) answer.

    For example, the result is True for a fraction ("3/4"), a range ("10-15") and a formula. Call this only for a gold
    that is not a plain number such as "5" or "1,200.5".
    """
    if not (any(map(str.isdigit, gold)) or _CONSTANT.search(gold) or is_number_in_words(gold[:MAX_CHARS])):
        return False
    return any(rule("?", gold) is not None for rule in _NUMBER_RULES) or (
        is_maths(gold) and compare_maths(gold, "?") is not MathsMatch.GOLD_UNREADABLE
    )


def _check(gold: Gold) -> str:
    """Return the gold (correct) answer: a plain number without its thousands separators, any other gold unchanged.

    Other valid golds are, for example, 3/4, 10-15, 5 km and $2\\pi$. Raises InvalidGold if rules cannot grade answers
    against the gold.
    """
    number = plain_number(gold.answer)
    if number is not None:
        return number
    if not is_gradable(legible(gold.answer)):
        raise InvalidGold(
            f"answer: {excerpt(gold.answer)} is not one number, fraction, range, ratio or quantity; "
            "give a number, or set answer_type to 'text'"
        )
    return gold.answer.strip()


NUMBER = AnswerType(
    name="numeric",
    form="Answer with a number alone.",
    grade=_grade,
    check_gold=_check,
    is_evident=lambda answer, _choices: plain_number(answer) is not None,
    is_number=True,
)
