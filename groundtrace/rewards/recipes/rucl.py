"""Computes the reward of RuCL (§3.3, Eq. 4–9) from the answer and the rubrics: first the easy, later also the hard."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from groundtrace.rewards.case import Case, Context
from groundtrace.rewards.curriculum import (
    CurriculumSettings,
    TierScores,
    advance,
    hard_weight,
    rubric_reward,
    tier_scores,
)
from groundtrace.rewards.recipes.base import Earned, Memory, Recipe, RewardedResponse, verdicts_of
from groundtrace.rewards.registry import scorers_named
from groundtrace.rewards.rubrics import RUBRICS
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import outcome, rubric_scores
from groundtrace.rewards.scorers.rubric_scores import scores_of_verdict


@dataclass(frozen=True)
class Rucl(Recipe):
    """Computes the reward of RuCL (Eq. 4–9) from the outcome and the rubrics, weighted by the curriculum.

    λ_t, the weight of the hard rubrics in a step, depends on the steps before it (Eq. 8). After the step, its mean over
    the easy rubrics is added to the curriculum (Eq. 7). If the judge fails on a response, the response is unscored and
    not part of the mean.
    """

    name: ClassVar[str] = "rucl"
    Settings: ClassVar[type] = CurriculumSettings
    needs: ClassVar[dict[str, str]] = {"rubrics": "the rubrics that responses are judged by"}
    roles: ClassVar[tuple[str, ...]] = ("judge",)
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, rubric_scores.NAME)
    learns: ClassVar[bool] = True

    settings: CurriculumSettings

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return the scorers of the outcome and of the rubrics."""
        return scorers_named(outcome.NAME, rubric_scores.NAME)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses to one question, and return their rewards in order.

        The rewards use the current λ_t, the weight of the hard rubrics. Raises BudgetUsedUp.
        """
        weight = hard_weight(memory.curriculum, self.settings)
        scorers = scorers_named(outcome.NAME, rubric_scores.NAME)
        found = await asyncio.gather(*(verdicts_of(scorers, case) for case in cases))
        earned = [Earned(None, verdicts) for verdicts in found]
        tiers = [_tiers(case.context, each) for case, each in zip(cases, earned, strict=True)]
        return [
            replace(each, reward=rubric_reward(each.outcome, tier, weight, self.settings))
            for each, tier in zip(earned, tiers, strict=True)
        ]

    def learn(self, memory: Memory, step: Sequence[RewardedResponse]) -> Memory:
        """Return the memory after a step, whose mean over the easy rubrics is added to the curriculum (Eq. 7)."""
        tiers = [_tiers(judged.context, judged.earned) for judged in step]
        known = [tier.easy for tier in tiers if tier is not None and tier.easy is not None]
        mean = sum(known) / len(known) if known else None
        return replace(memory, curriculum=advance(memory.curriculum, mean, self.settings))


def _tiers(context: Context, earned: Earned) -> TierScores | None:
    """Return the means of Eq. 5; None if there are rubrics but no judge has judged the response by them."""
    (verdict,) = (verdict for verdict in earned.verdicts if verdict.name == rubric_scores.NAME)
    rubrics, scores = context.added(RUBRICS) or (), scores_of_verdict(verdict)
    return None if rubrics and not scores else tier_scores(rubrics, scores)
