"""Defines a reward for pointing alone, which the GRPO experiment compares with the reward of Argos.

``recipe = "benchmarks.learning.points_only:PointsOnly"`` names it in a trainer's config.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from groundtrace.rewards.case import Case
from groundtrace.rewards.recipes.argos import Argos
from groundtrace.rewards.recipes.base import Earned, Memory
from groundtrace.rewards.scorers import outcome, spatial
from groundtrace.rewards.selection import select_scorers

FORM = "format"


@dataclass(frozen=True)
class PointsOnly(Argos):
    """Rewards pointing, whether the answer is right or wrong; a response of invalid form earns 0.

    A response to a question without anything to point at earns 1 if its form is valid and no point is wrong. The
    outcome is graded for the metrics, and does not change the reward.
    """

    name: ClassVar[str] = "points_only"

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses to one question, and return their rewards in order. Raises BudgetUsedUp."""
        return [await self._score(case) for case in cases]

    async def _score(self, case: Case) -> Earned:
        gate = self._gate(case)
        grader = next(scorer for scorer in self.scorers if scorer.name == outcome.NAME)
        graded = await grader.verdict(case)
        case = replace(case, pointing=gate.pointing, outcome=graded)
        choices = {choice.scorer.name: choice for choice in select_scorers(case, self.scorers, gate.skip)}
        form = await choices[FORM].scorer.verdict(case)
        if form.value == 0 or not choices[spatial.NAME].chosen:
            return Earned(0.0 if form.value == 0 else 1.0, (graded, form))
        pointed = await choices[spatial.NAME].scorer.verdict(case)
        reward = None if pointed.failed else 1.0 if pointed.value is None else max(0.0, pointed.value)
        return Earned(reward, (graded, form, pointed))
