"""Reads and grades two numbers that are one answer: ratios (3:2), shares (4 out of 10) and sizes (1920×1080)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from groundtrace.grading.answers.answer_type import Grade
from groundtrace.grading.answers.numerals import Numeral, read_numerals, same_number, with_digits
from groundtrace.grading.answers.wrapping import bare_answer

MAX_CHARS = 80
"""Longer text is not read as a pair of numbers."""

_NUMBER = r"(\d{1,9}(?:\.\d{1,6})?)"
_PATTERNS = tuple(
    (kind, re.compile(rf"\$?\s*{_NUMBER}\s*(?:{joint})\s*{_NUMBER}\s*\$?", re.IGNORECASE))
    for kind, joint in (
        ("ratio", r":|∶|\bto\b"),
        ("share", r"\bout\s+of\b|\bin\b|\bof\b"),
        ("size", r"[x×]|\bby\b"),
    )
)


@dataclass(frozen=True)
class Pair:
    """Holds two numbers that are one answer: a ratio, a share or a size.

    ``kind`` is ``ratio`` (3:2), ``share`` (4 out of 10) or ``size`` (1920×1080). ``one`` is the first number, and
    ``other`` is the second.
    """

    kind: str
    one: Fraction
    other: Fraction

    @property
    def value(self) -> Fraction:
        """Return the product of the two numbers for a size, and their quotient for a ratio or a share.

        For a quotient, the second number ``other`` must not be 0.
        """
        return self.one * self.other if self.kind == "size" else self.one / self.other


def read_pair(text: str) -> Pair | None:
    """Return the ratio (3:2), share (4 out of 10) or size (1920×1080) that a short text consists of. Never raises.

    Returns None for any other text, and for a pair whose second number is 0.
    """
    text = with_digits(text.strip().rstrip(".。")) if len(text) <= MAX_CHARS else ""
    for kind, pattern in _PATTERNS:
        found = pattern.fullmatch(text)
        if found is not None and Fraction(found.group(2)):
            return Pair(kind, Fraction(found.group(1)), Fraction(found.group(2)))
    return None


def grade_pair(predicted: str, gold: str, is_number: bool = False) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a ratio, a share or a size.

    ``predicted`` is the answer to grade. ``is_number`` is True if the question's answer type is a number. The grade's
    value is 1.0 (right), 0.0 (wrong) or None (only a judge model can decide). Returns None instead of a grade for any
    other gold, for a ratio without a colon ("3 to 2"), and for a share or size between dollar signs. Also returns None
    if the gold is a ratio between dollar signs (``$3:2$``), and the answer is not a ratio. The caller then tries the
    next rule.

    A ratio with the same value but other numbers (6:4 for 3:2) is right in two cases: the gold is between dollar
    signs, or ``is_number`` is True. Otherwise a judge decides, because the gold may be a score or a time. A judge also
    decides on a share or size with the same value but other numbers (2 out of 5 for 4 out of 10), and on an answer that
    is the value of the pair ("20 %" for "1 in 5").
    """
    wanted = read_pair(gold)
    if wanted is None or (wanted.kind == "ratio" and ":" not in gold) or ("$" in gold and wanted.kind != "ratio"):
        return None
    given = read_pair(bare_answer(predicted))
    method = "maths" if "$" in gold else "numeric"
    if given is not None and given.kind == wanted.kind:
        if (given.one, given.other) == (wanted.one, wanted.other):
            return Grade(1.0, method, f"same {wanted.kind}")
        if given.value == wanted.value and not (wanted.kind == "ratio" and (is_number or "$" in gold)):
            return Grade(None, "judge", f"the same {wanted.kind} in other terms or another order")
        return Grade(float(given.value == wanted.value), method, f"compares the value of the {wanted.kind}")
    return None if "$" in gold else _of_another_form(predicted, wanted)


def _of_another_form(predicted: str, wanted: Pair) -> Grade:
    """Grade an answer that is not a pair of the same kind (ratio, share or size) as the gold answer ``wanted``.

    A judge model decides in three cases. First, the answer is not a single number. Second, the gold answer is a share
    and the answer is its first number ("4" for "4 out of 10"). Third, the answer is the value of the pair ("2/5"), or
    it is a decimal or a percentage, which may be a rounded value. Any other number is wrong.
    """
    single = read_numerals(predicted).single
    if single is None or single.value == (wanted.one if wanted.kind == "share" else None):
        return Grade(None, "judge", f"not a {wanted.kind}, but may mean it")
    value = Numeral(wanted.value, False, False, is_fraction=wanted.value.denominator != 1)
    if same_number(single, value) or single.is_decimal or single.is_percent:
        return Grade(None, "judge", f"may be the value of the {wanted.kind}")
    return Grade(0.0, "numeric", f"a number, not the {wanted.kind}")
