"""Grading a final answer against the gold answer by rules (Argos section 3.1, outcome rewards, Eq. 6-8).

A grade is 1.0, 0.0 or *unscored*. Unscored means that the gold cannot be used, or that only a judge can tell;
a missing or unreadable prediction against a gold that rules can grade is wrong, never unscored. Nothing here
raises on any text, and nothing calls a model: Argos' case (iii), semantic equivalence, is the method "judge".
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from schemas.choices import named_options, normalise_text
from schemas.latex import MathsMatch, compare_maths, is_maths
from schemas.numerals import MAX_CHARS, read_numerals, same_number

ANSWER_TYPES = ("mcq", "numeric", "text", "bool", "boxes")
"""The answer types of a question; any other is graded as text."""

_POLARITY = {"yes": True, "true": True, "no": False, "false": False}
_LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore)[, ]+)?(?:(?:the|my)\s+)?(?:final\s+|correct\s+)?"
    r"(?:(?:answer|statement|claim|sentence|caption)(?:\s+is|\s*:)|(?:it|this|that)\s+is)\s*:?\s*",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:not|isn't|isn’t)\s+(true|false)\b")
_ALONE = re.compile(r"[.,;:/!?\n()]|\b(?:or|and|but)\b|\banswer is\b")
_BROKEN_LATEX = re.compile(r"\t(?:ext|imes|heta|frac|riangle|ilde|an\b)|\r(?:ho|ightarrow)|\n(?:eq\b|abla)")
_TUPLE = re.compile(r"[(\[]?\s*([-+]?\d{1,15}(?:\.\d{1,15})?(?:\s*,\s*[-+]?\d{1,15}(?:\.\d{1,15})?)+)\s*[)\]]?\.?")
_QUANTITY = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?\s*(?:°|%|degrees)?\.?")
_SHORT_WORDS = 3


@dataclass(frozen=True)
class Grade:
    """The outcome of one answer.

    Attributes:
        value: 1.0 right, 0.0 wrong, None unscored.
        method: the rule that decided: ``mcq``, ``bool``, ``numeric``, ``maths``, ``text``; or why none did:
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
        predicted: the final answer (:attr:`schemas.response.Response.answer`), None where there is none.
        gold: the gold answer; for ``mcq`` the text of one choice, or its letter where no choice reads so.
        answer_type: one of :data:`ANSWER_TYPES`.
        choices: the options of a multiple-choice question. Without them a gold letter is met by that letter,
            as where the options stand in the question only, and any other gold is graded as text.
    """
    if answer_type == "boxes":
        return Grade(None, "boxes", "box answers are scored by overlap")
    fault = _fault(gold)
    if fault is not None:
        return Grade(None, "gold", fault)
    if answer_type == "mcq":
        choices = choices or _implied_letters(gold)
    if answer_type == "mcq" and choices:
        return _grade_choice(predicted, gold, choices)
    if answer_type == "bool" and normalise_text(gold) not in _POLARITY:
        return Grade(None, "gold", f"gold {gold[:40]!r} is neither yes nor no")
    if predicted is None or not predicted.strip():
        return Grade(0.0, _method(gold, answer_type), "no answer")
    if answer_type == "bool":
        return _grade_bool(predicted, gold)
    if answer_type == "numeric":
        numeric = _grade_numeric(predicted, gold)
        if numeric is not None:
            return numeric
    return _grade_text(predicted, gold)


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


def _method(gold: str, answer_type: str) -> str:
    """The rule that a gold answer calls for, to name where there is nothing to grade."""
    if answer_type in {"bool", "mcq"}:
        return answer_type
    if answer_type == "numeric" and read_numerals(gold).single is not None:
        return "numeric"
    return "maths" if is_maths(gold) else "text"


def _grade_choice(predicted: str | None, gold: str, choices: tuple[str, ...]) -> Grade:
    """Multiple choice; options with the same text as the gold are the gold."""
    right = _gold_options(gold, choices)
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


def _implied_letters(gold: str) -> tuple[str, ...] | None:
    """The letters from A to at least H that a lone gold letter implies, or None for another gold."""
    letter = gold.strip().strip("().")
    if len(letter) != 1 or not "A" <= letter <= "Z":
        return None
    return tuple(chr(code) for code in range(ord("A"), max(ord("H"), ord(letter)) + 1))


def _gold_options(gold: str, choices: tuple[str, ...]) -> frozenset[int]:
    """The positions of the gold answer among the choices."""
    for form in (str.strip, normalise_text):
        right = frozenset(i for i, choice in enumerate(choices) if form(choice) == form(gold))
        if right:
            return right
    index = ord(gold.strip()[0]) - ord("A")
    is_letter = len(gold.strip()) == 1 and 0 <= index < len(choices)
    return frozenset({index}) if is_letter else frozenset()


def _grade_bool(predicted: str, gold: str) -> Grade:
    """Yes and no, true and false: the leading or the final word decides; both sides at once are wrong."""
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, "bool", f"an answer of more than {MAX_CHARS} characters is neither yes nor no")
    stated = _polarity(predicted)
    if stated is None:
        return Grade(0.0, "bool", "states neither or both of yes and no")
    right = stated == _POLARITY[normalise_text(gold)]
    return Grade(float(right), "bool", "same side" if right else "other side")


def _polarity(text: str) -> bool | None:
    """The side that a text takes, or None for neither or both.

    A later "no" within a clause ("Yes, there is no dog") is no answer word; one that stands alone is, and so
    are "true" and "false" anywhere.
    """
    text = text.replace("**", "").casefold().strip()
    lead = _LEAD.match(text)
    text = text[lead.end() :] if lead is not None else text
    text = _NEGATED.sub(lambda match: "false" if match.group(1) == "true" else "true", text)
    words = re.findall(r"[^\W\d_]+", text)
    if not words:
        return None
    sides = {_POLARITY[word] for word in words if word in {"true", "false"}}
    parts = [part.strip(" *'\"-–—") for part in _ALONE.split(text)]
    sides |= {_POLARITY[part] for part in parts if part in _POLARITY}
    for word in (words[0], words[-1]):
        if word in _POLARITY:
            return _POLARITY[word] if sides <= {_POLARITY[word]} else None
    return None


def _grade_numeric(predicted: str, gold: str) -> Grade | None:
    """Numbers by Argos Eq. 7-8; None where the gold is not a single number."""
    wanted = read_numerals(gold).single
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
    right = same_number(reading.single, wanted)
    return Grade(float(right), "numeric", "same number" if right else "another number")


def _grade_text(predicted: str, gold: str) -> Grade:
    """Free text: maths, yes or no, quantities and tuples by their rules, then whole comparison (Eq. 6)."""
    if is_maths(gold):
        match = compare_maths(gold, predicted)
        if match is not MathsMatch.GOLD_UNREADABLE:
            return Grade(float(match is MathsMatch.EQUAL), "maths", match.value)
        if predicted.strip() == gold.strip():
            return Grade(1.0, "text", "same text")
        return Grade(None, "judge", match.value)
    if normalise_text(gold) in _POLARITY:
        return _grade_bool(predicted, gold)
    if len(gold) <= MAX_CHARS and _QUANTITY.fullmatch(gold.strip()):
        numeric = _grade_numeric(predicted, gold)
        if numeric is not None:
            return numeric
    wanted = _tuple(gold)
    if wanted is not None:
        right = _tuple(predicted) == wanted
        return Grade(float(right), "numeric", "same tuple" if right else "not the same tuple")
    return _compare_words(predicted, gold)


def _tuple(text: str) -> tuple[float, ...] | None:
    """The numbers of a coordinate tuple such as "(5, 6)", or None for any other text."""
    if len(text) > MAX_CHARS:
        return None
    lead = _LEAD.match(text.strip())
    plain = text.strip()[lead.end() if lead is not None else 0 :].replace("$", "").replace("−", "-")
    match = _TUPLE.fullmatch(plain.strip())
    return None if match is None else tuple(float(part) for part in match.group(1).split(","))


def _compare_words(predicted: str, gold: str) -> Grade:
    """Whole comparison of words; a mismatch is certain only between short plain phrases."""
    lead = _LEAD.match(predicted.strip())
    answer = predicted.strip()[lead.end() :] if lead is not None else predicted
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
