"""Reads numbers with units in answers, and compares an answer with a gold quantity in the gold's unit.

The quantities are converted exactly and then compared by Eq. 7-8 of the paper Argos
(:func:`groundtrace.grading.answers.numerals.same_number`). A number without a unit is read in the gold's unit. A
quantity of another dimension or currency is different. The comparison is undecided, for example, in these cases:

- The numbers are the same, but the answer's unit is unknown.
- Two different dimensions may mean the same (months and days).
- The numbers do not match by these equations, but differ by at most 5 %. This difference may come from rounding,
  because people usually round when they convert between the two units (miles and kilometres).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from groundtrace.grading.answers.maths import MathsMatch, compare_maths
from groundtrace.grading.answers.number_notation import plain_notation
from groundtrace.grading.answers.number_words import SCALES, read_ordinal
from groundtrace.grading.answers.numerals import (
    MAX_CHARS,
    TOLERANCE,
    Numeral,
    last_side,
    locate_numerals,
    read_numerals,
    same_number,
    with_decimal_point,
    with_digits,
)
from groundtrace.grading.answers.polarity import is_refusal
from groundtrace.grading.answers.units import (
    Unit,
    convert,
    is_rounded_conversion,
    is_whole_conversion,
    may_be_same_dimension,
    unit_at,
)

_SIGN = re.compile(
    r"(US\$|A\$|C\$|S\$|[$€£¥₹]|\bRM(?=\d)|\b(?:RM|USD|EUR|GBP|MYR|Rs|INR|CNY|RMB|JPY|SGD|AUD|CAD|CHF)\b\.?)"
    r"\s?([-+]?(?:\d{1,3}(?:[ ']\d{3})+(?!\d)|\d[\d,]*)(?:\.\d+)?(?:e[-+]?\d{1,2})?"
    r"(?:\s?(?:hundred|thousand|million|billion|trillion)\b)?)"
)
_INCHES = r"(\d+(?:\.\d+)?)\s?(?:''|\")(?![\w'\"])"
_FEET: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"(?<![\d°.'\"])(\d+)\s?'\s?{_INCHES}"), r"\1 ft \2 in"),
    (re.compile(rf"(?<![\d°.'\"]){_INCHES}"), r"\1 in"),
    (re.compile(r"(?<![\d°.'\"])(\d+)'\s?(\d{1,2})(?![\d.'\"])"), r"\1 ft \2 in"),
    (re.compile(r"(?<![\d°.'\"])(\d+(?:\.\d+)?)\s?'(?![\w'\"])"), r"\1 ft"),
    (re.compile(r"(\d)\s?(dollars?|euros?)\s(?:and\s)?(\d{2})\s*\Z", re.IGNORECASE), r"\1.\3 \2"),
    (re.compile(r"(\d\s?h(?:rs?)?\s?\d{1,2}\s?)m\b"), r"\1min"),
    (re.compile(r"(\d\s?(?:h|hrs?|m|min|ft|kg|lb))(?=\d)"), r"\1 "),
    (re.compile(r"(\d\s?(?:ft|feet|foot)\.?,?\s\d{1,2}(?:\.\d+)?)\s*\Z"), r"\1 in"),
)
"""Patterns with their replacements, e.g. to write 6'2" and "6 ft 2" as "6 ft 2 in". They are not applied to a text with
a degree sign, because the signs ' and " mean minutes and seconds of an angle there.
"""
_POWER = re.compile(r"\^\s?\{\s?(-?\d)\s?\}")
_PERCENT = re.compile(r"\bper\s?cent\b", re.IGNORECASE)
_MATHS_DOLLARS = re.compile(r"\$([^$]*)\$(?!\d)")
_LETTER_IN_FORMULA = re.compile(r"\$[^$]*\d\s*[A-Za-z][^$]*\$")
_UPRIGHT = re.compile(r"\\(?:text|mathrm|mbox|circ)")
_ONE_UNIT = re.compile(r"\b(an?|one|\d+)\s+([A-Za-z]{2,})(\s+and\s+a\s+half)?\b", re.IGNORECASE)
_HALF_OF = re.compile(rf"\bhalf\s+(?:of\s+)?an?\s+(?=[a-z])(?!(?:{'|'.join(SCALES)})\b)", re.IGNORECASE)
_AFTER_UNIT = re.compile(
    r"\s+(?:old|of\s+age|long|wide|tall|high|deep|thick|away|each|in\s+(?:total|length|height|width|all))\Z"
)
_GAP = re.compile(r"\s*(?:and\s+)?")
_NO_UNITS = frozenset(
    ["is", "are", "was", "as", "in", "on", "at", "for", "of", "and", "so", "since", "because", "total"]
)


@dataclass(frozen=True)
class Quantity:
    """Holds a number with its unit, such as "5 cm".

    ``numeral`` is the number. ``unit`` is None if the number has no unit or an unknown unit. ``word`` is the
    word after the number if it is not a known unit ("apples" in "5 apples"); otherwise it is "".
    """

    numeral: Numeral
    unit: Unit | None
    word: str = ""


@dataclass(frozen=True)
class Comparison:
    """Holds the result of comparing an answer with the gold (correct) quantity, and the reason in one line.

    ``same`` is True if they are equal, False if they differ, and None if rules cannot decide.
    """

    same: bool | None
    reason: str


def read_quantities(text: str) -> tuple[Quantity, ...]:
    """Return the numbers in a text in order, each with its unit if it has one. Never raises.

    "1 h 30 min" is one quantity. The result is empty if the text has more than ``MAX_CHARS`` characters.
    """
    if len(text) > MAX_CHARS:
        return ()
    return tuple(quantity for quantity, _, _ in _located(_plain(text)))


def whole_quantity(text: str) -> Quantity | None:
    """Return the quantity of a text that is only a number with its unit, such as "5 cm"; None for any other text.

    The unit must be known. In ``$3m$``, the letter is a symbol and not a unit. But ``$3$ m`` and ``$3\\mathrm{m}$`` are
    quantities.
    """
    if len(text) > MAX_CHARS or (_LETTER_IN_FORMULA.search(text) and not _UPRIGHT.search(text)):
        return None
    plain = _AFTER_UNIT.sub("", _plain(text).strip().rstrip(".").strip())
    located = _located(plain)
    if len(located) != 1 or located[0][0].unit is None:
        return None
    quantity, start, end = located[0]
    return quantity if not plain[:start].strip() and not plain[end:].strip() else None


def same_exactly(one: Quantity, other: Quantity) -> bool | None:
    """Return whether two quantities are exactly equal after conversion to the same unit, as 1 m and 100 cm are.

    A quantity is a number with a unit. Returns None if one of them has no known unit.
    """
    if one.unit is None or other.unit is None:
        return None
    return convert(one.numeral.value, one.unit, other.unit) == other.numeral.value


def quantity_or_number(text: str) -> Quantity | None:
    """Return the quantity if a text is only a number, or a number with a unit or with counted things; else None.

    Examples are "5", "5 cm" and "5 red apples". Up to two words for the counted things may follow the number. The
    result holds the number with its unit; the unit is None if the number has no known unit.
    """
    quantity = whole_quantity(text)
    if quantity is not None or len(text) > MAX_CHARS:
        return quantity
    plain = _plain(text).strip().rstrip(".").strip()
    located = _located(plain)
    if len(located) != 1 or located[0][1] > 0:
        return None
    quantity, _, end = located[0]
    return quantity if re.fullmatch(r"(?:\s[A-Za-z]{2,}){0,2}", plain[end:]) else None


# Many answers are compared with one gold.
_gold_quantity = functools.lru_cache(256)(whole_quantity)


def compare_quantity(predicted: str, gold: str) -> Comparison | None:
    """Compare an answer with a gold (correct) quantity, such as "12 cm". Never raises.

    ``predicted`` is the answer; the caller must have removed a leading phrase such as "The answer is". Returns None if
    the gold is not a quantity.

    All quantities of the answer must equal the gold ("12 cm (0.12 m)"). An answer with several different quantities is
    usually wrong. The result is undecided in two cases: the comparison of one of the quantities is undecided; or all
    quantities in the gold's dimension are right, and only other numbers differ ("the 3 sides are 12 cm long" for 12
    cm).
    """
    wanted = _gold_quantity(gold)
    if wanted is None or wanted.unit is None:
        return None
    if len(predicted) > MAX_CHARS:
        return Comparison(False, f"an answer of more than {MAX_CHARS} characters is not a number")
    if read_ordinal(predicted) is not None:
        return Comparison(False, "a place in an order, not a quantity")
    predicted = with_decimal_point(with_digits(with_ones(last_side(predicted))), wanted.numeral)
    whole = whole_quantity(predicted)
    reading = read_numerals(predicted)
    if whole is None and reading.is_expression:
        return _compare_expression(predicted, gold)
    given = read_quantities(predicted) if whole is None else (whole,)
    if not given:
        is_any = bool(reading.numerals) or (any(map(str.isalnum, predicted)) and not is_refusal(predicted))
        return Comparison(None if is_any else False, "no number, or one in words")
    sames = [_same(quantity, wanted, wanted.unit) for quantity in given]
    if all(sames):
        return Comparison(True, "same quantity")
    in_kind = [s for s, q in zip(sames, given, strict=True) if q.unit and q.unit.dimension == wanted.unit.dimension]
    if None in sames or (in_kind and all(in_kind)):
        return Comparison(None, "the quantity, or one of several, may be the same")
    return Comparison(False, "another quantity" if len(given) == 1 else "several different numbers")


def with_ones(text: str) -> str:
    """Return the text with "one" instead of an article before a unit, so that the unit can be read as a quantity.

    "A second" becomes "one second", and "an hour and a half" becomes "1.5 hour".
    """
    return _ONE_UNIT.sub(_as_one, _HALF_OF.sub("half ", text))


def _as_one(found: re.Match[str]) -> str:
    number, name, half = found.groups()
    if unit_at(name, 0)[0] is None:
        return found.group()
    if half:
        return f"{'1' if number.isalpha() else number}.5 {name}"
    return f"one {name}" if number.isalpha() else found.group()


def _compare_expression(predicted: str, gold: str) -> Comparison:
    """Compare an answer that is a calculation, such as "√144 cm", with a gold (correct) quantity by math-verify.

    ``predicted`` is the answer. The result is undecided in these cases:

    - The answer has another unit than the gold, because math-verify ignores units.
    - math-verify cannot read the answer or the gold.
    - The answer is only the rounded value of the gold.
    - The values differ, and the gold is an angle in degrees: the answer may be the same angle in radians.
    """
    match = compare_maths(gold, predicted)
    letters = [re.sub(r"\\[A-Za-z]+|[^A-Za-z]", "", text) for text in (predicted, gold)]
    is_angle = "°" in gold or "circ" in gold or "degree" in gold
    if match is MathsMatch.DIFFERENT and is_angle:
        return Comparison(None, "a calculation that may be the angle in radians")
    if match in {MathsMatch.EQUAL, MathsMatch.DIFFERENT} and letters[0] in {"", letters[1]}:
        return Comparison(match is MathsMatch.EQUAL, match.value)
    return Comparison(None, "a calculation that may come to the quantity")


def _same(given: Quantity, wanted: Quantity, unit: Unit) -> bool | None:
    """Return whether two quantities are the same, or None if that is undecided.

    ``unit`` is the unit of ``wanted``. The result is undecided in these cases:

    - The numbers are the same, but the word after the number of ``given`` is an unknown unit. There is one exception:
      "5 pounds" is the same as a gold of 5 lb or £5.
    - ``given`` has a scale word in place of the unit, and the numbers are the same without this word. An example is "5
      million" for a gold of 5 km: the word may be a part of the number, or a wrong unit.
    - It is uncertain whether the two units measure the same thing (months and days). There is one exception: "20
      degrees" is the same as a gold of 20 °C.
    - The numbers are the same, but only ``wanted`` is a rate ("$5" for "$5 per hour").
    - The values differ by at most 5 %, and people usually round this conversion (miles to kilometres). There is one
      exception: a number without decimals is wrong if one unit is a whole multiple of the other (feet and inches).
    """
    if given.unit is None:
        same = same_number(given.numeral, wanted.numeral)
        if not same and given.numeral.scale != wanted.numeral.scale == 1:
            written = replace(given.numeral, value=given.numeral.value / given.numeral.scale)
            return None if same_number(written, wanted.numeral) else False
        is_unknown = given.word and given.word.lower() not in _NO_UNITS
        return None if same and is_unknown and not _is_pound(given.word, unit) else same
    if may_be_same_dimension(given.unit, unit):
        # "20 degrees" for 20 °C is as good as a bare number; a gold of 20 degrees may be a temperature or an angle.
        is_temperature = unit.dimension[0][0] == "temperature"
        return True if is_temperature and same_number(given.numeral, wanted.numeral) else None
    value = convert(given.numeral.value, given.unit, unit)
    if value is None:
        is_rate = bool(unit.currencies & given.unit.currencies) and set(given.unit.dimension) < set(unit.dimension)
        return None if is_rate and same_number(given.numeral, wanted.numeral) else False
    last_place = given.numeral.last_place * given.unit.worth / unit.worth
    if same_number(replace(given.numeral, value=value, last_place=last_place), wanted.numeral):
        return True
    is_near = abs(value - wanted.numeral.value) <= TOLERANCE * abs(wanted.numeral.value)
    is_exact = not given.numeral.is_decimal and is_whole_conversion(given.unit, unit)
    return None if is_near and is_rounded_conversion(given.unit, unit) and not is_exact else False


def _is_pound(word: str, unit: Unit) -> bool:
    """Return whether ``word`` is "pound" or "pounds", and ``unit``, the gold's unit, is a pound of money or of mass."""
    return word.lower() in {"pound", "pounds"} and (unit.currencies == {"GBP"} or unit == unit_at("lb", 0)[0])


def _plain(text: str) -> str:
    """Return the text in plain notation: powers as ``^n``, percentages with a sign, currencies after their numbers."""
    plain = plain_notation(_MATHS_DOLLARS.sub(r"\1", text).replace("~", " ").replace(r"\$", "$")).replace("µ", "μ")
    if "°" not in plain:
        for pattern, replacement in _FEET:
            plain = pattern.sub(replacement, plain)
    return _SIGN.sub(r"\2 \1 ", _POWER.sub(r"^\1", _PERCENT.sub("%", plain)))


def _located(plain: str) -> list[tuple[Quantity, int, int]]:
    """Return each quantity in a text, with the offset of its start and the offset after its end.

    ``plain`` is the text in plain notation (:func:`_plain`). A quantity begins with its number and ends with its unit.
    Adjacent quantities such as "1 h 30 min" are joined to one quantity (:func:`_joined`).
    """
    found: list[tuple[Quantity, int, int]] = []
    for numeral, start, number_end in locate_numerals(plain):
        unit, word, end = unit_at(plain, number_end)
        quantity = Quantity(numeral, unit, word)
        last = found[-1] if found else None
        joined = None if last is None or not _GAP.fullmatch(plain, last[2], start) else _joined(last[0], quantity)
        if last is not None and joined is not None:
            found[-1] = (joined, last[1], end)
        else:
            found.append((quantity, start, end))
    return found


def _joined(first: Quantity, second: Quantity) -> Quantity | None:
    """Return the sum of two adjacent quantities if the second has a smaller unit (5 ft 3 in); else None."""
    if first.unit is None or second.unit is None or first.unit.offset:
        return None
    value = convert(second.numeral.value, second.unit, first.unit)
    if value is None or first.unit.worth <= second.unit.worth or not 0 <= value < 1:
        return None
    total = first.numeral.value + (value if first.numeral.value >= 0 else -value)
    return Quantity(Numeral(total, first.numeral.is_decimal or second.numeral.is_decimal, False), first.unit)
