"""Grading a final answer against the gold answer by rules (Argos section 3.1, outcome rewards, Eq. 6-8).

A grade is 1.0, 0.0 or *unscored*. Unscored means that the gold cannot be used, or that only a judge can tell;
a missing or unreadable prediction against a gold that rules can grade is wrong, never unscored. Nothing here
raises on any text, and nothing calls a model: Argos' case (iii), semantic equivalence, is the method "judge".

Rules, by answer type and then by what the gold reads as; where one can't tell, the judge is asked:

- ``mcq`` (Eq. 6): one option, by letter or text (:mod:`schemas.answers.choices`). Naming several options is wrong, even
  with the right one among them; naming none ("the correct one") is wrong; one option within a sentence is for the
  judge.
- ``bool`` (Eq. 6): the leading or the final yes or no; both sides ("yes no") are wrong.
- numbers (Eq. 7-8): 5 % where both sides are decimal, exact otherwise. Several different numbers ("3-5", "5 or 6") are
  wrong. "About 5" is 5; a bound or a denial of the right number ("more than 5", "not 5", "5+") is for the judge.
- numbers with a unit: compared in the gold's unit (:mod:`schemas.answers.units`), which is then no matter of spelling;
  another dimension or currency is wrong. A bare number counts as given in the gold's unit. Where the gold has no unit,
  the prediction's unit isn't looked at: gold "5" is met by "5 %" and "5 cm". A percentage is met by its value ("80 %"
  and "0.8" are the same, in both directions), whether or not the other side has the sign.
- dates and times of day: by their fields; ambiguous ones (03/04/2021) are for the judge (:mod:`schemas.answers.dates`).
- mathematics: by math-verify (:mod:`schemas.answers.maths`).
- tuples "(5, 6)": in order, exactly. Numbers without brackets in another order are for the judge.
- lists: any order but every item as often as in the gold; arrows make the order count (:mod:`schemas.answers.lists`).
- other text (Eq. 6): equal words are right, a difference is certain between short plain phrases only.

Before all this both sides lose invisible characters (zero-width ones) and fullwidth forms become plain ("５" is 5,
"Ｂ" is B); look-alikes from other scripts (a Cyrillic А) are other letters and name nothing.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass, replace

from schemas.answers.choices import gold_options, implied_letters, named_options, normalise_text
from schemas.answers.dates import read_date, same_date
from schemas.answers.lists import read_list, read_tuple, same_list
from schemas.answers.maths import MathsMatch, compare_maths, is_maths
from schemas.answers.numerals import MAX_CHARS, Numeral, is_qualified, read_numerals, same_number
from schemas.answers.polarity import POLARITY, polarity
from schemas.answers.quantities import compare_quantity, whole_quantity

ANSWER_TYPES = ("mcq", "numeric", "text", "bool", "boxes")
"""The answer types of a question; any other is graded as text."""

_LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore)[, ]+)?(?:(?:the|my)\s+)?(?:final\s+|correct\s+)?"
    r"(?:(?:answer|statement|claim|sentence|caption|date|time)(?:\s+is|\s*:)|(?:it|this|that)\s+is)\s*:?\s*",
    re.IGNORECASE,
)
_BROKEN_LATEX = re.compile(r"\t(?:ext|imes|heta|frac|riangle|ilde|an\b)|\r(?:ho|ightarrow)|\n(?:eq\b|abla)")
_PLAIN_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?\.?")
_FULLWIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_SHORT_WORDS = 3


@dataclass(frozen=True)
class Grade:
    """The outcome of one answer.

    Attributes:
        value: 1.0 right, 0.0 wrong, None unscored.
        method: the rule that decided: ``mcq``, ``bool``, ``numeric`` (with units too), ``date`` (times of day
            too), ``list``, ``maths``, ``text``; or why none did:
            ``judge`` (semantic equivalence has to be judged), ``boxes`` (scored by overlap), ``gold``
            (unusable gold).
        reason: one line for people.
    """

    value: float | None
    method: str
    reason: str


def grade_answer(predicted: str | None, gold: str, answer_type: str, choices: tuple[str, ...] | None) -> Grade:
    """Grade a final answer; never raises.

    Args:
        predicted: the final answer (:attr:`schemas.responses.response.Response.answer`), None where there is none.
        gold: the gold answer; for ``mcq`` the text of one choice, or its letter where no choice reads so.
        answer_type: one of :data:`ANSWER_TYPES`.
        choices: the options of a multiple-choice question. Without them a gold letter is met by that letter,
            as where the options stand in the question only, and any other gold is graded as text.
    """
    if answer_type == "boxes":
        return Grade(None, "boxes", "box answers are scored by overlap")
    gold = _legible(gold)
    fault = _gold_fault(gold)
    if fault is not None:
        return Grade(None, "gold", fault)
    predicted = None if predicted is None else _legible(predicted)
    if answer_type == "mcq":
        choices = choices or implied_letters(gold)
    if answer_type == "mcq" and choices:
        return _grade_choice(predicted, gold, tuple(map(_legible, choices)))
    if answer_type == "bool" and normalise_text(gold) not in POLARITY:
        return Grade(None, "gold", f"gold {gold[:40]!r} is neither yes nor no")
    if predicted is None or not predicted.strip():
        return Grade(0.0, _method(gold, answer_type), "no answer")
    if answer_type == "bool":
        return _grade_bool(predicted, gold)
    for rule in _NUMBER_RULES if answer_type == "numeric" else _TEXT_RULES:
        grade = rule(predicted, gold)
        if grade is not None:
            return grade
    return _compare_words(predicted, gold)


def _legible(text: str) -> str:
    """The text without invisible characters and with plain characters for fullwidth ones."""
    if text.isascii():
        return text
    return "".join([char for char in text.translate(_FULLWIDTH) if unicodedata.category(char) != "Cf"])


def _fault(gold: str) -> str | None:
    """Why a gold answer cannot be used, or None. A form feed is what an unescaped "\\frac" leaves."""
    if not gold.strip():
        return "gold is empty"
    for char in gold:
        if unicodedata.category(char) == "Cc" and char not in "\t\n\r":
            return f"gold holds the control character U+{ord(char):04X}, probably a broken LaTeX command"
    if _BROKEN_LATEX.search(gold):
        return "gold holds a white-space control character inside a LaTeX command"
    return None


# A group of responses is graded against one gold: what is read in it is kept for the next of them.
_GOLDS_KEPT = 256
_gold_fault = functools.lru_cache(_GOLDS_KEPT)(_fault)
_gold_date = functools.lru_cache(_GOLDS_KEPT)(read_date)
_gold_numerals = functools.lru_cache(_GOLDS_KEPT)(read_numerals)
_gold_list = functools.lru_cache(_GOLDS_KEPT)(read_list)
_gold_is_maths = functools.lru_cache(_GOLDS_KEPT)(is_maths)


def _method(gold: str, answer_type: str) -> str:
    """The rule that a gold answer calls for, to name where there is nothing to grade."""
    if answer_type in {"bool", "mcq"}:
        return answer_type
    if read_date(gold) is not None:
        return "date"
    if (answer_type == "numeric" and read_numerals(gold).single is not None) or whole_quantity(gold) is not None:
        return "numeric"
    if read_list(gold) is not None:
        return "list"
    return "maths" if is_maths(gold) else "text"


def _grade_choice(predicted: str | None, gold: str, choices: tuple[str, ...]) -> Grade:
    """Multiple choice; options with the same text as the gold are the gold."""
    right = gold_options(gold, choices)
    if not right:
        return Grade(None, "gold", f"gold {gold[:40]!r} is not one of the choices")
    if predicted is None or not predicted.strip():
        return Grade(0.0, "mcq", "no answer")
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, "mcq", f"an answer of more than {MAX_CHARS} characters names no option")
    named = named_options(predicted, choices)
    if not named.indices:
        return Grade(0.0, "mcq", "names no option")
    if named.is_mention:
        return Grade(None, "judge", "mentions one option within a sentence")
    if named.indices <= right:
        return Grade(1.0, "mcq", "names the gold option")
    return Grade(0.0, "mcq", "names several options" if len(named.indices) > 1 else "names another option")


def _grade_bool(predicted: str, gold: str) -> Grade:
    """Yes and no, true and false: the leading or the final word decides; both sides at once are wrong."""
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, "bool", f"an answer of more than {MAX_CHARS} characters is neither yes nor no")
    stated = polarity(_unled(predicted.replace("**", "")))
    if stated is None:
        return Grade(0.0, "bool", "states neither or both of yes and no")
    right = stated == POLARITY[normalise_text(gold)]
    return Grade(float(right), "bool", "same side" if right else "other side")


def _grade_numeric(predicted: str, gold: str) -> Grade | None:
    """Numbers by Argos Eq. 7-8; None where the gold is not a single number."""
    wanted = _gold_numerals(gold).single
    if wanted is None:
        return None
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, "numeric", f"an answer of more than {MAX_CHARS} characters is not a number")
    reading = read_numerals(predicted)
    if reading.is_expression:
        match = compare_maths(gold, predicted)
        return Grade(float(match is MathsMatch.EQUAL), "maths", match.value)
    if reading.single is None:
        reason = "several different numbers" if reading.numerals else "no number"
        return Grade(0.0, "numeric", reason)
    if same_number(reading.single, wanted):
        return _stated(predicted, "same number")
    if same_number(_unscaled(reading.single), _unscaled(wanted)):
        return Grade(None, "judge", "the same number but for a word like million")
    return Grade(0.0, "numeric", "another number")


def _unscaled(numeral: Numeral) -> Numeral:
    """The number as its digits alone would read."""
    return replace(numeral, value=numeral.value / numeral.scale, scale=1)


def _stated(predicted: str, reason: str) -> Grade:
    """Right, unless the words deny the number or make it a bound."""
    if is_qualified(predicted):
        return Grade(None, "judge", "a bound or a denial, not the number itself")
    return Grade(1.0, "numeric", reason)


def _grade_date(predicted: str, gold: str) -> Grade | None:
    """Dates and times of day; None where the gold is neither."""
    wanted = _gold_date(gold)
    if wanted is None:
        return None
    given = read_date(_unled(predicted)) if len(predicted) <= MAX_CHARS else None
    if given is None:
        return _compare_words(predicted, gold)
    same = same_date(given, wanted)
    if same is None:
        return Grade(None, "judge", "the dates or times may be the same")
    return Grade(float(same), "date", "same date or time" if same else "another date or time")


def _grade_quantity(predicted: str, gold: str) -> Grade | None:
    """A number with a unit by Eq. 7-8, in the gold's unit; None where the gold isn't one."""
    compared = compare_quantity(_unled(predicted), gold)
    if compared is None or compared.same is None:
        return None if compared is None else Grade(None, "judge", compared.reason)
    return _stated(predicted, compared.reason) if compared.same else Grade(0.0, "numeric", compared.reason)


def _grade_maths(predicted: str, gold: str) -> Grade | None:
    """Formulas by math-verify; None where the gold isn't one."""
    if not _gold_is_maths(gold):
        return None
    match = compare_maths(gold, predicted)
    if match is not MathsMatch.GOLD_UNREADABLE:
        return Grade(float(match is MathsMatch.EQUAL), "maths", match.value)
    if predicted.strip() == gold.strip():
        return Grade(1.0, "text", "same text")
    return Grade(None, "judge", match.value)


def _grade_plain(predicted: str, gold: str) -> Grade | None:
    """Yes or no and plain numbers, where the gold of a text question is one."""
    if normalise_text(gold) in POLARITY:
        return _grade_bool(predicted, gold)
    is_number = len(gold) <= MAX_CHARS and _PLAIN_NUMBER.fullmatch(gold.strip())
    return _grade_numeric(predicted, gold) if is_number else None


def _grade_tuple(predicted: str, gold: str) -> Grade | None:
    """Tuples of numbers, in order; without brackets they may be a list, so another order may do."""
    wanted, given, is_bare = read_tuple(gold), read_tuple(_unled(predicted)), gold.strip()[0] not in "(["
    if wanted is None or (given is None and is_bare):
        return None
    if is_bare and given is not None and given != wanted and sorted(given) == sorted(wanted):
        return Grade(None, "judge", "the same numbers in another order")
    return Grade(float(given == wanted), "numeric", "same tuple" if given == wanted else "not the same tuple")


def _grade_list(predicted: str, gold: str) -> Grade | None:
    """Lists; None where the gold isn't one or two lists may still mean the same."""
    listed = _gold_list(gold)
    same = None if listed is None else same_list(_unled(predicted), listed)
    return None if same is None else Grade(float(same), "list", "same items" if same else "not the same items")


def _grade_sequence(predicted: str, gold: str) -> Grade | None:
    """Lists with arrows, which maths would take for formulas."""
    listed = _gold_list(gold)
    return _grade_list(predicted, gold) if listed is not None and listed.is_sequence else None


def _unled(text: str) -> str:
    """The text without a leading phrase such as "The answer is"."""
    lead = _LEAD.match(text.strip())
    return text.strip()[lead.end() if lead is not None else 0 :]


def _compare_words(predicted: str, gold: str) -> Grade:
    """Whole comparison of words; a mismatch is certain only between short plain phrases."""
    answer = _unled(predicted)
    wanted = normalise_text(gold)
    if wanted and wanted in {normalise_text(answer), normalise_text(predicted)}:
        return Grade(1.0, "text", "same text")
    if _is_short(wanted) and (_is_short(normalise_text(answer)) or not any(map(str.isalpha, answer))):
        return Grade(0.0, "text", "another short text")
    return Grade(None, "judge", "texts differ and may still mean the same")


def _is_short(words: str) -> bool:
    """At most three words of letters with case; scripts without case or blanks are left to a judge."""
    parts = words.split()
    return 0 < len(parts) <= _SHORT_WORDS and all(unicodedata.category(c)[:2] in {"Ll", "Lu"} for c in "".join(parts))


_TEXT_RULES = (_grade_date, _grade_quantity, _grade_sequence, _grade_maths, _grade_plain, _grade_tuple, _grade_list)
_NUMBER_RULES = (_grade_date, _grade_quantity, _grade_numeric, *_TEXT_RULES[2:])
