"""Computes rewards from rubrics under a curriculum (the paper RuCL, §3.3, Eq. 5–9).

A rubric is one criterion of grading, and is easy or hard. The hard rubrics are added to the reward only after the
responses satisfy the easy ones. The state of the curriculum (:class:`CurriculumState`) holds the latest scores, which
decide when this happens. A state is immutable: each training step takes a state and returns the next one. So the state
can be saved, and a resumed run continues unchanged.

The rewards of training step t use λ_t, the weight of the hard rubrics. λ_t is computed from the state before step t.
After step t, the mean score of the step's responses on the easy rubrics is added to the state.

    weight = hard_weight(state, settings)                        # λ_t of the next step
    reward = rubric_reward(outcome, tiers, weight, settings)     # for each response
    state = advance(state, batch_easy, settings)                 # the step is done
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import PositiveInt

from groundtrace.config.settings import OneOf, Share, settings
from groundtrace.rewards.rubrics import EASY, HARD, PLACE, RubricScore
from groundtrace.schemas.records import Rubric

_STEEPNESS = 10.0


def _linear(done: float) -> float:
    return done


def _sigmoid(done: float) -> float:
    """Return φ(``done``) of RuCL Eq. 8, for a logistic φ: how far the weight of the hard rubrics has grown, in [0, 1].

    The weight grows from λ_base, at φ = 0, to λ_max, at φ = 1. It grows during T_ramp steps, and ``done`` is the share
    of these steps that are done, in [0, 1]. The curve of φ is centred at 0.5, and scaled so that φ(0) = 0 and
    φ(1) = 1.
    """
    return (math.tanh(_STEEPNESS * (done - 0.5) / 2) / math.tanh(_STEEPNESS / 4) + 1) / 2


GROWTH: dict[str, Callable[[float], float]] = {"sigmoid": _sigmoid, "linear": _linear}
"""The functions that can be φ in Eq. 8 of RuCL, by name. φ states how the weight of the hard rubrics grows.

The argument of φ is the share of the T_ramp steps that is done, and the result is the share of the growth that is done,
both in [0, 1]. The paper of RuCL uses a sigmoid without giving its steepness, which is 10 here.
"""


@settings
class CurriculumSettings:
    """Holds the settings of RuCL's reward and of its curriculum, which adds the hard rubrics after the easy ones.

    A rubric is one criterion of grading. The hard rubrics are added after w training steps in a row (the window) in
    which the mean score on the easy rubrics is at least τ (the proficiency). Then the weight of the hard rubrics grows
    from λ_base to λ_max in T_ramp steps. α is the weight of a right answer.

    The defaults are those of Table 5: α = 0.7, w = 20, τ = 0.9 and λ_max = 1. The paper gives neither T_ramp nor
    λ_base. T_ramp has no default: a good value is the number of steps of one epoch, which differs between runs. The
    default of λ_base is 0.
    """

    ramp_steps: Annotated[PositiveInt, "T_ramp of Eq. 8"]
    alpha: Annotated[Share, "α"] = 0.7
    window: Annotated[
        PositiveInt, "w: the number of steps in a row whose easy rubrics must reach tau before the hard ones begin"
    ] = 20
    tau: Annotated[Share, "τ: the mean share of easy rubrics that the responses of a step must satisfy"] = 0.9
    lambda_max: Annotated[Share, "the weight of the hard rubrics at the ramp's end"] = 1.0
    lambda_base: Annotated[Share, "the weight of the hard rubrics at the ramp's start"] = 0.0
    growth: Annotated[str, OneOf(GROWTH), "φ of Eq. 8"] = "sigmoid"
    aggregation: Annotated[
        Literal["stratified", "uniform"],
        "how rubrics are combined: easy and hard ones by Eq. 6, or all by their mean, without a curriculum (§4.3)",
    ] = "stratified"
    require_place: Annotated[
        bool,
        "rubrics count only if the response states where in the image it sees what the question is about, which the "
        "judge decides; false is the paper's reward",
    ] = True

    def __post_init__(self) -> None:
        if self.lambda_base > self.lambda_max:
            raise ValueError(f"lambda_base must be at most lambda_max = {self.lambda_max}, got {self.lambda_base}")


@dataclass(frozen=True)
class CurriculumState:
    """Holds the state of the curriculum after a number of training steps.

    Attributes:
        step: the number of finished steps; the first step is step 1.
        window: the latest values of μ_easy, oldest first. μ_easy is the mean score of a step's responses on the easy
            rubrics. There are at most w values, where w is the setting ``window``. Steps without a value are left out.
        started_at: T_start of RuCL Eq. 7, the step after which the hard rubrics become part of the reward
            (:func:`advance`); None before this step.
    """

    step: int = 0
    window: tuple[float, ...] = ()
    started_at: int | None = None


@dataclass(frozen=True)
class TierScores:
    """Holds the shares of a question's rubrics (criteria of grading) that one response satisfies, each in [0, 1].

    ``easy`` is the satisfied share of the easy rubrics, and ``hard`` that of the hard rubrics (RuCL Eq. 5). ``uniform``
    is the satisfied share of all rubrics (RuCL §4.3, the baseline Uniform Averaging). A share is None if the question
    has no rubrics of this kind.

    ``has_place`` is True if the response satisfies the rubric :data:`groundtrace.rewards.rubrics.PLACE`, or if the
    judge was not asked about it. This rubric requires that the response states where in the image at least one of the
    question's objects is.
    """

    easy: float | None
    hard: float | None
    uniform: float | None
    has_place: bool = True


def tier_scores(rubrics: Sequence[Rubric], scores: Sequence[RubricScore]) -> TierScores:
    """Return the share of rubrics that a response satisfies: of the easy, the hard and all rubrics (RuCL Eq. 5).

    A rubric is one criterion of grading. ``rubrics`` are the rubrics of the question, each with its stratum (easy or
    hard). ``scores`` are the judge's scores of the response. They are matched by rubric id; scores with other ids are
    not used.

    As in the paper, a rubric that is not applicable has the value 0 in the share. So a response gains nothing if it
    leaves out the content that a rubric checks. The same rule holds for ``has_place``, the result for the rubric
    :data:`groundtrace.rewards.rubrics.PLACE`: ``has_place`` is False if the judge calls this rubric not applicable. The
    rubric requires that a response states the place of the question's objects in the image.

    Raises:
        ValueError: if a rubric has no score. Do not call this function if the judge failed, since then no rubric has a
            score.
    """
    judged = {score.rubric_id: score for score in scores}
    missing = next((rubric.id for rubric in rubrics if rubric.id not in judged), None)
    if missing is not None:
        raise ValueError(f"the rubric {missing!r} has no score: pass one score for each rubric")

    def mean(*strata: str) -> float | None:
        met = [judged[rubric.id].score == 1 for rubric in rubrics if rubric.stratum in strata]
        return sum(met) / len(met) if met else None

    place = judged.get(PLACE.id)
    return TierScores(mean(EASY), mean(HARD), mean(EASY, HARD), place is None or place.score == 1)


def hard_weight(state: CurriculumState, settings: CurriculumSettings) -> float:
    """Return λ_t, the weight of the hard rubrics in the next step, from 0 to 1 (RuCL Eq. 8).

    A rubric is one criterion of grading, and is easy or hard. ``state`` is the state of the curriculum before this
    step. The weight is 0 up to the step T_start (``state.started_at``). After T_start it grows from λ_base to λ_max in
    T_ramp steps; these are the settings ``lambda_base``, ``lambda_max`` and ``ramp_steps``.
    """
    if state.started_at is None:
        return 0.0
    done = min(1.0, (state.step + 1 - state.started_at) / settings.ramp_steps)
    return settings.lambda_base + (settings.lambda_max - settings.lambda_base) * GROWTH[settings.growth](done)


def advance(state: CurriculumState, batch_easy: float | None, settings: CurriculumSettings) -> CurriculumState:
    """Return the state of the curriculum after one more training step (RuCL Eq. 7).

    A rubric is one criterion of grading, and is easy or hard. ``state`` is the state before the step. ``batch_easy`` is
    the mean score of the step's responses on the easy rubrics, from 0 to 1. It is None if no response has such a score;
    then only the number of steps changes.

    Otherwise ``batch_easy`` is added to the window of the latest means. As soon as the window is full and all its
    values are at least τ (the setting ``tau``), the hard rubrics become part of the reward in all following steps.
    """
    step = state.step + 1
    if batch_easy is None:
        return replace(state, step=step)
    window = (*state.window, batch_easy)[-settings.window :]
    holds = len(window) == settings.window and min(window) >= settings.tau
    started_at = step if state.started_at is None and holds else state.started_at
    return CurriculumState(step, window, started_at)


def rubric_reward(
    outcome: float | None, tiers: TierScores | None, weight: float, settings: CurriculumSettings
) -> float | None:
    """Return the reward of a response by RuCL Eq. 6 and 9, in [0, 1].

    The reward is α · right + (1 - α) · score, where score = (1 - λ) · easy + λ · hard (Eq. 6).

    ``right`` is 1 if ``outcome`` is 1, else 0 (Eq. 4). ``easy`` and ``hard`` are the shares in ``tiers``: how many of
    the easy and hard rubrics (criteria of grading) the response satisfies. α is the setting ``alpha``, and λ is
    ``weight``.

    Deviation: Eq. 6 is undefined if the question has only easy rubrics, only hard rubrics, or neither. If one kind is
    missing, the score is the share of the other kind, for every λ. If both kinds are missing, the reward is ``right``.
    All responses to a question have the same rubrics, so the same formula applies to all of them.

    If ``settings.aggregation`` is ``uniform``, the score is the share among all rubrics, instead of Eq. 6. Then
    ``weight`` has no effect.

    Deviation: if ``tiers.has_place`` is False, the reward is α · right. ``has_place`` is False for a response that does
    not state where in the image at least one of the question's objects is. Without this rule, a response that only
    gives the answer could earn the full reward: as long as λ is small, only easy rubrics count, and these do not
    require looking at the image.

    Args:
        outcome: the value of the verdict on the final answer; None if it is unscored.
        tiers: the shares of satisfied rubrics; None if the judge failed.
        weight: λ, the weight of the hard rubrics (:func:`hard_weight`).
        settings: the settings of the curriculum.

    Returns:
        The reward; None if ``outcome`` or ``tiers`` is None.
    """
    if outcome is None or tiers is None:
        return None
    right = float(outcome == 1)
    if not tiers.has_place:
        return settings.alpha * right
    if settings.aggregation == "uniform":
        rubrics = tiers.uniform
    elif tiers.easy is None or tiers.hard is None:
        rubrics = tiers.easy if tiers.hard is None else tiers.hard
    else:
        rubrics = (1 - weight) * tiers.easy + weight * tiers.hard
    if rubrics is None:
        return right
    return settings.alpha * right + (1 - settings.alpha) * rubrics
