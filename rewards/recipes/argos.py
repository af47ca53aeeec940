"""The reward of Argos (§3.1): the verifier that curates traces, on what the policy wrote (Eq. 1–9)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rewards.aggregate import GateSettings
from rewards.case import Case
from rewards.recipes.base import Earned, Memory, Recipe
from rewards.registry import SCORERS
from rewards.scorer import Scorer, check_names
from rewards.scorers import outcome, spatial
from rewards.verifier import verify


@dataclass(frozen=True)
class Argos(Recipe):
    """Eq. 9: a wrong answer earns its outcome alone, so that nothing else of it is scored.

    A response that does not point although there is something to point at has spatial score 0: pointing at nothing is
    no way around the grounding.
    """

    name: ClassVar[str] = "argos"
    Settings: ClassVar[type] = GateSettings
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, spatial.NAME)

    settings: GateSettings
    scorers: tuple[Scorer, ...] = SCORERS

    def __post_init__(self) -> None:
        check_names("weights", self.settings.weights, self.scorers)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """See :class:`rewards.recipes.base.Recipe`."""
        found = await asyncio.gather(*(verify(case, self.settings, self.scorers) for case in cases))
        return [Earned(verified.score, verified.verdicts) for verified in found]
