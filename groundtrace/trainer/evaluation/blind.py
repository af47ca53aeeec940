"""Computes the accuracy that is possible without the images of the questions.

The metrics of an evaluation contain this number, so that the accuracy of the model can be compared with it.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from groundtrace.rewards.blindness import RewardedQuestion, blind_figures
from groundtrace.rewards.recipes.base import BlindShares, Recipe
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.records import Question


class _Accuracy(Recipe):
    """Defines a reward that depends only on the answer: it is 1 for a right answer, and 0 for a wrong one."""

    name: ClassVar[str] = "accuracy"
    Settings: ClassVar[type] = type(None)

    @classmethod
    def blind_shares(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> BlindShares:
        """Return the shares of the reward that an answer earns: 1 if the answer is right, and 0 if it is wrong.

        The arguments are not used.
        """
        return BlindShares(1.0)


def blind_accuracy(rows: Sequence[TrainingRow]) -> float | None:
    """Return the highest accuracy that is possible with one fixed answer per answer type, without seeing the images.

    For example, the fixed answer to all yes/no questions may be "yes". ``rows`` are the rows with the questions.
    Returns None if the answers to all these questions have to be graded by a judge (a model that grades texts).
    """
    figures = blind_figures([rewarded(row) for row in rows], _Accuracy)
    return None if figures is None else figures.share


def rewarded(row: TrainingRow) -> RewardedQuestion:
    """Return the question of a row, with the other columns of the row that a reward uses."""
    return RewardedQuestion(row.question, row.entities, row.pointable, tuple(name for name, _ in row.streams))
