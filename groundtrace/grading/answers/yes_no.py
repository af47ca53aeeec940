"""Grades answers to yes-no questions (Eq. 6 of the paper Argos).

An answer means yes or no if its first word, last word, first clause or last clause has this meaning
(:func:`groundtrace.grading.answers.polarity.polarity`). An answer that is both yes and no is wrong. "True" is yes, and
"false" is no.
"""

from groundtrace.grading.answers.answer_type import AnswerType, Gold, Grade, InvalidGold
from groundtrace.grading.answers.choices import normalise_text
from groundtrace.grading.answers.numerals import MAX_CHARS
from groundtrace.grading.answers.polarity import POLARITY, may_take_side, polarity
from groundtrace.grading.answers.wrapping import without_answer_phrase, without_markup
from groundtrace.schemas.text import excerpt, folded

NAME = "bool"


def yes_or_no(text: str) -> str | None:
    """Return ``yes`` or ``no`` if a text is only a word with this meaning, such as "True."; None for any other text."""
    side = POLARITY.get(folded(text).rstrip("."))
    return None if side is None else ("yes" if side else "no")


def is_polar(gold: str) -> bool:
    """Return whether a gold (correct) answer is one word for yes or no: "yes", "true", "no" or "false"."""
    return normalise_text(gold) in POLARITY


def grade_polar(predicted: str, gold: str) -> Grade:
    """Grade an answer if the gold (correct) answer means yes or no.

    ``predicted`` is the answer to grade. :func:`is_polar` must be True for ``gold``. The grade's value is 1.0 (right),
    0.0 (wrong) or None (only a judge model can decide). An answer that means neither yes nor no, or both, is wrong.
    There is one exception: a judge decides if the answer may state the gold in other words, as "It does" may.
    """
    if len(predicted) > MAX_CHARS:
        return Grade(0.0, NAME, f"an answer of more than {MAX_CHARS} characters is neither yes nor no")
    stated = polarity(without_answer_phrase(without_markup(predicted).replace("**", "")))
    wanted = POLARITY[normalise_text(gold)]
    if stated is None and may_take_side(predicted, wanted):
        return Grade(None, "judge", "states a side in other words than yes and no")
    if stated is None:
        return Grade(0.0, NAME, "states neither or both of yes and no")
    right = stated == wanted
    return Grade(float(right), NAME, "same side" if right else "other side")


def _grade(predicted: str | None, gold: str, _choices: tuple[str, ...] | None) -> Grade:
    if not is_polar(gold):
        return Grade(None, "gold", f"gold {gold[:40]!r} is neither yes nor no")
    return Grade(0.0, NAME, "no answer") if predicted is None else grade_polar(predicted, gold)


def _check(gold: Gold) -> str:
    word = yes_or_no(gold.answer)
    if word is None:
        raise InvalidGold(f"answer: {excerpt(gold.answer)} is neither yes nor no: correct it, or change answer_type")
    return word


YES_NO = AnswerType(
    name=NAME,
    form="Answer yes or no.",
    grade=_grade,
    check_gold=_check,
    is_evident=lambda answer, _choices: folded(answer) in POLARITY,
)
