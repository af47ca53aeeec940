"""Defines the answer type of a question whose answer is boxes around objects.

Such answers are scored by their overlap with the gold boxes, never by their text.
"""

from groundtrace.grading.answers.answer_type import AnswerType, Gold, Grade, InvalidGold

NAME = "boxes"


def _check(gold: Gold) -> str:
    if not gold.boxes:
        raise InvalidGold(f"boxes: the record has answer_type {NAME} but no boxes: add them, or change answer_type")
    return gold.answer


def _grade(_predicted: str | None, _gold: str, _choices: tuple[str, ...] | None) -> Grade:
    return Grade(None, NAME, "box answers are scored by overlap")


GOLD_BOXES = AnswerType(
    name=NAME,
    form="Answer with one <box>[x1,y1,x2,y2]</box> for each object, in pixels.",
    grade=_grade,
    check_gold=_check,
    is_boxes=True,
)
