"""The reward of Argos (§3.1): the verifier that curates traces, on what the policy wrote (Eq. 1–9)."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from rewards.aggregate import GateSettings, gated, grounded
from rewards.case import Case
from rewards.recipes.base import Earned, Memory, Recipe
from rewards.registry import SCORERS
from rewards.scorer import Scorer, check_names
from rewards.scorers import counting, outcome, spatial, temporal
from rewards.verifier import Verified, verify
from schemas.config import ConfigError, Weight, settings


@settings
class ArgosSettings(GateSettings):
    """Eq. 9, and what pointing without looking costs."""

    miss_cost: Annotated[Weight, "what a point off its object costs, in units of what one on it earns; 0 is Eq. 9"] = (
        1.0
    )


@dataclass(frozen=True)
class Argos(Recipe):
    """Eq. 9: a wrong answer earns its outcome alone, so that nothing else of it is scored.

    A response that does not point although there is something to point at has spatial score 0: pointing at nothing is
    no way around the grounding. Deviation: where it points, grounding g counts as g - c · (1 - g) with the
    ``miss_cost`` c. In Eq. 9 a point set by chance can only gain; here guesses that are wrong more often than right
    earn less than not pointing; a right answer never earns less than a wrong one. Groups of right answers that point
    differently well teach too.
    """

    name: ClassVar[str] = "argos"
    Settings: ClassVar[type] = ArgosSettings
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, spatial.NAME)
    samples_by_reward: ClassVar[bool] = True

    settings: ArgosSettings
    scorers: tuple[Scorer, ...] = SCORERS

    def __post_init__(self) -> None:
        check_names("weights", self.settings.weights, self.scorers)
        check_names("skip", self.settings.skip, self.scorers)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """See :class:`rewards.recipes.base.Recipe`."""
        found = await asyncio.gather(*(verify(case, self._gate(case), self.scorers) for case in cases))
        return [
            Earned(self._reward(case, verified), verified.verdicts) for case, verified in zip(cases, found, strict=True)
        ]

    @property
    def runs(self) -> Sequence[Scorer]:
        """See :class:`rewards.recipes.base.Recipe`."""
        return tuple(scorer for scorer in self.scorers if scorer.name not in self.settings.skip)

    def check_served(self, roles: Collection[str]) -> None:
        """See :class:`rewards.recipes.base.Recipe`."""
        looks = {spatial.NAME, counting.NAME} - {*self.settings.skip}
        if looks and "detector" not in roles and not {"pointer", "segmenter"} <= {*roles}:
            raise ConfigError(
                "reward.roles.detector must name an endpoint: points are checked with it; or leave that out: "
                f"reward.options.skip = {sorted(looks)}"
            )

    def _gate(self, case: Case) -> GateSettings:
        """The settings, without what a config has no judge for: what nobody scores pays nothing.

        Grounding is not left out in this way: what cannot be checked is then not rewarded at all.
        """
        judging = [scorer for scorer in self.scorers if not scorer.is_grounding]
        absent = [s.name for s in judging for a in s.asks if a.required and a.role not in case.served.roles]
        return replace(self.settings, skip=(*self.settings.skip, *absent))

    def _reward(self, case: Case, verified: Verified) -> float | None:
        """The score, with what the points off their objects cost where it counts the grounding."""
        if not verified.score or not case.points:
            return verified.score
        cost = self.settings.miss_cost
        least = grounded({verdict.name: verdict.value for verdict in verified.verdicts})
        charged = list(verified.verdicts)
        for place, verdict in enumerate(charged):
            value = least[verdict.name]
            if verdict.name in (spatial.NAME, counting.NAME, temporal.NAME) and value is not None:
                charged[place] = replace(verdict, value=value - cost * (1 - value))
        reward = gated(tuple(charged), self.settings)
        return None if reward is None else max(0.0, reward)
