"""Defines the rules that grade answers if the gold (correct) answer is a number.

The number may be plain, have a unit, or be a range, a bound or a ratio. If a rule cannot decide, a judge model decides.

Plain numbers (Eq. 7-8 of the paper Argos):

- If the gold and the answer are both decimals, the tolerance is 5 % of the gold. Otherwise the numbers must be equal.
  There is one exception: a fraction also matches its rounded value, such as 0.67 for 2/3
  (:func:`groundtrace.grading.answers.numerals.same_number`).
- Several different numbers ("3-5", "5 or 6") are wrong. There is one exception: if one number is right, and the others
  only explain it ("7 (3 on the left and 4 on the right)"), a judge decides.
- "About 5" is 5. A judge decides on a bound or a denial of the right number ("more than 5", "not 5", "5+").
- A judge decides on an answer that leaves the number open ("5, or any other number", "5 if both are red", "not sure,
  5").
- In a chain of equations ("2 + 3 = 5"), the last side is the answer. "2 + 3" alone is 5.
- "Third" is 3, and "none" is 0. A judge decides on words without a number ("several", "VII"). A refusal to answer is
  wrong.

Numbers with a unit:

- They are compared in the gold's unit (:mod:`groundtrace.grading.answers.units`), whatever the spelling of the unit.
  Another dimension or currency is wrong.
- A number without a unit is read in the gold's unit. If the gold has no unit, the answer's unit is ignored: "5 %" and
  "5 cm" match the gold "5".
- A quantity never matches an ordinal ("2 seconds" is not "2nd").
- A percentage matches its value ("80 %" and "0.8" are the same, in both directions). It also matches its number without
  the percent sign ("80 %" and "80"). But a whole number such as "2" matches only "2 %", and not "200 %".
- If the gold has a plus or minus sign, a judge decides on words for a direction ("down 4 %"). If the gold names the
  counted things, a judge decides on an answer that names other things ("3 oranges" for "3 apples").

Ranges and bounds are compared as a whole (:mod:`groundtrace.grading.answers.spans`). Two numbers that are one answer
(3:2, 4 out of 10) are graded by :mod:`groundtrace.grading.answers.pairs`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from fractions import Fraction

from groundtrace.grading.answers.answer_type import Grade
from groundtrace.grading.answers.maths import MathsMatch, compare_maths
from groundtrace.grading.answers.number_words import SCALES, read_ordinal
from groundtrace.grading.answers.numerals import (
    MAX_CHARS,
    Numeral,
    ParsedNumbers,
    is_qualified,
    last_side,
    names_alternatives,
    read_count,
    read_numerals,
    same_number,
    same_value,
    with_decimal_point,
    with_digits,
)
from groundtrace.grading.answers.pairs import read_pair
from groundtrace.grading.answers.periods import read_period
from groundtrace.grading.answers.polarity import is_refusal
from groundtrace.grading.answers.quantities import compare_quantity, quantity_or_number, whole_quantity, with_ones
from groundtrace.grading.answers.spans import may_be_within, read_span, same_span
from groundtrace.grading.answers.wrapping import bare_answer

GOLDS_KEPT = 256
"""The cache size for parsed golds; a cache helps because all responses of a group are graded against the same gold."""
NO_NUMBER = "no number"
"""The reason of a grade if the answer has no number."""

_VAGUE = re.compile(r"\b(?:some|many|much|few|several|lots?|plenty|not\s+(?:none|zero|nothing)|last)\b", re.IGNORECASE)
"""Words that mean neither 0 nor 1, e.g. "many". An answer without a number is wrong if it has such a word and the gold
is at least 0 and at most 1.
"""
_NOTHING = re.compile(r"\s*(?:no|none|nobody|nothing|neither|never|nil)\b", re.IGNORECASE)
_BESIDE = re.compile(r"\b(?:and|or|to|between|from|either|both|about|around|maybe|perhaps|then|[a-z]\s*=)(?!\w)", re.I)
_ORDINAL_ENDING = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_CALCULATES = re.compile(
    r"[+*×÷=]|(?<=\d)\s+[-x]\s+(?=\d)|\b(?:plus|minus|times|out\s+of)\b|(?<=\d)\s+(?:in|of)\s+(?=\d)", re.IGNORECASE
)
_DIRECTION = re.compile(
    r"\b(?:down|up|fell|falls?|fallen|dropp?\w*|declin\w*|decreas\w*|los[st]\w*|loss|lower\w*|less|below|rose|ris\w+"
    r"|gain\w*|increas\w*|grew|grow\w*|higher|more|above)\b|^\s*\(\s*[$€£]?\d",
    re.IGNORECASE,
)
_SIGNED = re.compile(r"\s*[$€£]?\s?[-+−–]\s?[$€£]?\d")
_NO_NOUNS = frozenset(
    [
        "about",
        "around",
        "approximately",
        "roughly",
        "nearly",
        "almost",
        "exactly",
        "total",
        "there",
        "are",
        "the",
        "and",
        "for",
        "with",
        "each",
        "of",
        "only",
        "just",
        "year",
        "number",
        "answer",
        "one",
    ]
)

_gold_numerals = functools.lru_cache(GOLDS_KEPT)(read_numerals)
_gold_span = functools.lru_cache(GOLDS_KEPT)(read_span)
_LEFT_OPEN = re.compile(
    r"\b(?:any|another|(?:some|every|the) other|a different) (?:number|answer|amount|value|count)s?\b"
    r"|\b(?:any|some|every)thing\b|\b(?:or|oder|ou) (?:else|not|none|nothing|any|another|whatever)\b|\bwhichever\b"
    r"|\bwhatever\b|\bunless\b|\bif\b|\bcould be\b|\bandere? zahl(?:en)?\b|\bautres? nombres?\b"
    r"|\b(?:below|under) zero\b",
    re.IGNORECASE,
)
"""Matches words that leave the number of an answer open, or that give the number another sign ("below zero")."""


def grade_number(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is one number, by Eq. 7-8 of the paper Argos.

    ``predicted`` is the answer to grade. Ordinals ("third"), "twice" and words that mean 0 ("none") are numbers here.
    The grade's value is 1.0 (right), 0.0 (wrong) or None (only a judge model can decide). Returns None instead of a
    grade if the gold is not one number; the caller then tries the next rule.
    """
    wanted = _gold_numerals(gold).single or read_count(gold)
    if wanted is None:
        return None
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, "numeric", f"an answer of more than {MAX_CHARS} characters is not a number")
    predicted = bare_answer(with_decimal_point(last_side(predicted), wanted))
    if read_period(predicted):
        return Grade(0.0, "numeric", "a decade or a century")
    counted = read_count(predicted)
    if counted is not None:
        return Grade(float(same_number(counted, wanted)), "numeric", "an ordinal, or none")
    if read_ordinal(gold) is not None and whole_quantity(with_digits(with_ones(predicted))) is not None:
        return Grade(0.0, "numeric", "a quantity, not a place in an order")
    reading = read_numerals(predicted)
    if reading.is_expression:
        return _calculated(predicted, gold, wanted)
    if reading.single is None:
        return _undecided(predicted, reading, wanted)
    return _compared(predicted, gold, reading.single, wanted)


def _compared(predicted: str, gold: str, given: Numeral, wanted: Numeral) -> Grade:
    """Grade an answer with one number. This number is compared with the gold's number.

    ``given`` is the number of the answer ``predicted``, and ``wanted`` is the number of ``gold``, the correct answer.
    The grade also depends on the other words of both texts, such as the counted things.
    """
    if _is_other_direction(predicted, gold) and abs(given.value) == abs(wanted.value):
        return Grade(None, "judge", "the number, perhaps in another direction")
    if same_number(given, wanted):
        if _names_others(predicted, gold):
            return Grade(None, "judge", "the same number, perhaps of other things")
        return _stated(predicted, "same number")
    one_scaled = (given.scale == 1) != (wanted.scale == 1)
    if one_scaled and same_number(_unscaled(given), _unscaled(wanted)):
        return Grade(None, "judge", "the same number but for a word like million")
    return Grade(0.0, "numeric", "another number")


def _calculated(predicted: str, gold: str, wanted: Numeral) -> Grade:
    """Grade an answer that is a calculation. The value of the calculation is compared with the gold.

    ``wanted`` is the gold's number.
    """
    match = compare_maths(gold, predicted)
    if match is MathsMatch.GOLD_UNREADABLE:
        match = compare_maths(str(wanted.value), predicted)
    is_marked = re.search(r"\d\s?!\s*\Z", predicted) is not None
    if match is MathsMatch.DIFFERENT and is_marked and _holds(read_numerals(predicted.rstrip("! ")), wanted):
        return Grade(None, "judge", "the number with an exclamation mark, or its factorial")
    if match is MathsMatch.PREDICTION_UNREADABLE and _holds(read_numerals(predicted), wanted):
        return Grade(None, "judge", match.value)
    return Grade(float(match is MathsMatch.EQUAL), "maths", match.value)


def _undecided(predicted: str, reading: ParsedNumbers, wanted: Numeral) -> Grade:
    """Grade an answer that names no number, or more than one number.

    ``reading`` holds the numbers of the answer ``predicted``, and ``wanted`` is the gold's number. The first of these
    rules that applies is used:

    - All numbers have exactly the gold's value ("80 % (0.8)" for 0.8), and are not joined as alternatives or as a
      range: the answer is right, unless its other words deny or limit the number (:func:`_stated`).
    - The answer has no number: it is wrong if it certainly does not mean the gold's number
      (:func:`_is_surely_another`). Otherwise a judge model decides.
    - A judge decides on a calculation whose value may be the gold's number. A judge also decides if one number is
      right, and the others may only explain this number ("7 (3 on the left and 4 on the right)").
    - Any other answer is wrong, such as "3-5".
    """
    if reading.numerals and not names_alternatives(predicted) and all(same_value(n, wanted) for n in reading.numerals):
        return _stated(predicted, "the same number in several forms")
    if not reading.numerals:
        is_another = _is_surely_another(predicted, wanted)
        return Grade(0.0, "numeric", NO_NUMBER) if is_another else Grade(None, "judge", NO_NUMBER)
    text = with_digits(predicted)
    if _CALCULATES.search(text) and not names_alternatives(re.sub(r"\s-\s", " minus ", text)):
        values = [numeral.value for numeral in reading.numerals]
        if "=" not in text and _comes_to(values, wanted.value):
            return Grade(None, "judge", "a calculation that may come to the number")
    is_list = not re.search(r"[^\W\d_]", _BESIDE.sub(" ", _ORDINAL_ENDING.sub("", text)))
    if _holds(reading, wanted) and not is_list and not names_alternatives(text):
        return Grade(None, "judge", "several numbers, of which one is right")
    return Grade(0.0, "numeric", "several different numbers")


def _is_surely_another(words: str, wanted: Numeral) -> bool:
    """Return whether an answer without a number certainly does not mean the gold's number.

    This is certain for a code ("B12"), for a refusal, and for an answer without letters and digits. It is also certain
    for "nobody" if the gold is not 0, and for "many" if the gold is at least 0 and at most 1. There is one exception:
    the result is False for a ratio, a share or a size whose value is the gold's number ("6:3" for 2).
    """
    pair = read_pair(words)
    if pair is not None and pair.value == wanted.value:
        return False
    is_code = any(map(str.isdigit, words)) and words.isascii()
    if is_code or not any(map(str.isalnum, words)) or is_refusal(words):
        return True
    if wanted.value != 0 and _NOTHING.match(words):
        return True
    return 0 <= wanted.value <= 1 and _VAGUE.search(words) is not None


def _comes_to(values: list[Fraction], wanted: Fraction) -> bool:
    """Return whether the sum of the values equals the wanted number.

    For exactly two values, the result is also True if their difference (first minus second), product or quotient (first
    by second) equals the wanted number.
    """
    one, *others = values
    if len(others) != 1:
        return sum(values) == wanted
    other = others[0]
    return wanted in {one + other, one - other, one * other} or (other != 0 and wanted == one / other)


def _holds(reading: ParsedNumbers, wanted: Numeral) -> bool:
    return any(same_number(numeral, wanted) for numeral in reading.numerals)


def _unscaled(numeral: Numeral) -> Numeral:
    """Return the number without the factor of its scale word, such as million: 3 for "3 million"."""
    return replace(numeral, value=numeral.value / numeral.scale, scale=1)


def _stated(predicted: str, reason: str) -> Grade:
    """Return the grade of an answer that contains the right number.

    The grade is usually 1.0 (right), with the explanation ``reason``, such as "same number". The answer is unscored,
    and a judge must decide, in three cases. First, the words of the answer deny the number ("not 5"). Second, the words
    make the number a bound ("more than 5"). Third, the words leave the number open ("5, or any other number").
    """
    if is_qualified(predicted):
        return Grade(None, "judge", "a bound or a denial, not the number itself")
    if _LEFT_OPEN.search(predicted) or is_refusal(predicted):
        return Grade(None, "judge", "the words leave the number open")
    return Grade(1.0, "numeric", reason)


def _is_other_direction(predicted: str, gold: str) -> bool:
    """Return whether the answer may mean another direction (plus or minus) than the gold (correct) answer.

    The result is True if two conditions are true. First, the gold has a sign ("-4 %"). Second, the answer has a word
    for a direction ("down 4 %", "rose"), or it begins with a number in brackets ("(4)", which may mean -4). A judge
    model must then decide whether sign and direction agree.
    """
    return _SIGNED.match(gold) is not None and _DIRECTION.search(predicted) is not None


def _names_others(predicted: str, gold: str) -> bool:
    """Return whether the gold and the answer both name counted things, but not the same things."""
    wanted, given = _nouns(gold), _nouns(predicted)
    return bool(wanted and given) and not any(
        one.startswith(other[:4]) or other.startswith(one[:4]) for one in wanted for other in given
    )


def _nouns(text: str) -> set[str]:
    numbers = re.sub(r"\\[A-Za-z]+", " ", with_digits(text))
    return {
        word for word in re.findall(r"[^\W\d_]{3,}", numbers.casefold()) if word not in _NO_NOUNS and word not in SCALES
    }


def grade_quantity(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a number with a unit, such as "5 cm".

    The numbers are compared in the gold's unit, by Eq. 7-8 of the paper Argos. ``predicted`` is the answer to grade.
    The grade's value is 1.0 (right), 0.0 (wrong) or None (only a judge model can decide). Returns None instead of a
    grade if the gold has no number with a unit; the caller then tries the next rule.
    """
    compared = compare_quantity(bare_answer(predicted), gold)
    if compared is None:
        return None
    if compared.same is not None and _is_other_direction(predicted, gold):
        return Grade(None, "judge", "the quantity, perhaps in another direction")
    if compared.same is None:
        return Grade(None, "judge", compared.reason)
    return _stated(predicted, compared.reason) if compared.same else Grade(0.0, "numeric", compared.reason)


def grade_span(predicted: str, gold: str) -> Grade | None:
    """Grade an answer if the gold (correct) answer is a range ("10-15") or a bound ("at least 5").

    ``predicted`` is the answer to grade. The grade's value is 1.0 (right), 0.0 (wrong) or None (only a judge model can
    decide, for example on a number within the range). Returns None instead of a grade for any other gold; the caller
    then tries the next rule.
    """
    wanted = _gold_span(gold)
    if wanted is None:
        return None
    text = bare_answer(predicted)
    given, number = read_span(text), quantity_or_number(with_digits(text))
    same: bool | None = text.strip().casefold() == gold.strip().casefold() or None
    if given is not None:
        same = same or same_span(given, wanted)
    elif number is not None and same is None:
        # "555-1234" may be a range or not.
        is_spelt_alike = re.sub(r"\D", "", text) == re.sub(r"\D", "", gold)
        is_open = is_spelt_alike or number.numeral.is_fraction or may_be_within(number, wanted)
        same = None if is_open else False
    elif not any(map(str.isalnum, text)):
        same = False
    if same is None:
        return Grade(None, "judge", "may be meant by the range, or not")
    return Grade(float(same), "numeric", "same range" if same else "not the same range")
