"""Defines the interface of a reward recipe, which turns the verdicts on the responses to one question into rewards.

A verdict is the result of one scorer. A recipe is immutable and holds its settings. What it has learnt is in a separate
object, the :class:`Memory`, which the trainer keeps and saves. The method ``score`` reads the memory. The method
``learn`` returns the new memory after a training step.
"""

import asyncio
import inspect
import math
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

from groundtrace.rewards.case import Case, Context
from groundtrace.rewards.curriculum import CurriculumState
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import outcome
from groundtrace.rewards.selection import choose
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import Question, Verdict

_SCORING: "ContextVar[Recipe | None]" = ContextVar("_SCORING", default=None)
"""The recipe whose method ``score`` runs in this task; None outside of it."""


class UnknownVerdict(UserError):
    """Raised if the method ``score`` of a recipe asks for the verdict of a scorer that the recipe does not run."""


class HasVerdicts:
    """Provides a method for classes with a field ``verdicts``: :meth:`value` returns the value of one verdict.

    A verdict is the result of a scorer.
    """

    verdicts: tuple[Verdict, ...]

    def value(self, name: str) -> float | None:
        """Return the value of the verdict (result) of the scorer (check) ``name``, such as "outcome".

        The result is None if the verdict has no value, or if the scorer did not run on this response. Raises
        UnknownVerdict if this method is called in the method ``score`` of a recipe that has no scorer of this name in
        :attr:`Recipe.runs`.
        """
        found = self._verdict(name)
        recipe = _SCORING.get()
        if found is None and recipe is not None:
            _check_runs(recipe, name)
        return None if found is None else found.value

    def _verdict(self, name: str) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if verdict.name == name), None)


@dataclass(frozen=True)
class Earned(HasVerdicts):
    """Holds the reward of one response, and the verdicts (results of scorers) from which it was computed.

    ``reward`` is None if the response could not be scored. ``verdicts`` includes the verdict on the outcome (the final
    answer).
    """

    reward: float | None
    verdicts: tuple[Verdict, ...]

    @property
    def outcome(self) -> float | None:
        """Return the value of the verdict on the final answer: 1 for a right answer, None for an unscored one."""
        graded = self._verdict(outcome.NAME)
        return None if graded is None else graded.value


@dataclass(frozen=True)
class RewardedResponse:
    """Holds a response of a training step with its reward, from which a recipe (code that computes rewards) learns.

    Attributes:
        question_id: the id of the question.
        text: the response.
        context: facts about the question that are not in its record, such as its rubrics.
        earned: the reward and the verdicts.
    """

    question_id: str
    text: str
    context: Context
    earned: Earned


@dataclass(frozen=True)
class Reference:
    """Holds the best grounded reasoning found for a question, with the value of its box reward (iVGR Eq. 4).

    A grounded reasoning has boxes. A textual reasoning, which has only words, is compared with it. ``box_score`` is
    from 0 to 1.
    """

    text: str
    box_score: float


@dataclass(frozen=True)
class Memory:
    """Holds what the recipes, which compute rewards, have learnt in earlier training steps.

    Attributes:
        curriculum: the state of RuCL's curriculum, which decides when hard rubrics are rewarded.
        references: the best reasoning with boxes that was found for each question, by question id (iVGR's archive).
    """

    curriculum: CurriculumState = field(default_factory=CurriculumState)
    references: Mapping[str, Reference] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """Return the memory (what recipes have learnt) as numbers, strings, lists and dicts, to be saved as JSON."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> "Memory":
        """Return the memory (what recipes have learnt) from its saved form; a fresh memory if ``plain`` is empty.

        ``plain`` holds only numbers, strings, lists and dicts, as :meth:`as_plain` writes them.
        """
        if not plain:
            return cls()
        curriculum = dict(plain["curriculum"])
        state = CurriculumState(**{**curriculum, "window": tuple(curriculum["window"])})
        return cls(state, {id: Reference(**reference) for id, reference in plain["references"].items()})


class BlindShares(NamedTuple):
    """Holds the rewards of a response that was written without looking at the images, as shares of the full reward.

    The full reward is :attr:`Recipe.full_reward`. ``right`` is the share if the final answer happens to be right, and
    ``wrong`` is the share if it is wrong. Both are from 0 to 1.
    """

    right: float
    wrong: float = 0.0


class Recipe(Protocol):
    """Turns verdicts (results of scorers) on the responses to one question into rewards.

    Attributes:
        name: the recipe's name in a config.
        Settings: the type of its settings, which are the only argument of its constructor.
        needs: the data that the recipe needs. The keys are names of fields of :class:`groundtrace.rewards.case.Context`
            or :class:`groundtrace.rewards.case.Case`, and the values describe these fields.
        roles: the model roles that the recipe calls, such as ``judge``. Each of them must have an endpoint.
        shown: the names of the verdicts whose mean values are logged during training. It may be a property, so that
            it depends on the settings.
        compares: whether a response's reward depends on the other responses to its question.
        learns: whether the recipe keeps a memory between the steps of a training, which its method ``learn`` changes.
        samples_by_reward: which groups the trainer replaces if ``grpo.dynamic_sampling`` is True. A group is the
            responses to one prompt. If the value is True, the trainer replaces groups whose rewards are all equal. If
            the value is False, the trainer replaces groups whose answers are all right or all wrong.
        settings: the settings of the recipe.
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
        """Score the responses to one question, and return their rewards in the same order.

        ``cases`` holds the responses with the data that scorers (checks of a response) need. ``memory`` holds what the
        recipe learnt in earlier steps. Raises BudgetUsedUp if the run's budget for model calls is used up.
        """
        ...

    def advantages(
        self, sequence: Sequence[float], trajectories: Sequence[Trajectory]
    ) -> tuple[tuple[float, ...], ...]:
        """Return the advantage of each turn, for each response of a batch; a response can have several turns with code.

        ``sequence`` holds the advantage of each response, computed from the rewards of its group, which is all
        responses to the same question. ``trajectories`` holds the turns of each response, in the same order. By
        default, each turn has the advantage of its response.
        """
        pairs = zip(sequence, trajectories, strict=True)
        return tuple((advantage,) * len(trajectory.turns) for advantage, trajectory in pairs)

    @property
    def full_reward(self) -> float:
        """Return the reward of a response that has the best value in all terms of the reward."""
        return 1.0

    @classmethod
    def blind_shares(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> BlindShares | None:
        """Return the shares of the full reward that a policy can earn without using the images; None if unknown.

        The policy writes its response in the right form, but without points and boxes, and judges are assumed to accept
        everything. From these shares, :mod:`groundtrace.rewards.blindness` computes the reward of a policy that never
        looks at the images. By default the shares are unknown, and no such reward is shown or recorded. The recipes of
        this package count a wrong answer as 0, even if its form earns a part of the reward.

        Args:
            question: the question.
            pointable: the phrases for objects that the pointer (the model that points at objects) found in the images.
            streams: the ways in which the question is asked, ``grounded`` (with boxes) and ``textual`` (only in words);
                empty for most recipes.
            settings: the settings of the recipe, of the type ``Settings``; None means the defaults.
        """
        return None

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return all scorers (checks) that the recipe may run; which of them run depends on the response.

        A role is the job of a model that a scorer calls, such as judge. Before the first response is scored, the
        trainer checks the endpoints of these scorers' roles
        (:meth:`groundtrace.rewards.rows.reward.Reward.check_endpoints`). Roles without an endpoint are not checked
        there: the attribute ``roles`` and :meth:`check_served` determine which roles must have an endpoint.
        """
        return ()

    def check_served(self, roles: Collection[str]) -> None:
        """Raise ConfigError if the recipe needs a model role (such as judge) that has no endpoint.

        ``roles`` are the roles that have an endpoint.
        """

    def learn(self, memory: Memory, step: Sequence[RewardedResponse]) -> Memory:
        """Return the memory after a training step.

        ``memory`` holds what the recipe learnt before this step, and ``step`` holds the responses of the step with
        their rewards. By default, ``memory`` is returned unchanged.
        """
        return memory

    def metrics(self, memory: Memory, step: Sequence[RewardedResponse]) -> dict[str, float | None]:
        """Return the recipe's own metrics of a training step, by name; None means that a metric has no data.

        ``step`` holds the responses of the step with their rewards. ``memory`` holds what the recipe had learnt when
        these responses were scored, before it learns from them.
        """
        return {}


class BadResult(UserError):
    """Raised if the method ``score`` of a recipe returns something else than a valid list of :class:`Earned`."""


async def earned_by(recipe: Recipe, cases: Sequence[Case], memory: Memory) -> list[Earned]:
    """Score the responses to one question with a recipe, check the result, and return it.

    ``cases`` holds the responses, and ``memory`` holds what the recipe learnt in earlier steps. Raises BadResult if the
    recipe does not return one :class:`Earned` for each case, or if a reward is neither None nor a finite number. Raises
    UnknownVerdict if the recipe asks for the verdict of a scorer that it does not run, and BudgetUsedUp if the run's
    budget for model calls is used up.
    """
    token = _SCORING.set(recipe)
    try:
        scoring: Any = recipe.score(cases, memory)
        found: Any = await scoring if inspect.isawaitable(scoring) else scoring
    finally:
        _SCORING.reset(token)
    if found is scoring:
        problem = "it is not asynchronous: define it with `async def`"
    elif not isinstance(found, list | tuple):
        problem = f"it returned {found!r:.100}: return a list of Earned, one for each of {len(cases)} cases"
    elif len(found) != len(cases):
        problem = f"it returned {len(found)} results: return a list of Earned, one for each of {len(cases)} cases"
    elif bad := [each for each in found if not _is_earned(each)]:
        problem = (
            f"it returned {bad[0]!r:.200}: return Earned(reward, verdicts), whose reward is None or a finite number "
            "(int or float), and whose verdicts are a tuple of Verdict"
        )
    else:
        return list(found)
    record = cases[0].question.id if cases else ""
    raise BadResult(f"the method score of the reward recipe {_place(recipe)} failed for the record {record}: {problem}")


def _is_earned(each: object) -> bool:
    """Return whether ``each`` is an :class:`Earned` with a valid reward and valid verdicts."""
    if not isinstance(each, Earned) or not isinstance(each.verdicts, tuple | list):
        return False
    is_number = isinstance(each.reward, int | float) and math.isfinite(each.reward)
    return (each.reward is None or is_number) and all(isinstance(verdict, Verdict) for verdict in each.verdicts)


def _check_runs(recipe: Recipe, name: str) -> None:
    """Raise UnknownVerdict if ``name`` is neither a scorer that the recipe runs, nor a verdict that the recipe shows.

    A recipe may make verdicts itself, and only for some responses; ``shown`` has their names. A recipe without ``runs``
    is not checked.
    """
    known = [scorer.name for scorer in recipe.runs]
    if known and name not in {*known, *recipe.shown}:
        raise UnknownVerdict(
            f"the method score of the reward recipe {_place(recipe)} asks for the value of {name!r}, but the recipe "
            f"runs no scorer of this name: use one of {', '.join(known)}, or add the scorer to `runs` (or the name to "
            "`shown`, if the recipe makes this verdict itself)"
        )


def _place(recipe: Recipe) -> str:
    """Return the module and the class of a recipe, as a config names them."""
    return f"{type(recipe).__module__}:{type(recipe).__qualname__}"


async def verdicts_of(scorers: Sequence[Scorer], case: Case) -> tuple[Verdict, ...]:
    """Run the scorers on a response, and return their verdicts (results) in the order of ``scorers``.

    ``case`` holds the response, its question and the data that scorers need. If a scorer cannot run, its verdict has no
    value, and holds the reason. If ``scorers`` includes the scorer of the outcome (the final answer), this scorer runs
    first, and the other scorers get its verdict as ``Case.outcome``. Raises BudgetUsedUp if the run's budget for model
    calls is used up.
    """
    grader = next((scorer for scorer in scorers if scorer.name == outcome.NAME), None)
    if grader is not None:
        case = replace(case, outcome=await verdict_of(grader, case))

    async def one(scorer: Scorer) -> Verdict:
        known = case.outcome if scorer is grader else None
        return await verdict_of(scorer, case) if known is None else known

    return tuple(await asyncio.gather(*map(one, scorers)))


async def verdict_of(scorer: Scorer, case: Case) -> Verdict:
    """Run one scorer (a check) on a response, and return its verdict (result).

    ``case`` holds the response, its question and the data that the scorer needs. If the scorer is not applicable or
    cannot run, the verdict has no value, and holds the reason. Raises BudgetUsedUp if the run's budget for model calls
    is used up.
    """
    choice = choose(scorer, case)
    return (
        await scorer.verdict(case) if choice.chosen else Verdict(scorer.name, None, choice.reason, failed=choice.failed)
    )
