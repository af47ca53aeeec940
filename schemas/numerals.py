"""Numbers in answers: digits, thousands separators, fractions, number words, with units around them.

A number is read exactly, as a :class:`fractions.Fraction`, so that neither equality nor the 5 % rule of Argos
(Eq. 7-8) depends on float rounding. Regular expressions run on at most ``MAX_CHARS`` characters.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

MAX_CHARS = 2000
"""Longer text is not read as numbers."""

TOLERANCE = Fraction(5, 100)
"""Argos Eq. 8."""

_SUPERSCRIPTS = str.maketrans({c: f"^{n}" for n, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_SIGNS = str.maketrans(dict.fromkeys("−‐‑‒–—﹣－", "-") | {"⁄": "/", "∕": "/"})
_CURRENCIES = "RM|USD|US|EUR|GBP|MYR|Rs|INR|CNY|JPY|SGD|AUD|CAD|CHF"
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;:! ]"), ""),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|number|mbox)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})"), "°"),
    (re.compile(r"\\[dt]?frac\s*\{?\s*(\d{1,15})\s*\}?\s*\{\s*(\d{1,15})\s*\}"), r" \1/\2 "),
    (re.compile(r"\\(?:left|right|displaystyle|textdollar|quad)(?![A-Za-z])"), ""),
    (re.compile(r"\\([$%#&])"), r"\1"),
    (re.compile(r"\\[()\[\]]"), " "),
    (re.compile(r"(?<!\d)\*\*|\*\*(?!\d)"), " "),
    (re.compile(r"[$€£¥~`\"]"), " "),
    (
        re.compile(r"(?<![A-Za-z])(?:RM|USD|US|EUR|GBP|MYR|Rs|INR|CNY|JPY|SGD|AUD|CAD|CHF)\.?\s?(?=[-.\d])", re.I),
        " ",
    ),
    (re.compile(r"\b(?:minus|negative)\s+(?=[.\d])", re.I), "-"),
    (re.compile(r"(?<=[A-Za-z])\^\{?-?\d\}?"), ""),
    (re.compile(r"^\s*([-+])\s+(?=[.\d])"), r"\1"),
)
_NUMERAL = re.compile(
    r"(?<![\w.^])(?<!\d[:/])(?P<sign>[-+]?)"
    r"(?:(?P<whole>\d{1,15})\s+(?P<mixed_n>\d{1,9})\s?/\s?(?P<mixed_d>\d{1,9})"
    r"|(?P<n>\d{1,15})\s?/\s?(?P<d>\d{1,15})"
    r"|(?P<int>\d{1,3}(?:,\d{3}){1,12}|\d{1,40})(?P<point>\.\d{0,40})?(?:[eE](?P<exp>[-+]?\d{1,2}))?"
    r"|(?P<bare>\.\d{1,40}))"
    r"(?!\d|\.\d|,\d{3}(?!\d)|\s?/\s?\d|\s?:\s?\d)"
)
_PERCENT = re.compile(r"\s{0,2}(?:%|per\s?cent\b)", re.IGNORECASE)
_LETTERS = re.compile(r"[A-Za-z]+")
_ONE_LETTER_UNITS = frozenset("mgshlLNJWVACFK")
_OPERATIONS = re.compile(r"\^|\*\*|\\[A-Za-z]|[√π×÷∙·]|\d!")

_SMALL = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty",
)
_TENS = re.findall(r"\w+", "thirty forty fifty sixty seventy eighty ninety")
_WORDS = {word: n for n, word in enumerate(_SMALL)} | {word: n * 10 for n, word in enumerate(_TENS, 3)}


@dataclass(frozen=True)
class Numeral:
    """One number as written.

    Attributes:
        value: its exact value, without any percent sign.
        is_decimal: written with a decimal point, or a fraction that is not whole: a "float" to Argos.
        is_percent: a percent sign or word follows.
    """

    value: Fraction
    is_decimal: bool
    is_percent: bool


@dataclass(frozen=True)
class Reading:
    """The numbers of a text, in order, and whether it calculates with them (powers, roots, variables)."""

    numerals: tuple[Numeral, ...]
    is_expression: bool

    @property
    def single(self) -> Numeral | None:
        """The number, if the text names one value (perhaps repeatedly) and does not calculate."""
        if self.is_expression or len({numeral.value for numeral in self.numerals}) != 1:
            return None
        return self.numerals[0]


def read_numerals(text: str) -> Reading:
    """Find the numbers of a short text. Number words count only where there are no digits. Never raises."""
    if len(text) > MAX_CHARS:
        return Reading((), False)
    text = _clean(text)
    numerals: list[Numeral] = []
    is_expression = _OPERATIONS.search(text) is not None
    for match in _NUMERAL.finditer(text):
        numeral = _read(match, text)
        if numeral is None:
            continue
        numerals.append(numeral)
        suffix = _LETTERS.match(text, match.end())
        if suffix is not None and len(suffix.group()) == 1 and suffix.group() not in _ONE_LETTER_UNITS:
            is_expression = True
    if not numerals and not is_expression and not any(c.isdigit() for c in text):
        numerals = _read_words(text)
    return Reading(tuple(numerals), is_expression)


def same_number(predicted: Numeral, gold: Numeral) -> bool:
    """Argos Eq. 7-8 where both are decimal, equality otherwise.

    |p - g| / max(|g|, 1) <= 0.05 holds for decimals only; a gold without a decimal point must be met exactly.
    Where one side alone has a percent sign, the value of the percentage is accepted too, if equal.
    """
    if predicted.value == gold.value:
        return True
    if predicted.is_percent != gold.is_percent:
        worth = [side.value / 100 if side.is_percent else side.value for side in (predicted, gold)]
        if worth[0] == worth[1]:
            return True
    if not (predicted.is_decimal and gold.is_decimal):
        return False
    return abs(predicted.value - gold.value) / max(abs(gold.value), Fraction(1)) <= TOLERANCE


def _clean(text: str) -> str:
    """Bring signs, superscripts, LaTeX dressing and currencies to plain ASCII around the digits."""
    text = re.sub(r"([¼-¾⅐-⅞])", r" \1", text.translate(_SUPERSCRIPTS))
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


def _read(match: re.Match[str], text: str) -> Numeral | None:
    """The numeral of one match, or None for a division by zero."""
    part = match.groupdict()
    denominator = int(part["mixed_d"] or part["d"] or 1)
    if denominator == 0:
        return None
    if part["mixed_n"] or part["n"]:
        value = int(part["whole"] or 0) + Fraction(int(part["mixed_n"] or part["n"]), denominator)
        is_decimal = value.denominator != 1
    else:
        written = (part["int"] or "0").replace(",", "") + (part["point"] or part["bare"] or "")
        value = Fraction(written.removesuffix(".")) * Fraction(10) ** int(part["exp"] or 0)
        is_decimal = len(part["point"] or part["bare"] or "") > 1
    percent = _PERCENT.match(text, match.end()) is not None
    return Numeral(-value if part["sign"] == "-" else value, is_decimal, percent)


def _read_words(text: str) -> list[Numeral]:
    """Number words from zero to ninety-nine."""
    words = _LETTERS.findall(text.lower())
    numerals: list[Numeral] = []
    at = 0
    while at < len(words):
        value = _WORDS.get(words[at])
        if value is not None:
            negative = at > 0 and words[at - 1] in {"minus", "negative"}
            ones = _WORDS.get(words[at + 1], 0) if value >= 20 and at + 1 < len(words) else 0
            if 0 < ones < 10:
                value, at = value + ones, at + 1
            numerals.append(Numeral(Fraction(-value if negative else value), False, False))
        at += 1
    return numerals
