"""The interface of an answer type: how its answer is asked for, checked in the input, and graded.

Each type has a file of its own beside this one; :mod:`groundtrace.grading.answers.registry` names them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundtrace.schemas.geometry import Box  # a Beam row: grading alone does not import Beam


@dataclass(frozen=True)
class Grade:
    """The grade of one answer, with the rule that gave it.

    Attributes:
        value: 1.0 if the answer is right, 0.0 if it is wrong, None if it is unscored.
        method: the rule that decided: ``mcq``, ``bool``, ``numeric`` (with units too), ``date`` (times of day too),
            ``list``, ``maths``, ``text``; or, if no rule decided, the reason: ``judge`` (semantic equivalence has to be
            judged), ``boxes`` (scored by overlap), ``gold`` (unusable gold).
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
    """The gold answer of an input record, to be checked by its type.

    Attributes:
        answer: the answer as the record gives it.
        chosen: the text of the choice that the answer matches; None if the record has no choices.
        boxes: the record's gold boxes; None if it has none.
    """

    answer: str
    chosen: str | None = None
    boxes: tuple[Box, ...] | None = None


class InvalidGold(ValueError):
    """The gold answer does not fit its answer type. The message names the field and says what is wrong with it."""


Grader = Callable[[str | None, str, tuple[str, ...] | None], Grade]
"""Grades (predicted, gold, choices). Never raises.

The caller makes every text legible and passes a usable gold (:mod:`groundtrace.grading.answers.grading`); ``predicted``
is None if there is no answer.
"""


def as_written(gold: Gold) -> str:
    """Return the gold answer as the record gives it."""
    return gold.answer


def never(_answer: str, _choices: tuple[str, ...] | None) -> bool:
    """Return False, so that a record has this type only if the record names it."""
    return False


@dataclass(frozen=True)
class AnswerType:
    """One type of answer.

    Attributes:
        name: the name in the field ``answer_type`` of records and shards.
        form: the sentence with which a prompt asks for the answer; a model reads it.
        grade: grades a predicted answer by rules.
        check_gold: returns a record's gold answer in the type's normal form; raises InvalidGold.
        is_evident: whether the answer and choices of a record that names no type show this type. The first type of the
            registry for which it is true wins.
        keeps_choices: whether its questions are asked with their choices; questions of other types are asked without
            them.
        is_number: whether its answer is a number; a count can be checked against it if the gold is one plain number.
        needs_judge: whether only a judge can grade paraphrases of a gold answer (with its choices).
        is_boxes: whether the answer is the question's gold boxes. The answer's text is neither checked nor read, and
            two questions with different boxes are different questions.
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
