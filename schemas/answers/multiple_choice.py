"""Multiple choice (Argos Eq. 6): an answer names one option, by letter or by text (:mod:`schemas.answers.choices`).

Naming several options is wrong, even with the right one among them; naming none ("the correct one") is wrong; one
option within a sentence is for the judge.
"""

from schemas.answers.answer_type import AnswerType, Gold, Grade, InvalidGold
from schemas.answers.choices import gold_options, implied_letters, named_options
from schemas.answers.free_text import grade_text, is_free
from schemas.answers.numerals import MAX_CHARS

NAME = "mcq"


def _grade(predicted: str | None, gold: str, choices: tuple[str, ...] | None) -> Grade:
    """Without choices a gold letter implies options, as where they stand in the question; another gold is text."""
    choices = choices or implied_letters(gold)
    if choices:
        return _grade_choice(predicted, gold, choices)
    return Grade(0.0, NAME, "no answer") if predicted is None else grade_text(predicted, gold)


def _grade_choice(predicted: str | None, gold: str, choices: tuple[str, ...]) -> Grade:
    """Options with the same text as the gold are the gold."""
    right = gold_options(gold, choices)
    if not right:
        return Grade(None, "gold", f"gold {gold[:40]!r} is not one of the choices")
    if predicted is None:
        return Grade(0.0, NAME, "no answer")
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, NAME, f"an answer of more than {MAX_CHARS} characters names no option")
    named = named_options(predicted, choices)
    if not named.indices:
        return Grade(0.0, NAME, "names no option")
    if named.is_mention:
        return Grade(None, "judge", "mentions one option within a sentence")
    if named.indices <= right:
        return Grade(1.0, NAME, "names the gold option")
    return Grade(0.0, NAME, "names several options" if len(named.indices) > 1 else "names another option")


def _check(gold: Gold) -> str:
    if gold.chosen is None:
        raise InvalidGold(f"choices: a {NAME} record needs them")
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
