"""Reads and compares ranges and bounds as answers: "10-15", "between 3 s and 5 s", "at least 5", "12 or 13".

A range is one answer that consists of two numbers. An answer with only one of these numbers is wrong. A judge model
decides on a number between them. Both numbers have the same unit, even if the unit is written only once. A range
without a unit is read in the gold's unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from groundtrace.grading.answers.numerals import with_digits
from groundtrace.grading.answers.quantities import Quantity, quantity_or_number
from groundtrace.grading.answers.units import convert

MAX_CHARS = 80
"""Longer text is not read as a range or a bound."""

_JOINTS = re.compile(r"(?<![eE^{])\s*[-‐‑‒–—−~]\s*|\s+(?:to|through|thru|until|till|and|or)\s+", re.IGNORECASE)
_LEAD = re.compile(r"(?:(between)|(?:ranging\s+)?from)\s+", re.IGNORECASE)
_BOUNDS: tuple[tuple[str, str], ...] = (
    (
        r"(?:at\s+least|no\s+(?:fewer|less)\s+than|not\s+(?:fewer|less)\s+than|≥|>=|\\geq?|a\s+minimum\s+of)\s*(.+)",
        ">=",
    ),
    (r"(.+?)\s*(?:or\s+(?:more|above|over|higher|greater)|and\s+(?:above|over|up)|\+)", ">="),
    (r"(?:more\s+than|over|above|greater\s+than|higher\s+than|>)\s*(.+)", ">"),
    (r"(?:at\s+most|up\s+to|no\s+more\s+than|not\s+more\s+than|≤|<=|\\leq?|a\s+maximum\s+of)\s*(.+)", "<="),
    (r"(.+?)\s*(?:or\s+(?:less|fewer|below|under|lower)|and\s+(?:below|under))", "<="),
    (r"(?:less\s+than|fewer\s+than|under|below|lower\s+than|<)\s*(.+)", "<"),
)
_BOUND_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), sign) for pattern, sign in _BOUNDS)


@dataclass(frozen=True)
class NumberRange:
    """Holds a range ("10-15"), two alternatives ("12 or 13") or a bound ("at least 5").

    Attributes:
        kind: ``-`` for a range, ``or`` for two alternatives, or the sign of a bound: ``>=``, ``>``, ``<=``, ``<``.
        sides: the two numbers with their units, the smaller one first; a bound has only one number.
    """

    kind: str
    sides: tuple[Quantity, ...]


def read_span(text: str) -> NumberRange | None:
    """Return the range or bound that a text consists of, such as "10-15 cm" or "at least 5". Never raises.

    Returns None if the text has other words, is longer than ``MAX_CHARS``, or is neither a range nor a bound.
    """
    text = text.strip().rstrip(".。").strip()
    if not 2 < len(text) <= MAX_CHARS and not re.fullmatch(r"[<>≥≤]\d|\d\+", text):
        return None
    for pattern, sign in _BOUND_PATTERNS:
        found = pattern.fullmatch(text)
        bound = None if found is None else quantity_or_number(with_digits(found.group(1)))
        if bound is not None:
            return NumberRange(sign, (bound,))
    return _range(with_digits(text))


def same_span(predicted: NumberRange, gold: NumberRange) -> bool | None:
    """Return whether a predicted range or bound is the same as the gold (correct) one.

    Returns None if they may be the same, but this is not certain. For example, "more than 4" and "at least 5" may be
    the same.
    """
    if predicted.kind != gold.kind:
        return None if predicted.kind[0] == gold.kind[0] or {predicted.kind, gold.kind} == {"-", "or"} else False
    is_same = all(_same(one, other) for one, other in zip(predicted.sides, gold.sides, strict=True))
    is_percent = predicted.sides[-1].numeral.is_percent and gold.sides[-1].unit is None
    return None if is_same and is_percent else is_same


def may_be_within(number: Quantity, gold: NumberRange) -> bool:
    """Return whether a number is within a gold (correct) range or bound, and so may be the same answer in other words.

    For a range, ``number`` must be strictly between the two numbers of the range. For a bound, ``number`` must fulfil
    the bound (6 for "at least 5"). For two alternatives, ``number`` must equal one of them. The result is False if the
    units have different dimensions.
    """
    if gold.kind == "or":
        return any(_same(number, side) for side in gold.sides)
    values = [value for side in gold.sides if (value := _value_in(number, side)) is not None]
    if len(values) < len(gold.sides):
        return False
    value, bound = values[0], gold.sides[0].numeral.value
    if gold.kind == "-":
        return value > bound and values[1] < gold.sides[1].numeral.value
    return {">=": value >= bound, ">": value > bound, "<=": value <= bound, "<": value < bound}[gold.kind]


def _range(text: str) -> NumberRange | None:
    """Return the range of two numbers that a hyphen or a word joins; None for any other text.

    The second number must be larger, except if "or" joins them.
    """
    lead = _LEAD.match(text)
    rest = text if lead is None else text[lead.end() :]
    for joint in _JOINTS.finditer(rest):
        word = joint.group().strip().lower()
        low, high = quantity_or_number(rest[: joint.start()]), quantity_or_number(rest[joint.end() :])
        if low is None or high is None or (word == "and" and (lead is None or not lead.group(1))):
            continue
        low, high = _with_scale(_with_unit(low, high), high), _with_unit(high, low)
        value = _value_in(low, high)
        if value is None:
            return None
        if word == "or":
            return NumberRange("or", (low, high) if value <= high.numeral.value else (high, low))
        return NumberRange("-", (low, high)) if value < high.numeral.value else None
    return None


def _with_unit(side: Quantity, other: Quantity) -> Quantity:
    """Return one side of a range; if it has no unit, it gets the unit of the other side ("10-15 years")."""
    if side.unit is not None or other.unit is None:
        return side
    return replace(side, unit=other.unit)


def _with_scale(low: Quantity, high: Quantity) -> Quantity:
    """Return the first number of a range, with the scale word of the second number if the first has no scale word.

    For example, the 7 in "7-8 million" becomes 7 million. There is one exception: the first number is unchanged if it
    is not smaller than the second number without the scale word. An example is the 900 in "900-1 million".
    """
    scale = high.numeral.scale
    if low.numeral.scale != 1 or scale == 1 or low.numeral.value >= high.numeral.value / scale:
        return low
    return replace(low, numeral=replace(low.numeral, value=low.numeral.value * scale, scale=scale))


def _value_in(number: Quantity, side: Quantity) -> Fraction | None:
    """Return the number in the unit of ``side``; None if the dimensions differ.

    ``side`` is one of the numbers of a range. If the number or ``side`` has no unit, the number is unchanged.
    """
    if number.unit is None or side.unit is None:
        return number.numeral.value
    return convert(number.numeral.value, number.unit, side.unit)


def _same(number: Quantity, side: Quantity) -> bool:
    return _value_in(number, side) == side.numeral.value
