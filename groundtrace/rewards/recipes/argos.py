"""Computes the reward of the paper Argos (§3.1, Eq. 1–9).

The same scorers check the traces (a teacher's responses) when training data is made, and the policy's responses in
training (:mod:`groundtrace.rewards.verifier`).
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import settings
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.case import Case
from groundtrace.rewards.recipes.base import BlindShares, Earned, Memory, Recipe
from groundtrace.rewards.scorer import Scorer, check_names
from groundtrace.rewards.scorer_sets import TRACE_SCORERS, ScorerArguments, configured
from groundtrace.rewards.scorers import counting, outcome, reasoning, spatial
from groundtrace.rewards.targets import gold_count
from groundtrace.rewards.verifier import verify
from groundtrace.schemas.records import Question


@settings
class ArgosSettings(GateSettings):
    """Holds the settings of the reward of Argos: the weights and the gate of Eq. 9, and the scorers' arguments.

    The gate is τ: if the value of the outcome (the final answer) is below τ, the reward is the outcome alone. A scorer
    is a check of one property of a response.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"miss_cost": "pointing.wrong_cost"}

    scorers: Annotated[
        ScorerArguments,
        "arguments of scorers, by name or module:NAME; a scorer that the verifier does not have is added to it",
    ] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Argos(Recipe):
    """Computes the reward of the paper Argos (Eq. 9), a weighted mean of outcome, grounding and reasoning.

    The outcome scores the final answer, and grounding scores the points. For a wrong answer, the reward is the outcome
    alone, and the other scorers do not run. Points are scored by :mod:`groundtrace.rewards.pointing_score`: a right
    point never lowers the reward, and a wrong point lowers it. The targets of a question are the objects that it is
    about. If there are targets, a response that points at none of them earns less than a response that points at one.
    So responses that all have the right answer can have different rewards, and the policy can learn from these
    differences. :mod:`groundtrace.rewards.scorers.counting` is not used, since the pointing score already includes
    missed targets.

    ``settings`` are the settings of the reward. ``scorers`` are the scorers that can run; scorers that the settings
    name are added to them.
    """

    name: ClassVar[str] = "argos"
    Settings: ClassVar[type] = ArgosSettings
    samples_by_reward: ClassVar[bool] = True

    settings: ArgosSettings
    scorers: tuple[Scorer, ...] = TRACE_SCORERS

    def __post_init__(self) -> None:
        object.__setattr__(self, "scorers", configured(self.scorers, self.settings.scorers, "scorers"))
        check_names("weights", self.settings.weights, self.scorers)
        check_names("skip", self.settings.skip, self.scorers)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses to one question by Argos Eq. 9, and return their rewards in the same order.

        ``cases`` holds the responses, each with its question and the data that scorers (checks of a response) need.
        ``memory`` is not used. Raises BudgetUsedUp if the run's budget for model calls is used up.
        """
        found = await asyncio.gather(*(verify(case, self._gate(case), self.scorers) for case in cases))
        return [Earned(verified.score, verified.verdicts) for verified in found]

    @classmethod
    def blind_shares(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> BlindShares:
        """Return the share of the maximum reward that a right answer can earn without using the images, from 0 to 1.

        The share is 1 if the question has no objects to point at: ``pointable`` is empty, or the question asks for a
        count and its answer is 0. Otherwise it is 1 - (weight of ``spatial``) / (sum of the weights of ``outcome``,
        ``spatial`` and ``reasoning``). These are the scorers of the final answer, the points and the reasoning.

        ``pointable`` holds the phrases for objects that the pointer (the model that points at objects) found in the
        images of ``question``. ``streams`` is not used. ``settings`` are the settings of the recipe; None means the
        defaults.
        """
        weights = (settings or GateSettings()).weights
        total = sum(weights.get(name, 0.0) for name in (outcome.NAME, spatial.NAME, reasoning.NAME))
        has_targets = pointable and gold_count(question) != 0
        return BlindShares(1.0 - weights.get(spatial.NAME, 0.0) / total if has_targets else 1.0)

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return all scorers (checks) that may run: all except ``counting`` and the scorers that the settings skip."""
        return tuple(scorer for scorer in self.scorers if scorer.name not in self._skip)

    @property
    def shown(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the names of the verdicts whose mean values are logged: those of the gates and of all scorers (checks)
        that may run and have a weight. The verdicts on the outcome and on the points come first. A gate is a scorer
        whose value 0 makes the whole reward 0.
        """
        weighted = [each.name for each in self.runs if each.is_gate or self.settings.weights.get(each.name)]
        return tuple(dict.fromkeys((outcome.NAME, spatial.NAME, *weighted)))

    @property
    def _skip(self) -> tuple[str, ...]:
        return (*self.settings.skip, counting.NAME)

    def check_served(self, roles: Collection[str]) -> None:
        """Raise ConfigError if points are to be checked, but no role that can find objects has an endpoint.

        Points are checked if the settings do not skip the scorer ``spatial``. ``roles`` are the roles (jobs of a model,
        such as detector) that have an endpoint. Objects are found by a detector, or by a pointer with a segmenter.
        """
        finds_objects = "detector" in roles or {"pointer", "segmenter"} <= {*roles}
        if spatial.NAME not in self.settings.skip and not finds_objects:
            raise ConfigError(
                "reward.roles.detector names no endpoint, so points cannot be checked: set it to the name of an "
                f'endpoint, or skip this check with reward.options.skip = ["{spatial.NAME}"]'
            )

    def _gate(self, case: Case) -> GateSettings:
        """Return the recipe's settings, with more names in ``skip``, the list of the scorers (checks) that do not run.

        ``case`` is the response with its question. ``counting`` is always added, since the pointing score already
        includes missed targets. A scorer that needs a role (a model's job, such as judge) without an endpoint is added,
        too. Grounding scorers, such as ``spatial``, are an exception: without the endpoint they stay in use, fail, and
        leave the response unscored.
        """
        judging = [scorer for scorer in self.scorers if not scorer.is_grounding]
        absent = [s.name for s in judging for a in s.asks if a.required and a.role not in case.served.roles]
        return replace(self.settings, skip=(*self._skip, *absent))
