"""Computes the reward of the paper RuCL (§3.3, Eq. 4–9) from the final answer and from rubrics.

A rubric is one criterion of grading, and is easy or hard. The hard rubrics are added to the reward only after the
responses satisfy the easy ones.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from groundtrace.rewards.case import Case, Context
from groundtrace.rewards.curriculum import (
    CurriculumSettings,
    TierScores,
    advance,
    hard_weight,
    rubric_reward,
    tier_scores,
)
from groundtrace.rewards.recipes.base import BlindShares, Earned, Memory, Recipe, RewardedResponse, verdicts_of
from groundtrace.rewards.registry import scorers_named
from groundtrace.rewards.rubrics import PLACE, RUBRICS
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import outcome, rubric_scores
from groundtrace.rewards.scorers.rubric_scores import scores_of_verdict
from groundtrace.schemas.records import Question


@dataclass(frozen=True)
class Rucl(Recipe):
    """Computes the reward of the paper RuCL (Eq. 4–9) from the outcome (the final answer) and the rubrics.

    A rubric is one criterion of grading, and is easy or hard. The curriculum adds the hard rubrics to the reward after
    the easy ones.

    λ_t, the weight of the hard rubrics in a step, depends on the steps before it (Eq. 8): after each step, the
    curriculum records the mean score of the step's responses on the easy rubrics (Eq. 7). If the judge fails on a
    response, the response is unscored, and the mean does not include it.

    If the setting ``alpha`` (α, the weight of a right answer) is 1, no rubric is judged. The reward is then the outcome
    alone (Vanilla GRPO of §4.3): 1 for a right answer, and 0 for any other answer.

    There is one deviation: if the setting ``require_place`` is True, the judge also scores the rubric
    :data:`groundtrace.rewards.rubrics.PLACE`. This rubric requires that the response states where in the image it sees
    what the question is about. A response that does not satisfy it gets 0 for all rubrics. Without the deviation, a
    response that only gives the answer could earn as much as a response that looks at the image, as long as λ_t is
    small.
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
        """Return all scorers that the recipe may run: outcome and rubrics, or only outcome if ``alpha`` is 1."""
        return scorers_named(outcome.NAME, *(() if self._is_vanilla else (rubric_scores.NAME,)))

    @property
    def _is_vanilla(self) -> bool:
        return self.settings.alpha == 1

    @classmethod
    def blind_shares(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> BlindShares:
        """Return the share 1: a right answer can earn the maximum reward without using the images."""
        return BlindShares(1.0)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses to one question, and return their rewards in the same order.

        ``cases`` holds the responses, each with its question and the data that scorers (checks of a response) need. The
        rewards use the current λ_t, the weight of the hard rubrics, which depends on ``memory`` (the state of the
        curriculum). A rubric is one criterion of grading, and is easy or hard. Raises BudgetUsedUp if the run's budget
        for model calls is used up.
        """
        weight = hard_weight(memory.curriculum, self.settings)
        found = await asyncio.gather(*(verdicts_of(self.runs, self._judged(case)) for case in cases))
        earned = [Earned(None, verdicts) for verdicts in found]
        if self._is_vanilla:
            return [replace(each, reward=_right(each.outcome)) for each in earned]
        tiers = [_tiers(case.context, each) for case, each in zip(cases, earned, strict=True)]
        return [
            replace(each, reward=rubric_reward(each.outcome, tier, weight, self.settings))
            for each, tier in zip(earned, tiers, strict=True)
        ]

    def _judged(self, case: Case) -> Case:
        """Return the case (a response with its question) with the rubrics by which the judge scores the response.

        A rubric is one criterion of grading. The rubric :data:`groundtrace.rewards.rubrics.PLACE` requires that the
        response states a place in the image. If the setting ``require_place`` is True and the case has rubrics, this
        rubric is added to them. Otherwise the case is returned unchanged.
        """
        rubrics = case.context.added(RUBRICS)
        if not rubrics or not self.settings.require_place:
            return case
        return replace(case, context=case.context.with_added(RUBRICS, (*rubrics, PLACE)))

    def learn(self, memory: Memory, step: Sequence[RewardedResponse]) -> Memory:
        """Return the memory after a training step, which holds the new state of the curriculum.

        A rubric is one criterion of grading, and is easy or hard. The mean score of the step's responses on the easy
        rubrics is added to the curriculum (RuCL Eq. 7), which decides when the hard rubrics are added to the reward.
        ``memory`` holds the state before the step, and ``step`` holds the responses of the step with their rewards.
        """
        mean = _mean([tier.easy for tier in self._tiers_of(step)])
        return replace(memory, curriculum=advance(memory.curriculum, mean, self.settings))

    def metrics(self, memory: Memory, step: Sequence[RewardedResponse]) -> dict[str, float | None]:
        """Return the metrics of a training step by name; a metric without data is None.

        ``hard_weight`` is λ_t, the weight of the hard rubrics; a rubric is one criterion of grading. ``rubrics_easy``,
        ``rubrics_hard`` and ``rubrics_all`` are the mean scores of the responses on the easy, the hard and all rubrics
        (RuCL §4.3). ``has_place`` is the share of judged responses that satisfy the rubric
        :data:`groundtrace.rewards.rubrics.PLACE`; None if the setting ``require_place`` is False.

        ``memory`` holds the state of the curriculum with which the responses were scored, and ``step`` holds these
        responses with their rewards.
        """
        tiers = self._tiers_of(step)
        places = [float(tier.has_place) for tier in tiers] if self.settings.require_place else []
        return {
            "hard_weight": hard_weight(memory.curriculum, self.settings),
            "rubrics_easy": _mean([tier.easy for tier in tiers]),
            "rubrics_hard": _mean([tier.hard for tier in tiers]),
            "rubrics_all": _mean([tier.uniform for tier in tiers]),
            "has_place": _mean(places),
        }

    def _tiers_of(self, step: Sequence[RewardedResponse]) -> list[TierScores]:
        """Return, for each judged response, the shares of easy and hard rubrics that it satisfies (RuCL Eq. 5).

        The result is empty if the setting ``alpha`` (α, the weight of a right answer) is 1, because then no rubric is
        judged.
        """
        if self._is_vanilla:
            return []
        tiers = [_tiers(judged.context, judged.earned) for judged in step]
        return [tier for tier in tiers if tier is not None]


def _right(outcome: float | None) -> float | None:
    return None if outcome is None else float(outcome == 1)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _tiers(context: Context, earned: Earned) -> TierScores | None:
    """Return the shares of easy and hard rubrics (criteria of grading) that a response satisfies (RuCL Eq. 5).

    Return None if there are rubrics, but no judge has judged the response by them. If there are no rubrics, the result
    has None for each share.
    """
    (verdict,) = (verdict for verdict in earned.verdicts if verdict.name == rubric_scores.NAME)
    rubrics, scores = context.added(RUBRICS) or (), scores_of_verdict(verdict)
    return None if rubrics and not scores else tier_scores(rubrics, scores)
