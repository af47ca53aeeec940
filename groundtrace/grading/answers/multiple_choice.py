"""Grades multiple-choice answers (paper Argos, Eq. 6): an answer must name one option, by letter or by text.

:mod:`groundtrace.grading.answers.choices` finds the options that an answer names. An answer that names several options
is wrong, even if the right option is among them. An answer that names no option ("the correct one") is usually wrong.
But if it may mean an option in other words (:mod:`groundtrace.grading.answers.option_hints`), a judge model decides. A
judge model also decides on an answer that only mentions one option within a sentence.
"""

import re

from groundtrace.grading.answers.answer_type import AnswerType, Gold, Grade, InvalidGold
from groundtrace.grading.answers.choices import gold_options, implied_letters, inner_letters, named_options
from groundtrace.grading.answers.free_text import grade_text, is_free
from groundtrace.grading.answers.numerals import MAX_CHARS
from groundtrace.grading.answers.option_hints import has_collective, may_name
from groundtrace.grading.answers.polarity import is_taken_back

NAME = "mcq"
_NEGATION = re.compile(
    r"\b(?:not|never|no|nor|neither|wrong|incorrect\w*|false|except|un\w+|cannot|rule[ds]?\s+out|eliminat\w*|exclud\w*"
    r"|pas|nicht|kein\w*|falsch|faux|fausse|falso|falsa|não)\b|n['’]t\b|[不错誤]",
    re.IGNORECASE,
)
"""Matches negations in the languages whose answers are read (:mod:`groundtrace.grading.answers.wrapping`)."""


def _grade(predicted: str | None, gold: str, choices: tuple[str, ...] | None) -> Grade:
    """Grade a multiple-choice answer, with or without choices.

    If there are no choices, but the gold answer is one letter, the texts of the options may be in the question. The
    options are then known only by their letters (:func:`implied_letters`). Any other gold answer without choices is
    graded as text.
    """
    choices = choices or implied_letters(gold)
    if choices:
        return _grade_choice(predicted, gold, choices)
    return Grade(0.0, NAME, "no answer") if predicted is None else grade_text(predicted, gold)


def _grade_choice(predicted: str | None, gold: str, choices: tuple[str, ...]) -> Grade:
    """Grade an answer against the given options; every option with the gold's text is right."""
    right = gold_options(gold, choices)
    if not right:
        return Grade(None, "gold", f"gold {gold[:40]!r} is not one of the choices")
    if predicted is None:
        return Grade(0.0, NAME, "no answer")
    if predicted.strip() in {choices[index].strip() for index in right}:
        return Grade(1.0, NAME, "names the gold option")  # also an option without letters, such as "..."
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, NAME, f"an answer of more than {MAX_CHARS} characters names no option")
    named = named_options(predicted, choices)
    if not named.indices:
        return _grade_unnamed(predicted, choices, right, named.denied)
    if is_taken_back(predicted):
        return Grade(None, "judge", "names an option and corrects itself")
    if named.is_mention and not _is_also_by_letter(predicted, choices, named.indices):
        return Grade(None, "judge", "mentions one option within a sentence")
    if named.indices <= right:
        return Grade(1.0, NAME, "names the gold option")
    if len(named.indices) > 1 and has_collective(choices):
        return Grade(None, "judge", "names several options, and one option includes several")
    return Grade(0.0, NAME, "names several options" if len(named.indices) > 1 else "names another option")


def _grade_unnamed(predicted: str, choices: tuple[str, ...], right: frozenset[int], denied: frozenset[int]) -> Grade:
    """Grade an answer that names no option by letter or text, but that may still mean an option in other words.

    ``right`` and ``denied`` hold the positions of the right options, and of the options that the answer calls wrong ("B
    is wrong"). The answer is wrong in three cases: it calls all right options wrong; its sentences contain the letters
    of several options, and it does not correct itself; or nothing in it can mean an option. In all other cases, the
    grade has the value None, and a judge model must decide.
    """
    letters = inner_letters(predicted, choices)
    if not denied and len(letters) == 1 and _NEGATION.search(predicted):
        denied = letters
    if denied:
        is_gold = right <= denied
        return Grade(0.0 if is_gold else None, NAME if is_gold else "judge", "states only which option is wrong")
    if len(letters) > 1 and not is_taken_back(predicted):
        return Grade(0.0, NAME, "names several options")
    if letters:
        return Grade(None, "judge", "names an option by letter within a sentence")
    if may_name(predicted, choices):
        return Grade(None, "judge", "may mean an option in other words")
    return Grade(0.0, NAME, "names no option")


def _is_also_by_letter(predicted: str, choices: tuple[str, ...], mentioned: frozenset[int]) -> bool:
    """Return whether an answer that contains the words of an option also has this option's letter, and no negation.

    ``mentioned`` holds the position (from 0) of this option. For example, the result is True for "Paris, France is B"
    if the second option is "Paris".
    """
    return _NEGATION.search(predicted) is None and inner_letters(predicted, choices) == mentioned


def _check(gold: Gold) -> str:
    if gold.chosen is None:
        raise InvalidGold(f"choices: the record has answer_type {NAME} but no choices: add them, or change answer_type")
    return gold.chosen


MULTIPLE_CHOICE = AnswerType(
    name=NAME,
    form="Answer with the letter or the text of the right choice.",
    grade=_grade,
    check_gold=_check,
    is_evident=lambda _answer, choices: choices is not None,
    keeps_choices=True,
    needs_judge=lambda gold, choices: not (choices or implied_letters(gold)) and is_free(gold),
)
