"""Computes the reward of SAIL-RL (§3, Eq. 1) for the decision whether to think, the thinking, and the answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from groundtrace.config.settings import settings
from groundtrace.rewards.aggregate import AdditiveSettings, CascadeSettings, additive, cascading
from groundtrace.rewards.case import Case
from groundtrace.rewards.complexity import COMPLEXITY, SIMPLE
from groundtrace.rewards.form import JUDGED_FORM
from groundtrace.rewards.recipes.base import Earned, Memory, Recipe, verdict_of, verdicts_of
from groundtrace.rewards.registry import scorers_named
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import format, judging, outcome, thinking
from groundtrace.schemas.records import Verdict


@settings
class SailRlSettings:
    """Holds the settings by which the terms of SAIL-RL are combined into one reward."""

    form: Annotated[Literal["cascading", "additive"], "Eq. 1, or the baseline of §4.5"] = "cascading"
    cascading: Annotated[CascadeSettings, "the weights of Eq. 1"] = field(default_factory=CascadeSettings)
    additive: Annotated[AdditiveSettings, "the weights of the baseline"] = field(default_factory=AdditiveSettings)


@dataclass(frozen=True)
class SailRl(Recipe):
    """Computes the reward of SAIL-RL from the verdicts on outcome, judging, format and thinking.

    The verdict on judging is about the decision whether to think. The verdicts on judging and thinking need calls to a
    judge. In the cascading form the judge is not called if the product is already 0: judging is not scored if the
    answer is wrong, and thinking is not scored if judging is 0.

    R_format is 1 for a response of the form that the paper trains (§3.4): a judge section, a think section only in
    words, which is empty for a direct answer, and a boxed answer (:data:`groundtrace.rewards.form.JUDGED_FORM`).
    Deviation: the paper compares the decision in the judge section only with the label, not with the following think
    section. Here R_think is 0 if a response rightly decides to answer a simple question directly, but then thinks. A
    right decision must not earn a reward if the response does not follow it.
    """

    name: ClassVar[str] = "sail_rl"
    Settings: ClassVar[type] = SailRlSettings
    needs: ClassVar[dict[str, str]] = {"complexity": "the complexity of each question, simple or complex"}
    roles: ClassVar[tuple[str, ...]] = ("judge",)
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, judging.NAME, thinking.NAME, format.NAME)

    settings: SailRlSettings

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return the scorers of the outcome, the format, the judging and the thinking."""
        return scorers_named(outcome.NAME, format.NAME, judging.NAME, thinking.NAME)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses to one question, and return their rewards in order. Raises BudgetUsedUp."""
        return list(await asyncio.gather(*map(self._one, cases)))

    async def _one(self, case: Case) -> Earned:
        case = replace(case, form=JUDGED_FORM)
        verdicts = await verdicts_of(scorers_named(outcome.NAME, format.NAME), case)
        case = replace(case, outcome=verdicts[0])
        for scorer in (judging.SCORER, thinking.SCORER):
            if self.settings.form == "cascading" and any(factor.value == 0 for factor in _factors(verdicts)):
                verdicts += (Verdict(scorer.name, None, "the product is 0 without it"),)
            elif scorer is thinking.SCORER and _thinks_after_all(case, verdicts[-1]):
                verdicts += (Verdict(scorer.name, 0.0, "it decides to answer directly, and thinks all the same"),)
            else:
                verdicts += (await verdict_of(scorer, case),)
        if self.settings.form == "additive":
            return Earned(additive(verdicts, self.settings.additive), verdicts)
        return Earned(cascading(verdicts, self.settings.cascading), verdicts)


def _factors(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    """Return the verdicts that are factors of the product in Eq. 1."""
    return [verdict for verdict in verdicts if verdict.name != format.NAME]


def _thinks_after_all(case: Case, decision: Verdict) -> bool:
    """Whether a response thinks although it has rightly decided not to."""
    return (
        decision.value == 1 and case.context.added(COMPLEXITY) == SIMPLE and bool((case.response.think or "").strip())
    )
