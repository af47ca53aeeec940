"""Defines the interface of a reward recipe, which turns the verdicts on the responses to one question into rewards.

A recipe is immutable and holds its settings. Its learnt state is a separate object, the :class:`Memory`, which the
trainer keeps and saves. ``score`` reads the memory, and ``learn`` returns the next memory after a step.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol

from groundtrace.rewards.case import Case, Context
from groundtrace.rewards.curriculum import CurriculumState
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import outcome
from groundtrace.rewards.selection import choose
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.schemas.records import Question, Verdict


class HasVerdicts:
    """Adds the method :meth:`value` to a class with a field ``verdicts``."""

    verdicts: tuple[Verdict, ...]

    def value(self, name: str) -> float | None:
        """Return the value of the verdict with this name; None if the verdict is unscored or does not exist."""
        return next((verdict.value for verdict in self.verdicts if verdict.name == name), None)


@dataclass(frozen=True)
class Earned(HasVerdicts):
    """Holds the reward of one response, and the verdicts on the response, including the verdict on the outcome.

    ``reward`` is None if the response is unscored.
    """

    reward: float | None
    verdicts: tuple[Verdict, ...]

    @property
    def outcome(self) -> float | None:
        """Return the value of the verdict on the outcome; None if it is unscored."""
        return self.value(outcome.NAME)


@dataclass(frozen=True)
class RewardedResponse:
    """Holds a response of a training step and its reward. A recipe learns from such responses."""

    question_id: str
    text: str
    context: Context
    earned: Earned


@dataclass(frozen=True)
class Reference:
    """Holds the best grounded reasoning found for a question, and its box reward (iVGR Eq. 4)."""

    text: str
    box_score: float


@dataclass(frozen=True)
class Memory:
    """Holds the learnt state of the recipes.

    Attributes:
        curriculum: the state of RuCL's curriculum.
        references: the best grounded reasoning found for each question, by question id (iVGR's archive).
    """

    curriculum: CurriculumState = field(default_factory=CurriculumState)
    references: Mapping[str, Reference] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """Return the memory as numbers, strings, lists and dicts."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> "Memory":
        """Return the memory from the result of :meth:`as_plain`; a fresh memory for an empty mapping."""
        if not plain:
            return cls()
        curriculum = dict(plain["curriculum"])
        state = CurriculumState(**{**curriculum, "window": tuple(curriculum["window"])})
        return cls(state, {id: Reference(**reference) for id, reference in plain["references"].items()})


class Recipe(Protocol):
    """Turns verdicts into rewards.

    Attributes:
        name: the recipe's name in a config.
        Settings: the type of its settings, which are the only argument of its constructor.
        needs: the fields that a :class:`groundtrace.rewards.case.Context` or :class:`groundtrace.rewards.case.Case`
            must have, as a dict from the name of the field to a description of its data.
        roles: the roles (such as judge) that must have an endpoint.
        shown: the names of the verdicts whose means are logged during training.
        compares: whether a response's reward depends on the other responses to its question.
        learns: whether ``learn`` changes the memory.
        samples_by_reward: which groups of responses to one question the trainer uses. True: groups whose rewards
            differ. False: groups whose outcomes differ.
    """

    name: ClassVar[str]
    Settings: ClassVar[type]
    needs: ClassVar[Mapping[str, str]] = {}
    roles: ClassVar[tuple[str, ...]] = ()
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME,)
    compares: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    samples_by_reward: ClassVar[bool] = False

    settings: Any

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses to one question, and return their rewards in order. Raises BudgetUsedUp."""
        ...

    def advantages(
        self, sequence: Sequence[float], trajectories: Sequence[Trajectory]
    ) -> tuple[tuple[float, ...], ...]:
        """Return the advantage of each turn of each response of a batch.

        ``sequence`` holds the advantage of each response, computed from the rewards of its group. By default each turn
        has the advantage of its response.
        """
        pairs = zip(sequence, trajectories, strict=True)
        return tuple((advantage,) * len(trajectory.turns) for advantage, trajectory in pairs)

    @property
    def full_reward(self) -> float:
        """Return the reward of a response that is right in all terms."""
        return 1.0

    @classmethod
    def blind_share(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> float:
        """Return the maximum reward of a policy that answers without using the media, divided by the overall maximum.

        The answer of this policy is assumed to be right, and judges are assumed to accept everything. ``pointable`` are
        the phrases that the pointer (the model that points at objects) found. ``streams`` are the streams of the
        question. ``settings`` are of the type ``Settings``; None means its defaults.
        """
        return 1.0

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return the scorers that the recipe can run, depending on the response.

        Before the first response is scored, a check ensures that the roles of these scorers have endpoints.
        """
        return ()

    def check_served(self, roles: Collection[str]) -> None:
        """Raise ConfigError if the recipe needs a role that is not in ``roles``, the roles with an endpoint."""

    def learn(self, memory: Memory, step: Sequence[RewardedResponse]) -> Memory:
        """Return the memory after a step with these responses."""
        return memory

    def metrics(self, memory: Memory, step: Sequence[RewardedResponse]) -> dict[str, float | None]:
        """Return the recipe's own metrics of a step with these responses; None means that a metric has no data.

        ``memory`` is the memory with which the responses were scored. The recipe learns from the step afterwards.
        """
        return {}


async def verdicts_of(scorers: Sequence[Scorer], case: Case) -> tuple[Verdict, ...]:
    """Return the verdicts of the scorers, in order.

    If a scorer cannot run, its verdict is unscored and holds the reason. If ``scorers`` has the scorer of the outcome,
    this scorer runs first, and the other scorers get its verdict as ``Case.outcome``. Raises BudgetUsedUp.
    """
    grader = next((scorer for scorer in scorers if scorer.name == outcome.NAME), None)
    if grader is not None:
        case = replace(case, outcome=await verdict_of(grader, case))

    async def one(scorer: Scorer) -> Verdict:
        known = case.outcome if scorer is grader else None
        return await verdict_of(scorer, case) if known is None else known

    return tuple(await asyncio.gather(*map(one, scorers)))


async def verdict_of(scorer: Scorer, case: Case) -> Verdict:
    """Return the scorer's verdict. If the scorer does not run, its verdict is unscored and holds the reason.

    Raises BudgetUsedUp.
    """
    choice = choose(scorer, case)
    return (
        await scorer.verdict(case) if choice.chosen else Verdict(scorer.name, None, choice.reason, failed=choice.failed)
    )
