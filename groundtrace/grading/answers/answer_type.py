"""Defines the interface of an answer type, such as yes-no or multiple choice.

A type has a sentence for prompts that requests its form of answer, a check of gold (correct) answers, and a function
that grades answers. Each type has its own file in this package. :mod:`groundtrace.grading.answers.registry` lists all
types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundtrace.schemas.geometry import Box  # a Beam row: grading alone does not import Beam


@dataclass(frozen=True)
class Grade:
    """Holds the grade of one answer, and the rule that decided it.

    Attributes:
        value: 1.0 if the answer is right, 0.0 if it is wrong, None if it is unscored (neither right nor wrong, for the
            reason in ``method``).
        method: the name of the rule that decided: ``mcq``, ``bool``, ``numeric`` (also with units), ``date`` (also
            times of day), ``list``, ``maths`` or ``text``. If no rule decided, it is the reason: ``judge`` (only a
            judge model can decide whether the meaning is the same), ``boxes`` (boxes are scored by overlap), ``gold``
            (the gold is unusable) or ``unknown`` (the answer type is unknown).
        reason: one line that explains the grade to a reader.
    """

    value: float | None
    method: str
    reason: str

    def __post_init__(self) -> None:
        if self.value not in (None, 0, 1):
            raise ValueError(f"an answer's grade must be 1 (right), 0 (wrong) or None (unscored), got {self.value!r}")


@dataclass(frozen=True)
class Gold:
    """Holds the gold (correct) answer of an input record, before its answer type checks it.

    Attributes:
        answer: the answer as the record gives it.
        chosen: the text of the choice that the answer matches; None if the record has no choices.
        boxes: the record's gold boxes; None if the record has no boxes.
    """

    answer: str
    chosen: str | None = None
    boxes: tuple[Box, ...] | None = None


class InvalidGold(ValueError):
    """Raised if a gold answer does not fit its answer type. The message names the field and its fault."""


Grader = Callable[[str | None, str, tuple[str, ...] | None], Grade]
"""A function that grades (predicted, gold, choices) and returns the grade. It never raises.

``predicted`` is None if the response has no answer. ``choices`` is None if the question has no choices. The caller
removes invisible characters from the texts and passes a usable gold (:mod:`groundtrace.grading.answers.grading`).
"""


def as_written(gold: Gold) -> str:
    """Return the text of the gold (correct) answer unchanged.

    This function is the default of ``check_gold``, the function of an answer type that checks a gold and returns its
    normal form. With the default, every gold is valid, so InvalidGold is never raised.
    """
    return gold.answer


def never(_answer: str, _choices: tuple[str, ...] | None) -> bool:
    """Return False for every answer.

    An answer type has two functions whose default is this function:

    - ``is_evident`` returns whether a record that names no answer type has this type. With the default, a record has
      the type only if it names the type.
    - ``needs_judge`` returns whether only a judge model can grade paraphrases of an answer. With the default, rules
      grade all answers.

    The arguments, an answer and the choices of its question, are not used.
    """
    return False


@dataclass(frozen=True)
class AnswerType:
    """Describes one type of answer.

    Attributes:
        name: the name in the field ``answer_type`` of input records and of training rows.
        form: the sentence of a prompt that requests an answer in the right form, such as "Answer yes or no."
        grade: the function that grades a predicted answer by rules.
        check_gold: the function that returns a record's gold answer in the type's normal form. It raises InvalidGold if
            the gold answer does not fit the type.
        is_evident: the function that decides for a record without ``answer_type`` whether the record has this type. Its
            arguments are the record's answer and choices. The record gets the first type of the registry whose function
            returns True.
        keeps_choices: whether a question of this type is shown with its choices.
        is_number: whether the answer is a number. If so, and if the gold answer is one number, each count that a
            reasoning concludes ("so there are 5") is also compared with the gold answer.
        needs_judge: the function that returns whether only a judge can grade paraphrases of a gold answer. Its
            arguments are the gold answer and its choices.
        is_boxes: whether the answer is the question's gold boxes. If so, the text of the answer is neither checked nor
            graded. Also, two questions that differ only in their boxes are then not duplicates of each other.
    """

    name: str
    form: str
    grade: Grader
    check_gold: Callable[[Gold], str] = as_written
    is_evident: Callable[[str, tuple[str, ...] | None], bool] = never
    keeps_choices: bool = False
    is_number: bool = False
    needs_judge: Callable[[str, tuple[str, ...] | None], bool] = never
    is_boxes: bool = False
