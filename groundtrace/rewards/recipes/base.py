"""What a reward recipe is: how the verdicts on the responses to one question become their rewards.

A recipe is a value that holds its settings. What it learns during training is a value of its own, the :class:`Memory`,
which the trainer keeps and saves: ``score`` reads it, and ``learn`` gives the next one after a step.
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
from groundtrace.schemas.records import Question, Verdict


@dataclass(frozen=True)
class Earned:
    """What one response earned; ``reward`` None is unscored. One of the verdicts is the outcome."""

    reward: float | None
    verdicts: tuple[Verdict, ...]

    @property
    def outcome(self) -> float | None:
        """The value of the outcome."""
        return self.value(outcome.NAME)

    def value(self, name: str) -> float | None:
        """The value of one verdict, None where it is unscored or was not given."""
        return next((verdict.value for verdict in self.verdicts if verdict.name == name), None)


@dataclass(frozen=True)
class Judged:
    """A response of a step with what it earned: what a recipe learns from."""

    question_id: str
    text: str
    context: Context
    earned: Earned


@dataclass(frozen=True)
class Reference:
    """The best grounded reasoning found for a question, and its box reward (iVGR Eq. 4)."""

    text: str
    box_score: float


@dataclass(frozen=True)
class Memory:
    """What training has shown so far.

    Attributes:
        curriculum: where RuCL's schedule stands.
        references: iVGR's archive, by question id.
    """

    curriculum: CurriculumState = field(default_factory=CurriculumState)
    references: Mapping[str, Reference] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """The same as numbers, strings, lists and dicts."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> "Memory":
        """The memory that :meth:`as_plain` wrote; a fresh one for an empty mapping."""
        if not plain:
            return cls()
        curriculum = dict(plain["curriculum"])
        state = CurriculumState(**{**curriculum, "window": tuple(curriculum["window"])})
        return cls(state, {id: Reference(**reference) for id, reference in plain["references"].items()})


class Recipe(Protocol):
    """How verdicts become rewards.

    Attributes:
        name: by which a config names it.
        Settings: the type of its settings, the only argument that makes one.
        needs: fields of a :class:`groundtrace.rewards.case.Context` or :class:`groundtrace.rewards.case.Case` without
            which it can score nothing, each with what it is in the data.
        roles: roles that need an endpoint, or it can score nothing.
        shown: the verdicts whose means say how training goes.
        compares: whether a response's reward depends on the other responses to its question.
        learns: whether its memory grows with the steps.
        samples_by_reward: whether a group teaches where its rewards differ, and not only where its outcomes do.
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
        """What each response of one question's group earned, in order. Raises BudgetUsedUp."""
        ...

    @property
    def full_reward(self) -> float:
        """What a response earns that is right in everything."""
        return 1.0

    @classmethod
    def blind_share(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> float:
        """The most that a right answer earns without a look at the media, as a share of what one earns that looks.

        ``pointable`` are the things that the pointer found, ``streams`` those in which the question is asked. Judges
        are taken to be content. ``settings`` are of the type ``Settings``, None its defaults.
        """
        return 1.0

    @property
    def runs(self) -> Sequence[Scorer]:
        """The scorers that it may run: what they ask is looked at before the first response is scored."""
        return ()

    def check_served(self, roles: Collection[str]) -> None:
        """Raises ConfigError where it could not score what it is there for with endpoints for these roles."""

    def learn(self, memory: Memory, step: Sequence[Judged]) -> Memory:
        """The memory after a step with these responses."""
        return memory


async def verdicts_of(scorers: Sequence[Scorer], case: Case) -> tuple[Verdict, ...]:
    """The verdicts of these scorers, in order; one whose needs are not met is unscored with the reason.

    The outcome, where it is among them, is scored first, and the others know it. Raises BudgetUsedUp.
    """
    grader = next((scorer for scorer in scorers if scorer.name == outcome.NAME), None)
    if grader is not None:
        case = replace(case, outcome=await verdict_of(grader, case))

    async def one(scorer: Scorer) -> Verdict:
        known = case.outcome if scorer is grader else None
        return await verdict_of(scorer, case) if known is None else known

    return tuple(await asyncio.gather(*map(one, scorers)))


async def verdict_of(scorer: Scorer, case: Case) -> Verdict:
    """The scorer's verdict; without a value, with the reason, where it does not run. Raises BudgetUsedUp."""
    choice = choose(scorer, case)
    return (
        await scorer.score(case) if choice.chosen else Verdict(scorer.name, None, choice.reason, failed=choice.failed)
    )
