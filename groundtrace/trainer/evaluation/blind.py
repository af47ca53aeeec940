"""Computes the accuracy that is possible without the images of the questions."""

from collections.abc import Sequence
from typing import ClassVar

from groundtrace.rewards.blindness import RewardedQuestion, blind_figures
from groundtrace.rewards.recipes.base import Recipe
from groundtrace.rewards.rows.row import TrainingRow


class _Accuracy(Recipe):
    """Defines a reward that is 1 for a right answer, and has no other term."""

    name: ClassVar[str] = "accuracy"
    Settings: ClassVar[type] = type(None)


def blind_accuracy(rows: Sequence[TrainingRow]) -> float | None:
    """Return the highest accuracy that is possible with one answer for each answer type, without seeing the images.

    ``rows`` are the rows with the questions. Returns None if a judge (a model that grades texts) has to grade all of
    their answers.
    """
    return blind_figures([rewarded(row) for row in rows], _Accuracy).share


def rewarded(row: TrainingRow) -> RewardedQuestion:
    """Return the question of a row, with what its reward depends on."""
    return RewardedQuestion(row.question, row.entities, row.pointable, tuple(name for name, _ in row.streams))
