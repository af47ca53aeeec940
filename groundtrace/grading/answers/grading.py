"""Grades a final answer against the gold (correct) answer by rules (Eq. 6-8 of the paper Argos, section 3.1).

A grade is 1.0, 0.0 or *unscored* (None). Unscored means that the gold cannot be used, or that only a judge model can
decide. If rules can grade answers against the gold, a missing or unreadable prediction is wrong, and not unscored. The
functions of this module never raise on any text, and never call a model. Argos' case (iii), semantic equivalence, is an
unscored grade with the method "judge".

Each answer type (such as ``mcq`` or ``numeric``) defines right answers in its own file
(:mod:`groundtrace.grading.answers.registry`). The types for numbers and text share
:mod:`groundtrace.grading.answers.rules` and :mod:`groundtrace.grading.answers.number_rules`. If an answer may still be
right, and a judge model can decide this, the rules leave the answer unscored instead of giving 0.

Before grading, the characters of the prediction, the gold and the choices are simplified. Invisible (zero-width)
characters are removed, fullwidth characters become plain characters ("５" is 5, "Ｂ" is B), and CJK numerals
become digits (三个 is 3个). Similar letters of other scripts (a Cyrillic А) are not converted, and do not name an
option. Markup that encloses the whole prediction is removed too (:mod:`groundtrace.grading.answers.wrapping`): ``$…$``,
``\\text{…}`` and a final full stop do not change a grade.
"""

from __future__ import annotations

import functools
import re

from groundtrace.grading.answers.answer_type import Grade
from groundtrace.grading.answers.number_rules import GOLDS_KEPT
from groundtrace.grading.answers.numerals import MAX_CHARS
from groundtrace.grading.answers.registry import ANSWER_TYPES, answer_type_named
from groundtrace.grading.answers.wrapping import legible, without_wrapping
from groundtrace.schemas.control_text import DAMAGE

MAX_ANSWER_CHARS = 20_000
"""An answer with more characters than this is graded as wrong without being read.

There is one exception: the gold (correct) answer is at least half as long as the answer.
"""
_BROKEN_LATEX = re.compile(r"\t(?:ext|imes|heta|frac|riangle|ilde|an\b)|\r(?:ho|ightarrow)|\n(?:eq\b|abla)")


def grade_answer(predicted: str | None, gold: str, answer_type: str, choices: tuple[str, ...] | None) -> Grade:
    """Grade a final answer against the gold (correct) answer. Never raises.

    The value of the grade is 1.0 (right), 0.0 (wrong) or None (unscored). The grade also names the rule that decided,
    or the reason why no rule decided.

    Args:
        predicted: the final answer (:attr:`groundtrace.grading.responses.response.Response.answer`); None if the
            response has no answer.
        gold: the gold answer. For ``mcq`` it is the text of one choice, or the letter of a choice.
        answer_type: a name of :data:`groundtrace.grading.answers.registry.ANSWER_TYPES`, such as "numeric". With any
            other name, the answer is unscored.
        choices: the options of a multiple-choice question, or None if only the question's text has them. Without
            choices, an answer is right for a gold of one letter if it names this letter. Any other gold is graded as
            text.
    """
    kind = answer_type_named(answer_type)
    if kind.is_boxes or answer_type not in ANSWER_TYPES:
        return kind.grade(predicted, gold, choices)
    if predicted is not None and len(predicted) > max(MAX_ANSWER_CHARS, 2 * len(gold)):
        return Grade(
            0.0,
            kind.name,
            f"an answer of {len(predicted):,} characters, and at most {MAX_ANSWER_CHARS:,} are read",
        )
    gold = legible(gold)
    fault = _gold_fault(gold)
    if fault is not None:
        return Grade(None, "gold", fault)
    predicted = None if predicted is None else legible(predicted)
    choices = None if choices is None else tuple(map(legible, choices))
    if predicted is not None and len(predicted) <= MAX_CHARS and not _is_written_option(predicted, choices):
        predicted = without_wrapping(predicted)
    return kind.grade(predicted if predicted and predicted.strip() else None, gold, choices)


def _is_written_option(predicted: str, choices: tuple[str, ...] | None) -> bool:
    """Return whether an answer is exactly the text of an option, such as "$x^2$".

    In such an answer, markup like ``$…$`` is part of the option, so it must not be removed.
    """
    return predicted.strip() in (choice.strip() for choice in choices or ())


def _fault(gold: str) -> str | None:
    """Return the reason why a gold answer cannot be used; None if it can be used.

    A gold answer cannot be used if it is empty or has a control character, which shows that the text is damaged. For
    example, a "\\frac" whose backslash was not escaped becomes a form feed and "rac". Tabs and line ends are allowed,
    but not inside a LaTeX command.
    """
    if not gold.strip():
        return "gold is empty"
    if damage := DAMAGE.search(gold):
        return f"gold holds the control character U+{ord(damage.group()):04X}, probably a broken LaTeX command"
    if _BROKEN_LATEX.search(gold):
        return "gold holds a white-space control character inside a LaTeX command"
    return None


_gold_fault = functools.lru_cache(GOLDS_KEPT)(_fault)
