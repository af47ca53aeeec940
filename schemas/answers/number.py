"""Numbers (Argos Eq. 7-8), also with a unit; dates and formulas where the gold reads as one.

The rules are those of :mod:`schemas.answers.rules`; a gold that is one number is graded as such before all but dates
and quantities.
"""

import decimal
import re

from schemas.answers.answer_type import AnswerType, Gold, Grade, InvalidGold
from schemas.answers.free_text import LATER_RULES
from schemas.answers.rules import grade_by, grade_date, grade_number, grade_quantity, method_for
from schemas.text import excerpt

_RULES = (grade_date, grade_quantity, grade_number, *LATER_RULES)
_GOLD = re.compile(r"[+\-\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|[+\-\u2212]?\.\d+")


def plain_number(text: str) -> str | None:
    """Returns the number without separators and with an ASCII minus; None for a text that is not one plain number."""
    return text.strip().replace(",", "").replace("\u2212", "-") if _GOLD.fullmatch(text.strip()) else None


def value_of(text: str) -> decimal.Decimal | None:
    """Returns the value of a plain number; None for other text and for an exponent beyond what can be held."""
    number = plain_number(text)
    try:
        return None if number is None else decimal.Decimal(number)
    except decimal.InvalidOperation:
        return None


def _grade(predicted: str | None, gold: str, _choices: tuple[str, ...] | None) -> Grade:
    if predicted is None:
        return Grade(0.0, method_for(gold, is_number=True), "no answer")
    return grade_by(_RULES, predicted, gold)


def _check(gold: Gold) -> str:
    number = plain_number(gold.answer)
    if number is None:
        raise InvalidGold(f"answer: {excerpt(gold.answer)} is not a plain number")
    return number


NUMBER = AnswerType(
    name="numeric",
    form="Answer with a number alone.",
    grade=_grade,
    check_gold=_check,
    is_evident=lambda answer, _choices: plain_number(answer) is not None,
    is_number=True,
)
