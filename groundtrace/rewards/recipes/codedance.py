"""Computes the reward of the paper CodeDance (§3.1) from the answer, the form and the executed code (Eq. 1, 2, 5).

The reward of a response is w_a · outcome − w_f · [bad form] + the tool reward. Here, [bad form] is 1 if the form of the
response has a fault, else 0. The tool reward is the reward for executing code; it depends on the share of right answers
in the group, which is all responses to the same question. The weights w_a and w_f, and the sum itself, are from the
published code, because our copy of the paper lacks them. As in that code, a good form adds nothing to the reward.
Otherwise a policy could earn a reward for its form without using the image. Each turn also has its own advantage;
:meth:`CodeDance.advantages` adds it to the advantage of the response.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from groundtrace.grading.responses.turns import Turn
from groundtrace.rewards.case import Case
from groundtrace.rewards.recipes.base import BlindShares, Earned, Memory, Recipe, verdicts_of
from groundtrace.rewards.registry import scorers_named
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import format, outcome
from groundtrace.rewards.scorers.tool_calls import (
    ToolCallSettings,
    group_accuracy,
    normalise_turns,
    tool_reward,
    turn_advantages,
    turn_returns,
)
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.rewards.trajectory_checks import form_fault
from groundtrace.schemas.records import Question, Verdict


@dataclass(frozen=True)
class CodeDance(Recipe):
    """Computes the reward of the paper CodeDance for trajectories, which are responses in several turns with code.

    Eq. 1 and 5 give the reward of a trajectory. Eq. 2 gives the advantage of its turns. A response has no reward in
    three cases: it is not a trajectory, its answer could not be graded, or one of its checks has failed.
    """

    name: ClassVar[str] = "codedance"
    Settings: ClassVar[type] = ToolCallSettings
    needs: ClassVar[dict[str, str]] = {"trajectory": "how the code of each turn ended"}
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, format.NAME)
    compares: ClassVar[bool] = True

    settings: ToolCallSettings

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return all scorers (checks) that the recipe may run: only the scorer of the outcome (the final answer)."""
        return scorers_named(outcome.NAME)

    @classmethod
    def blind_shares(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> BlindShares:
        """Return the share 1: a right answer can earn the maximum reward without using the images."""
        return BlindShares(1.0)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the trajectories that answer one question, and return their rewards in the same order.

        A trajectory is a response in several turns with code.

        ``cases`` holds the trajectories, each with its question and the data that scorers (checks of a response) need.
        ``memory`` is not used. Raises BudgetUsedUp if the run's budget for model calls is used up.
        """
        scorers = scorers_named(outcome.NAME)
        found = await asyncio.gather(*(verdicts_of(scorers, case) for case in cases))
        earned = [Earned(None, (*verdicts, form_verdict(case))) for case, verdicts in zip(cases, found, strict=True)]
        accuracy = group_accuracy([each.outcome for each in earned])
        return [
            Earned(self._reward(case.trajectory, each, accuracy), each.verdicts)
            for case, each in zip(cases, earned, strict=True)
        ]

    def _reward(self, trajectory: Trajectory | None, earned: Earned, accuracy: float | None) -> float | None:
        failed = any(verdict.failed for verdict in earned.verdicts)
        if trajectory is None or earned.outcome is None or failed:
            return None
        counts, share = (trajectory.succeeded, trajectory.counted_calls), trajectory.looked_share
        tool = tool_reward(earned.outcome, *counts, accuracy, self.settings, trajectory.kind, share)
        if tool is None:
            return None
        factor = self.settings.factor(trajectory.kind)
        bad_form = factor.bad_form if earned.value(format.NAME) == 0 else 0.0
        return factor.answer * earned.outcome - bad_form + tool

    def advantages(
        self, sequence: Sequence[float], trajectories: Sequence[Trajectory]
    ) -> tuple[tuple[float, ...], ...]:
        """Return the advantage of each turn of each trajectory of a batch, A = A_seq + w · A_turn.

        A trajectory is a response in several turns with code. All tokens of a turn share its advantage. ``sequence``
        holds A_seq, the advantage of each trajectory, computed from the rewards of its group, which is all trajectories
        that answer the same question. ``trajectories`` holds the turns of each trajectory, in the same order. A_turn is
        the turn's discounted return, normalised over the batch (CodeDance Eq. 2). w is the setting ``turn_weight``.
        """
        returns = [turn_returns(trajectory.failed, self.settings) for trajectory in trajectories]
        executed = [trajectory.executed for trajectory in trajectories]
        return turn_advantages(sequence, normalise_turns(returns, executed), self.settings)


def form_verdict(case: Case) -> Verdict:
    """Return the verdict on the form of a response: 1 for a good form, 0 for a fault.

    ``case`` holds the response. :func:`groundtrace.rewards.trajectory_checks.form_fault` checks the form of all its
    turns. A direct answer (without a think section) is no fault, since an easy question needs no thinking.
    """
    written = case.trajectory.written if case.trajectory is not None else ()
    fault = form_fault(written or (Turn(case.text.strip()),))
    return Verdict(format.NAME, 0.0 if fault else 1.0, fault or "the turns have the form asked for")
