"""Computes the reward of the paper SAIL-RL (§3, Eq. 1).

The reward depends on the decision to think or to answer directly, on the quality of the thinking, and on the answer.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from groundtrace.config.settings import settings
from groundtrace.rewards.aggregate import AdditiveSettings, CascadeSettings, additive, cascading
from groundtrace.rewards.case import Case, Context
from groundtrace.rewards.complexity import COMPLEX, COMPLEXITY, SIMPLE
from groundtrace.rewards.form import JUDGED_FORM
from groundtrace.rewards.recipes.base import BlindShares, Earned, Memory, Recipe, verdict_of, verdicts_of
from groundtrace.rewards.registry import scorers_named
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import format, judging, outcome, thinking
from groundtrace.rewards.scorers.thinking import ThinkingSettings, thinking_scorer
from groundtrace.schemas.records import Question, Verdict


@settings
class SailRlSettings:
    """Holds the settings of the reward of SAIL-RL: how its terms are scored and combined into one reward."""

    form: Annotated[Literal["cascading", "additive"], "Eq. 1, or the baseline of §4.5"] = "cascading"
    decision: Annotated[
        Literal["label", "always", "never", "free"],
        "the right decision (Table 5): to think about complex questions, about all, about none; free: not rewarded",
    ] = "label"
    thinking: Annotated[ThinkingSettings, "the reward of the thinking"] = field(default_factory=ThinkingSettings)
    cascading: Annotated[CascadeSettings, "the weights of Eq. 1"] = field(default_factory=CascadeSettings)
    additive: Annotated[AdditiveSettings, "the weights of the baseline"] = field(default_factory=AdditiveSettings)


@dataclass(frozen=True)
class SailRl(Recipe):
    """Computes the reward of the paper SAIL-RL from the verdicts on outcome, judging, format and thinking.

    The verdict on judging is about the decision to think or to answer directly. The verdicts on judging and thinking
    need calls to a judge. With the setting ``form`` = ``cascading`` (Eq. 1), one term of the reward is the product of
    judging, thinking and outcome. The judge is not called if a known factor of this product is 0. So judging is not
    scored if the answer is wrong, and thinking is not scored if judging is 0.

    The value of the format (R_format) is 1 for a response of the form in §3.4: a judge section, a think section, and a
    boxed answer (:data:`groundtrace.rewards.form.JUDGED_FORM`). The think section has only words, and is empty for a
    direct answer. Deviation: the paper compares the decision in the judge section only with the label of the question.
    Here the response must also follow its decision: the value of the thinking (R_think) is 0 if a response decides to
    answer a simple question directly, but its think section is not empty.

    The setting ``decision`` is one of the strategies of Table 5. With ``label``, the label of the question (simple or
    complex) determines the right decision. With ``always``, all questions are treated as complex, and with ``never`` as
    simple. With ``free`` (Judge-w/o-reward), the decision is not rewarded: judging is not scored, and is not a factor
    of the product. A right direct answer then gets the value 1 for thinking, also for a complex question. If thinking
    were 0 in this case, the reward would punish the decision to answer directly.
    """

    name: ClassVar[str] = "sail_rl"
    Settings: ClassVar[type] = SailRlSettings
    needs: ClassVar[dict[str, str]] = {"complexity": "the complexity of each question, simple or complex"}
    roles: ClassVar[tuple[str, ...]] = ("judge",)
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, judging.NAME, thinking.NAME, format.NAME)

    settings: SailRlSettings

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return all scorers (checks) that the recipe may run: outcome, format, thinking and judging.

        Judging, which is about the decision to think, is left out if the setting ``decision`` is ``free``.
        """
        return (*scorers_named(outcome.NAME, format.NAME), *self._judged)

    @property
    def _judged(self) -> tuple[Scorer, ...]:
        """Return the scorers that ask the judge: first judging, then thinking.

        The scorer ``judging`` scores the decision to think or to answer directly, and ``thinking`` scores the
        reasoning. ``judging`` is left out if the setting ``decision`` is ``free``.
        """
        decision = () if self.settings.decision == "free" else (judging.SCORER,)
        return (*decision, self._thinking)

    @cached_property
    def _thinking(self) -> Scorer:
        return thinking_scorer(self.settings.thinking)

    @classmethod
    def blind_shares(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> BlindShares:
        """Return the share 1: a right answer can earn the maximum reward without using the images."""
        return BlindShares(1.0)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses to one question, and return their rewards in the same order.

        ``cases`` holds the responses, each with its question and the data that scorers (checks of a response) need.
        ``memory`` is not used. Raises BudgetUsedUp if the run's budget for model calls is used up.
        """
        return list(await asyncio.gather(*map(self._one, cases)))

    async def _one(self, case: Case) -> Earned:
        case = replace(case, form=JUDGED_FORM, context=self._labelled(case))
        verdicts = await verdicts_of(scorers_named(outcome.NAME, format.NAME), case)
        case = replace(case, outcome=verdicts[0])
        for scorer in self._judged:
            if self.settings.form == "cascading" and any(factor.value == 0 for factor in _factors(verdicts)):
                verdicts += (Verdict(scorer.name, None, "the product is 0 without it"),)
            elif scorer.name == thinking.NAME and _thinks_after_all(case, verdicts[-1]):
                verdicts += (Verdict(scorer.name, 0.0, "it decides to answer directly, and thinks all the same"),)
            else:
                verdicts += (await verdict_of(scorer, case),)
        return Earned(self._reward(verdicts), verdicts)

    def _labelled(self, case: Case) -> Context:
        """Return the facts about the question of ``case``, with the complexity that the setting ``decision`` requires.

        The complexity defines whether a response should think. With ``always``, the question becomes complex, and with
        ``never`` simple. With ``free``, it becomes simple if the response does not think. In all other cases, the
        facts are returned unchanged.
        """
        label = {"always": COMPLEX, "never": SIMPLE, "free": None if (case.response.think or "").strip() else SIMPLE}
        fixed = label.get(self.settings.decision)
        return case.context if fixed is None else case.context.with_added(COMPLEXITY, fixed)

    def _reward(self, verdicts: tuple[Verdict, ...]) -> float | None:
        if self.settings.decision == "free":
            verdicts += (Verdict(judging.NAME, 1.0, "the decision is free"),)  # a factor of 1 leaves the product
        if self.settings.form == "additive":
            weights = self.settings.additive
            if self.settings.decision == "free":
                weights = replace(weights, judging_weight=0.0)
            return additive(verdicts, weights)
        return cascading(verdicts, self.settings.cascading)


def _factors(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    """Return the verdicts (results of scorers) that are factors of the product in Eq. 1: all except the one on the
    format.
    """
    return [verdict for verdict in verdicts if verdict.name != format.NAME]


def _thinks_after_all(case: Case, decision: Verdict) -> bool:
    """Return whether a response rightly decides to answer a simple question directly, but its think section is not
    empty.

    ``case`` holds the response, and ``decision`` is the verdict on its decision.
    """
    return (
        decision.name == judging.NAME
        and decision.value == 1
        and case.context.added(COMPLEXITY) == SIMPLE
        and bool((case.response.think or "").strip())
    )
