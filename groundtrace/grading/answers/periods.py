"""Reads and compares decades and centuries in answers ("the 1990s", "the '90s", "19th century").

These periods are never compared as single years: 1990 is not "the 1990s".
"""

from __future__ import annotations

import re

from groundtrace.grading.answers.number_words import read_ordinal

_TENS = ("", "", "twenties", "thirties", "forties", "fifties", "sixties", "seventies", "eighties", "nineties")
_LEAD = re.compile(r"(?:(?:in|during|from)\s+)?(?:the\s+)?")
_YEARS = re.compile(r"([12]\d\d0)['’]?s")
_SHORT_YEARS = re.compile(r"['’]?([2-9]0)['’]?s")
_IN_WORDS = re.compile(rf"(?:roaring\s+|swinging\s+)?({'|'.join(_TENS[2:])})")
_CENTURY = re.compile(r"(.{3,20}?)[\s-]+(?:century|c)\.?")

Years = tuple[int, int]
"""One period: its first year, and the year after its last year. The 1990s are (1990, 2000)."""


def read_period(text: str) -> frozenset[Years]:
    """Return the periods that a text such as "the 1990s" may mean. Never raises.

    Each period is (first year, year after the last year), such as (1990, 2000). "The 1800s" may be a decade or a
    century, and "the '90s" may belong to any of three centuries. "90s" may also mean 90 seconds; the caller must decide
    this. The result is empty for a text that is neither a decade nor a century, or that has other words.
    """
    text = " ".join(text[:60].casefold().split()).rstrip(".!。") if len(text) <= 60 else ""
    lead = _LEAD.match(text)
    text = text[lead.end() :] if lead is not None else text
    years = _YEARS.fullmatch(text)
    if years is not None:
        start = int(years.group(1))
        return frozenset({(start, start + 10)} | ({(start, start + 100)} if start % 100 == 0 else set()))
    short, words = _SHORT_YEARS.fullmatch(text), _IN_WORDS.fullmatch(text)
    if short is not None or words is not None:
        ten = int(short.group(1)) if short is not None else 10 * _TENS.index(words.group(1) if words else "")
        return frozenset((century + ten, century + ten + 10) for century in (1800, 1900, 2000))
    century = _CENTURY.fullmatch(text)
    number = None if century is None else read_ordinal(century.group(1))
    return frozenset() if not number or number > 30 else frozenset({(100 * (number - 1), 100 * number)})


def is_bare_tens(text: str) -> bool:
    """Return whether a text is only two digits and "s", such as "90s", which may be a decade or seconds."""
    return re.fullmatch(r"\s*\d\ds\.?\s*", text) is not None


def same_period(predicted: frozenset[Years], gold: frozenset[Years]) -> bool | None:
    """Return whether a predicted period is the same as the gold (correct) period.

    Each argument holds all periods that its text may mean, as pairs (first year, year after the last year): (1990,
    2000) for "the 1990s". Returns None if the two may be the same, but this is not certain.
    """
    if len(gold) == 1 and predicted == gold:
        return True
    return None if predicted & gold else False


def holds_year(gold: frozenset[Years], year: int) -> bool:
    """Return whether a year is within a gold (correct) period, but is not its first year.

    ``gold`` holds all periods that the gold may mean, as pairs (first year, year after the last year): (1990, 2000) for
    "the 1990s". ``year`` is the answer to grade. If the result is True, as for 1995, a judge model decides whether the
    answer is correct. If the result is False, the answer is wrong. The answer 1990 is also wrong: it has the same
    digits as "the 1990s", but it means the year and not the period.
    """
    return any(start < year < end for start, end in gold)
