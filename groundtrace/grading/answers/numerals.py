"""Reads numbers in answers: digits, thousands separators, fractions and number words, also with units around them.

A number is read exactly, as a :class:`fractions.Fraction`, so that neither equality nor the 5 % rule of the paper Argos
(Eq. 7-8) depends on float rounding. Regular expressions run on at most ``MAX_CHARS`` characters.

Decimal digits of any script are read. Letters that look like digits are not read. A scale word multiplies its number
("5 million" is 5,000,000, and "two dozen" is 24). Number words are read if the text has no digits. In a text with
digits, a number word is read only if it is an alternative to a number ("five or 6" names two numbers). "The correct
one" does not name a number.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from fractions import Fraction

from groundtrace.grading.answers.number_notation import SIGNED, plain_notation
from groundtrace.grading.answers.number_words import SCALES, WORDS, locate_words, read_count_words

MAX_CHARS = 2000
"""Longer text is not read as numbers."""

TOLERANCE = Fraction(5, 100)
"""The tolerance of Argos Eq. 8, relative to the gold."""

_AROUND: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[$€£¥~`\"]"), " "),
    (
        re.compile(r"(?<![A-Za-z])(?:RM|USD|US|EUR|GBP|MYR|Rs|INR|CNY|JPY|SGD|AUD|CAD|CHF)\.?\s?(?=[-.\d])", re.I),
        " ",
    ),
    (re.compile(r"(?<=[A-Za-z])\^\{?-?\d\}?"), ""),
    *SIGNED,
)
_NUMERAL = re.compile(
    r"(?<![\w.^])(?<!\d[:/])(?P<sign>[-+]?)"
    r"(?:(?P<whole>\d{1,15})\s+(?P<mixed_n>\d{1,9})\s?/\s?(?P<mixed_d>\d{1,9})"
    r"|(?P<n>\d{1,15})\s?/\s?(?P<d>\d{1,15})"
    r"|(?P<int>\d{1,3}(?:,\d{3}){1,12}|\d{1,3}(?:[ ']\d{3}){1,12}(?!\d)"
    r"|\d{1,2}(?:,\d{2}){1,12},\d{3}(?!\d)|\d{1,40})(?P<point>\.\d{0,40})?(?:[eE](?P<exp>[-+]?\d{1,2}))?"
    r"|(?P<bare>\.\d{1,40}))"
    r"(?!\d|\.\d|,\d{3}(?!\d)|\s?/\s?\d|\s?:\s?\d|(?<=[12]\d\d0)'?s\b)"
)
"""Matches a number in digits; the years of a decade ("1990s") do not match."""
_PERCENT = re.compile(r"\s{0,2}(?:%|(?:(?:of\s+)?(?:an?|one|1)\s+)?per\s?cent\b)", re.IGNORECASE)
_LETTERS = re.compile(r"[A-Za-z]+")
_ONE_LETTER_UNITS = frozenset("mgshlLNJWVACFK")
_ARITHMETIC = re.compile(r"[\d\s.()*/+-]*\d\s*[+*]\s*[\d(][\d\s.()*/+-]*")
_OPERATIONS = re.compile(r"\^|\*\*|\\[A-Za-z]|[√π×÷∙·∞]|\d!")

_SCALE = re.compile(rf"\s?({'|'.join(SCALES)})\b", re.IGNORECASE)
_JOINT = r"\s*(?:\bor\b|\boder\b|\bou\b|\bplus\b|\bminus\b|\bto\b|\band\b|/|-|\()\s*"
_NAMES = "|".join(sorted(WORDS, key=len, reverse=True))
_JOINED = re.compile(
    rf"(?:\d|hundred|thousand|million){_JOINT}({_NAMES})\b|\b({_NAMES}){_JOINT}\d"
    rf"|\d\s+[^\W\d]{{1,12}}\s+(?:or|oder|ou)\s+({_NAMES})\b|\d\s*,\s*({_NAMES})\s+(?:or|oder|ou)\b",
    re.IGNORECASE,
)
_JOINED_DIGITS = re.compile(r"\d[%\w]{0,3}\s*(?:\bor\b|\bto\b|[-–—/~±])\s*[$€£]?\d", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"(?<![\d.])(\d+),(\d{1,2}|\d{4,})(?![\d.])")
_EQUALS = re.compile(r"(?<![=<>!:≠])[=≈](?![=<>])")
_NO_CHAIN = re.compile(
    r"[=≈][^=≈]*(?:[,;\n](?!\d)|\b(?:and|or|but|then|so|not)\b)[^=≈]*(?:[=≈]|$)|[<>≤≥≠]|!=|==", re.IGNORECASE
)
_QUALIFIED = re.compile(
    r"(?:\bnot|n['’]t|\b(?:less|more|fewer|greater|larger|smaller|higher|lower|other|rather) than|\bat (?:least|most)"
    r"|\bup to"
    r"|\bover|\bunder|\babove|\bbelow|\bexcept|\bbut|\bafter|\bbefore|\bsince|\buntil|\bpast|\bevery|\btwice|\bdouble"
    r"|\b(?:half|third|quarter)s? of|\bneither|\bnor|[<>≤≥≠不]"
    r"|\b(?:nicht|pas|mehr als|weniger als|mindestens|h[öo]chstens|[üu]ber|unter|plus d[e']|moins d[e']"
    r"|au moins|au plus"
    r"|m[áa]s de|menos de|al menos|mais de|pelo menos|non|no es|più di|meno di|almeno))\s*=?\s*"
    r"(?:the |in |at |on |exactly |equal to |be |an? )?(?=[-+$€£]?\.?\d)"
    r"|\d\s?\+(?!\s*\d)|\d\s+(?:or\s+(?:more|less|fewer|so)|at\s+(?:most|least)|max(?:imum)?|minimum|tops)\b"
    r"|\bnot\s+\w+$|\b10{2,}['’]?s\b"
    r"|\d(?:\s\w+)?\s+(?:is|are|was|were|would\s+be)\s+(?:not|wrong|incorrect|false|too)\b|\d\s+(?:squared"
    r"|cubed|each)\b"
    r"|以上|以下|以内|不到|超过|至少|至多|最多|最少|多于|少于",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Numeral:
    """Holds one number, and how it is written.

    Attributes:
        value: its exact value. A percent sign is ignored: the value of "80 %" is 80.
        is_decimal: whether it is written with a decimal point. The paper Argos calls this a float.
        is_percent: whether a percent sign or word follows.
        scale: the factor of the number's scale word, such as million; 1 without a scale word. ``value`` already
            includes this factor.
        last_place: the place value of the last written digit of a decimal (0.01 for 1.25); 0 for other numbers.
        is_fraction: whether it is written as a fraction, in digits or words, and is not a whole number.
    """

    value: Fraction
    is_decimal: bool
    is_percent: bool
    scale: int = 1
    last_place: Fraction = Fraction(0)
    is_fraction: bool = False


@dataclass(frozen=True)
class ParsedNumbers:
    """Holds the numbers of a text in order.

    ``is_expression`` is True if the text is a calculation or a formula, such as "2^3", "√2" or "2 + 3".
    """

    numerals: tuple[Numeral, ...]
    is_expression: bool

    @property
    def single(self) -> Numeral | None:
        """Return the number of the text, if all its numbers have the same value; else None.

        The result is also None if the text has no number, or is a calculation.
        """
        if self.is_expression or len({numeral.value for numeral in self.numerals}) != 1:
            return None
        return self.numerals[0]


def read_numerals(text: str) -> ParsedNumbers:
    """Return the numbers of a text, in digits and in words. Never raises.

    The result has no numbers if the text has more than ``MAX_CHARS`` characters. Number words ("seven") are read if the
    text has no digits. In a text with digits, a number word is read only if it is an alternative to a number, as in
    "five or 6".
    """
    return _read_numerals(text) if len(text) <= MAX_CHARS else ParsedNumbers((), False)


@functools.lru_cache(maxsize=1024)
def _read_numerals(text: str) -> ParsedNumbers:
    """Return the numbers of a text. The result is cached, since several responses often have the same answer."""
    text = plain_notation(text)
    for pattern, replacement in _AROUND:
        text = pattern.sub(replacement, text)
    is_expression = _OPERATIONS.search(text) is not None or _ARITHMETIC.fullmatch(text.rstrip(".")) is not None
    placed = locate_numerals(text)
    for _, _, end in placed:
        suffix = _LETTERS.match(text, end)
        if suffix is not None and len(suffix.group()) == 1 and suffix.group() not in _ONE_LETTER_UNITS:
            is_expression = True
    numerals = [numeral for numeral, _, _ in placed]
    if not numerals and not is_expression and not any(c.isdigit() for c in text):
        numerals = _in_words(text)
    elif numerals:
        numerals += [n for match in _JOINED.finditer(text) for n in _in_words(match.group(match.lastindex or 0))]
    return ParsedNumbers(tuple(numerals), is_expression)


def is_qualified(text: str) -> bool:
    """Return whether a short text gives a bound ("5+", "more than 5") or denies a number ("not 5").

    The result is False for "5" and "about 5", and for a text of more than ``MAX_CHARS`` characters.
    """
    return len(text) <= MAX_CHARS and _QUALIFIED.search(with_digits(text.strip().rstrip("."))) is not None


def locate_numerals(plain: str) -> list[tuple[Numeral, int, int]]:
    """Find the numbers in digits in a text.

    ``plain`` must be in plain notation (:func:`groundtrace.grading.answers.number_notation.plain_notation`). Each
    result holds the number, the offset of its first character, and the offset after the number and its scale word
    ("million").
    """
    placed: list[tuple[Numeral, int, int]] = []
    for match in _NUMERAL.finditer(plain):
        scaled = _SCALE.match(plain, match.end())
        end = match.end() if scaled is None else scaled.end()
        numeral = _read(match, plain, SCALES[scaled.group(1).lower()] if scaled is not None else 1, end)
        if numeral is not None:
            placed.append((numeral, match.start(), end))
    return placed


def is_whole_number(text: str) -> bool:
    """Return whether a short text is only one number in digits, such as "1,200", "2.5" or "5 million".

    The result is False if a unit or another word follows.
    """
    if len(text) > MAX_CHARS:
        return False
    plain = plain_notation(text).strip(" $").rstrip(".")
    placed = locate_numerals(plain)
    return len(placed) == 1 and placed[0][1:] == (0, len(plain))


def same_number(predicted: Numeral, gold: Numeral) -> bool:
    """Return whether a predicted number counts as the same as the gold (correct) number.

    If both are decimals, the tolerance is |p - g| / |g| <= 0.05, with p predicted and g gold (paper Argos, Eq. 7-8).
    The divisor |g| deviates from Argos, which divides by max(|g|, 1). With the divisor of Argos, any two numbers from 0
    to 0.05 would be the same, such as 1.6e-19 and 6e-23. Here, a gold of 0 matches only 0.

    Otherwise the numbers must be equal; fractions too (1/8 is not 1/6). There is one exception: one number is a
    fraction, and the other is a decimal of two or more significant digits. The fraction is then rounded to the last
    place of the decimal (2/3 is 0.67, but not 0.7).

    If only one of the numbers has a percent sign, the comparison depends on the absolute value of the other number:

    - The value is 0 or a whole number: the percent sign is ignored (2 is 2 %).
    - The value is between 0 and 1, such as 0.02: the percentage is divided by 100 (0.02 is 2 %). There is one
      exception: if the gold has the percent sign, its number without the sign is also right (0.5 for the gold 0.5 %).
    - The value is above 1 and not whole, such as 1.25: the percent sign is ignored (1.25 is 1.25 %). The numbers are
      also the same if the percentage is exactly 100 times the value, without any tolerance (1.25 is 125 %).
    """
    if predicted.is_percent != gold.is_percent:
        percent, bare = (predicted, gold) if predicted.is_percent else (gold, predicted)
        if abs(bare.value) < 1 and bare.value:
            share = replace(percent, value=percent.value / 100, is_percent=False, last_place=percent.last_place / 100)
            is_right = _is_near(bare, share) if bare is predicted else _is_near(share, bare)
            return is_right or (gold.is_percent and _is_near(bare, percent))
        if bare.value.denominator != 1 and percent.value == 100 * bare.value:
            return True
    return _is_near(predicted, gold)


def same_value(predicted: Numeral, gold: Numeral) -> bool:
    """Return whether two numbers are exactly the same, without any tolerance.

    If only one of them has a percent sign, the other number decides how they are compared: the sign is ignored (2 is
    2 %), the percentage is divided by 100 (0.02 is 2 %), or both comparisons are made (1.25 is 1.25 %, and also 125 %).
    :func:`same_number` lists these rules.
    """
    one, other = (
        replace(numeral, is_decimal=False, last_place=Fraction(0), is_fraction=False) for numeral in (predicted, gold)
    )
    return same_number(one, other)


def _is_near(predicted: Numeral, gold: Numeral) -> bool:
    """Return whether two numbers are the same, within the tolerance for decimals; percent signs are ignored."""
    if predicted.value == gold.value:
        return True
    if predicted.is_decimal and gold.is_decimal:
        return abs(predicted.value - gold.value) <= TOLERANCE * abs(gold.value)
    decimal, other = (predicted, gold) if predicted.is_decimal else (gold, predicted)
    is_precise = decimal.is_decimal and abs(decimal.value) >= 10 * decimal.last_place
    return other.is_fraction and is_precise and 2 * abs(decimal.value - other.value) <= decimal.last_place


def _read(match: re.Match[str], text: str, scale: int, end: int) -> Numeral | None:
    """Return the numeral of one match, or None for a division by zero.

    ``match`` is the match of the digits in ``text``. ``scale`` is the factor of the word after them, such as 1000000
    for "million", or 1. ``end`` is the offset after this word; a percent sign may follow there.
    """
    part = match.groupdict()
    denominator = int(part["mixed_d"] or part["d"] or 1)
    if denominator == 0:
        return None
    if part["mixed_n"] or part["n"]:
        value = int(part["whole"] or 0) + Fraction(int(part["mixed_n"] or part["n"]), denominator)
        is_decimal, last_place, is_fraction = False, Fraction(0), value.denominator != 1
    else:
        written = re.sub("[, ']", "", part["int"] or "0") + (part["point"] or part["bare"] or "")
        value = Fraction(written.removesuffix(".")) * Fraction(10) ** int(part["exp"] or 0)
        places = len(part["point"] or part["bare"] or ".") - 1
        is_decimal, last_place, is_fraction = places > 0, Fraction(0), False
        if is_decimal:
            last_place = Fraction(10) ** (int(part["exp"] or 0) - places) * scale
    percent = _PERCENT.match(text, end) is not None
    return Numeral(
        scale * (-value if part["sign"] == "-" else value), is_decimal, percent, scale, last_place, is_fraction
    )


def _in_words(text: str) -> list[Numeral]:
    return [
        Numeral(value, False, _PERCENT.match(text, end) is not None, is_fraction=value.denominator != 1)
        for value, _, end in locate_words(text)
    ]


def read_count(text: str) -> Numeral | None:
    """Return the number of an answer such as "third" (3), "twice" (2) or "none" (0).

    Returns None for any other answer, also for "3".
    """
    value = read_count_words(text)
    return None if value is None else Numeral(Fraction(value), False, False)


def names_alternatives(text: str) -> bool:
    """Return whether a short text joins numbers as alternatives or as a range: "5 or 6", "five or 6", "3-5"."""
    return len(text) <= MAX_CHARS and (_JOINED.search(text) or _JOINED_DIGITS.search(text)) is not None


def with_digits(text: str) -> str:
    """Return the text with digits in place of number words: "twelve cm" becomes "12 cm".

    If the text already has digits or more than ``MAX_CHARS`` characters, it is returned unchanged.
    """
    if any(char.isdigit() for char in text) or len(text) > MAX_CHARS:
        return text
    for value, start, end in reversed(locate_words(text)):
        text = f"{text[:start]}{value}{text[end:]}"
    return text


def last_side(text: str) -> str:
    """Return the text after the last equals sign of a calculation: "5" for "2 + 3 = 5".

    Any other text is returned unchanged, also a text with several equations ("x = 3, y = 5", "x = 3 or x = 5").
    """
    if len(text) > MAX_CHARS or _NO_CHAIN.search(text):
        return text
    *sides, last = _EQUALS.split(text)
    return last.strip() if sides and last.strip() else text


def with_decimal_point(text: str, gold: Numeral) -> str:
    """Return an answer with a point in place of its decimal comma: "3,5" becomes "3.5".

    This is done only if ``gold``, the correct number, is a decimal. The text is returned unchanged if it does not have
    exactly one comma, or if it has an opening bracket.
    """
    if not gold.is_decimal or text.count(",") != 1 or set(text) & set("([{"):
        return text
    return _DECIMAL_COMMA.sub(r"\1.\2", text)
