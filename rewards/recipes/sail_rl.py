"""The reward of SAIL-RL (§3): was it right to think, is the thinking sound, and is the answer right (Eq. 1)?"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from rewards.aggregate import AdditiveSettings, CascadeSettings, additive, cascading
from rewards.case import Case
from rewards.recipes.base import Earned, Memory, Recipe, verdict_of, verdicts_of
from rewards.registry import scorers_named
from rewards.scorers import format, judging, outcome, thinking
from schemas.config import settings
from schemas.records import Verdict


@settings
class SailRlSettings:
    """How the terms of SAIL-RL make one reward."""

    form: Annotated[Literal["cascading", "additive"], "Eq. 1, or the baseline of §4.5"] = "cascading"
    cascading: Annotated[CascadeSettings, "of Eq. 1"] = field(default_factory=CascadeSettings)
    additive: Annotated[AdditiveSettings, "of the baseline"] = field(default_factory=AdditiveSettings)


@dataclass(frozen=True)
class SailRl(Recipe):
    """Outcome, judging, format and thinking; of these the thinking costs calls.

    In the cascading form the judge is not asked where the product is 0 already: a wrong answer, or a wrong choice
    whether to think, decides it.
    """

    name: ClassVar[str] = "sail_rl"
    Settings: ClassVar[type] = SailRlSettings
    needs: ClassVar[dict[str, str]] = {"complexity": "the complexity of each question, simple or complex"}
    roles: ClassVar[tuple[str, ...]] = ("judge",)
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, judging.NAME, thinking.NAME, format.NAME)

    settings: SailRlSettings

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """See :class:`rewards.recipes.base.Recipe`."""
        return list(await asyncio.gather(*map(self._one, cases)))

    async def _one(self, case: Case) -> Earned:
        free = await verdicts_of(scorers_named(outcome.NAME, judging.NAME, format.NAME), case)
        graded, judged, _ = free
        if self.settings.form == "cascading" and 0 in (graded.value, judged.value):
            thought = Verdict(thinking.NAME, None, "the product is 0 without it")
        else:
            thought = await verdict_of(thinking.SCORER, replace(case, outcome=graded))
        verdicts = (*free, thought)
        if self.settings.form == "additive":
            return Earned(additive(verdicts, self.settings.additive), verdicts)
        return Earned(cascading(verdicts, self.settings.cascading), verdicts)
