"""Numbers in answers: digits, thousands separators, fractions, number words, with units around them.

A number is read exactly, as a :class:`fractions.Fraction`, so that neither equality nor the 5 % rule of Argos
(Eq. 7-8) depends on float rounding. Regular expressions run on at most ``MAX_CHARS`` characters.

Decimal digits of any script count; letters that look like digits do not. A scale word multiplies ("5 million"
is 5,000,000, "two dozen" is 24). Number words count where there are no digits, and beside digits only as an
alternative to them ("five or 6" names two numbers). "The correct one" names no number.
"""

from __future__ import annotations

import functools
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
_SIGNED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:minus|negative)\s+(?=[.\d])", re.I), "-"),
    (re.compile(r"^\s*([-+])\s+(?=[.\d])"), r"\1"),
)
_DRESSING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;:! ]"), ""),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|number|mbox)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})"), "°"),
    (re.compile(r"\\[dt]?frac\s*\{?\s*(\d{1,15})\s*\}?\s*\{\s*(\d{1,15})\s*\}"), r" \1/\2 "),
    (re.compile(r"\\(?:left|right|displaystyle|textdollar|quad)(?![A-Za-z])"), ""),
    (re.compile(r"\\([$%#&])"), r"\1"),
    (re.compile(r"\\[()\[\]]"), " "),
    (re.compile(r"(?<!\d)\*\*|\*\*(?!\d)"), " "),
    *_SIGNED,
)
_AROUND: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[$€£¥~`\"]"), " "),
    (
        re.compile(r"(?<![A-Za-z])(?:RM|USD|US|EUR|GBP|MYR|Rs|INR|CNY|JPY|SGD|AUD|CAD|CHF)\.?\s?(?=[-.\d])", re.I),
        " ",
    ),
    (re.compile(r"(?<=[A-Za-z])\^\{?-?\d\}?"), ""),
    *_SIGNED,
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
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALE = re.compile(rf"\s?({'|'.join(_SCALES)})\b", re.IGNORECASE)
_ONE = re.compile(
    r"\b(?:the|this|that|these|those|each|every|any|which|another|other|some|no|a|an)\s+"
    r"(?:(?!(?:is|are|was|shows|has|contains)\b)[a-z]+\s+)?one\b"
)
_JOINT = r"\s*(?:\bor\b|\bto\b|\band\b|/|-)\s*"
_NAMES = "|".join(sorted(_WORDS, key=len, reverse=True))
_JOINED = re.compile(rf"\d{_JOINT}({_NAMES})\b|\b({_NAMES}){_JOINT}\d", re.IGNORECASE)
_QUALIFIED = re.compile(
    r"(?:\bnot|n['’]t|\b(?:less|more|fewer|greater|larger|smaller|other) than|\bat (?:least|most)|\bup to|\bover"
    r"|\bunder|\babove|\bbelow|\bexcept|[<>≤≥≠])\s*=?\s*(?:exactly |equal to |be )?(?=[-+$€£]?\.?\d)"
    r"|\d\s?\+(?!\s*\d)|\d\s+or\s+(?:more|less|fewer|so)\b|\bnot\s+\w+$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Numeral:
    """One number as written.

    Attributes:
        value: its exact value, without any percent sign.
        is_decimal: written with a decimal point, or a fraction that is not whole: a "float" to Argos.
        is_percent: a percent sign or word follows.
        scale: what a scale word multiplied the written number by to give the value; 1 without one.
    """

    value: Fraction
    is_decimal: bool
    is_percent: bool
    scale: int = 1


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
    """Returns the numbers of a short text; for number words see the module. Never raises."""
    return _read_numerals(text) if len(text) <= MAX_CHARS else Reading((), False)


@functools.lru_cache(maxsize=1024)
def _read_numerals(text: str) -> Reading:
    """The numbers of a text; recent ones are kept, since the answers of a group are often the same."""
    text = undress(text)
    for pattern, replacement in _AROUND:
        text = pattern.sub(replacement, text)
    is_expression = _OPERATIONS.search(text) is not None
    placed = locate_numerals(text)
    for _, _, end in placed:
        suffix = _LETTERS.match(text, end)
        if suffix is not None and len(suffix.group()) == 1 and suffix.group() not in _ONE_LETTER_UNITS:
            is_expression = True
    numerals = [numeral for numeral, _, _ in placed]
    if not numerals and not is_expression and not any(c.isdigit() for c in text):
        numerals = _read_words(text)
    elif numerals:
        numerals += [n for match in _JOINED.finditer(text) for n in _read_words(match.group(1) or match.group(2))]
    return Reading(tuple(numerals), is_expression)


def is_qualified(text: str) -> bool:
    """Whether a short text makes its number a bound or denies it ("more than 5", "5+", "not 5"); "about" does not."""
    return len(text) <= MAX_CHARS and _QUALIFIED.search(text.strip().rstrip(".")) is not None


def undress(text: str) -> str:
    """Returns the text with signs, superscripts (as ``^n``), compatibility forms and LaTeX around digits made plain.

    Units and currencies are kept. Linear for text within ``MAX_CHARS``.
    """
    text = re.sub(r"([¼-¾⅐-⅞])", r" \1", text.translate(_SUPERSCRIPTS))
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    for pattern, replacement in _DRESSING:
        text = pattern.sub(replacement, text)
    return text


def locate_numerals(plain: str) -> list[tuple[Numeral, int, int]]:
    """Returns the numbers in digits of an undressed text, each with its offset and the one after it and its scale."""
    placed: list[tuple[Numeral, int, int]] = []
    for match in _NUMERAL.finditer(plain):
        scaled = _SCALE.match(plain, match.end())
        end = match.end() if scaled is None else scaled.end()
        numeral = _read(match, plain, _SCALES[scaled.group(1).lower()] if scaled is not None else 1, end)
        if numeral is not None:
            placed.append((numeral, match.start(), end))
    return placed


def same_number(predicted: Numeral, gold: Numeral) -> bool:
    """Argos Eq. 7-8 where both are decimal, equality otherwise.

    |p - g| / max(|g|, 1) <= 0.05 holds for decimals only; a gold without a decimal point needs the exact number.
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


def _read(match: re.Match[str], text: str, scale: int, end: int) -> Numeral | None:
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
    percent = _PERCENT.match(text, end) is not None
    return Numeral(scale * (-value if part["sign"] == "-" else value), is_decimal, percent, scale)


def _read_words(text: str) -> list[Numeral]:
    """Number words, as in "minus two hundred and five"; "one" after a determiner is a pronoun."""
    words = _LETTERS.findall(_ONE.sub(" ", text.lower()))
    numerals: list[Numeral] = []
    at = 0
    while at < len(words):
        value, after = _read_number_at(words, at)
        if after > at:
            negative = at > 0 and words[at - 1] in {"minus", "negative"}
            numerals.append(Numeral(Fraction(-value if negative else value), False, False))
        at = max(after, at + 1)
    return numerals


def _read_number_at(words: list[str], at: int) -> tuple[int, int]:
    """The number that begins at one word and the index after it; that index is ``at`` where none begins."""
    total = current = 0
    start = at
    while at < len(words):
        word = words[at]
        if word in _WORDS and (at == start or _continues(words[at - 1], _WORDS[word])):
            current += _WORDS[word]
        elif word in _SCALES and (at > start or words[at - 1 : at] == ["a"]):
            scaled = max(current, 1) * _SCALES[word]
            total, current = (total, scaled) if _SCALES[word] <= 100 else (total + scaled, 0)
        elif word != "and" or at == start or words[at - 1] not in _SCALES or not _WORDS.keys() & words[at + 1 : at + 2]:
            break
        at += 1
    return total + current, at


def _continues(before: str, value: int) -> bool:
    """Whether a number word continues the number of the word before it: "twenty one", "hundred (and) one"."""
    return before in _SCALES or before == "and" or (before in {*_TENS, "twenty"} and 0 < value < 10)
