"""Computes rubric rewards under a curriculum (RuCL §3.3, Eq. 5–9).

The hard rubrics are added to the reward only after the responses satisfy the easy rubrics. The state is immutable: each
step takes a state and returns the next one. So the state can be saved, and a resumed run continues unchanged. The
rewards of step t use λ_t, the weight of the hard rubrics, which depends on earlier steps. After step t, the mean score
of the step's responses on the easy rubrics is added to the state.

    weight = hard_weight(state, settings)                        # λ_t of the step to come
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
    """Return a logistic curve centred at 0.5, scaled so that its value is 0 at 0 and 1 at 1."""
    return (math.tanh(_STEEPNESS * (done - 0.5) / 2) / math.tanh(_STEEPNESS / 4) + 1) / 2


GROWTH: dict[str, Callable[[float], float]] = {"sigmoid": _sigmoid, "linear": _linear}
"""The choices for φ of Eq. 8 on [0, 1]. The paper uses a sigmoid without giving its steepness, which is 10 here."""


@settings
class CurriculumSettings:
    """Holds the settings of RuCL's Table 5: α = 0.7, window w = 20, proficiency τ = 0.9, λ_max = 1.

    The paper gives neither T_ramp nor λ_base. T_ramp has no default: a good value is the number of steps of one epoch,
    which differs between runs. The default of λ_base is 0.
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
    """Holds the state of the curriculum after ``step`` steps.

    Attributes:
        step: the number of finished steps; the first step is step 1.
        window: the last values of μ_easy (a step's mean over the easy rubrics), oldest first. It has at most w values.
            Steps without a value are not in the window.
        started_at: T_start of Eq. 7, the first step after which the responses have mastered the easy rubrics
            (:func:`advance`); None before this step.
    """

    step: int = 0
    window: tuple[float, ...] = ()
    started_at: int | None = None


@dataclass(frozen=True)
class TierScores:
    """Holds the shares of satisfied rubrics, in [0, 1].

    ``easy`` is the share among the easy rubrics, and ``hard`` among the hard rubrics (Eq. 5). A share is None if the
    response has no rubrics of this kind. ``uniform`` is the share among all rubrics (the baseline Uniform
    Averaging of §4.3). ``has_place`` is False if the judge was asked about :data:`groundtrace.rewards.rubrics.PLACE`,
    and has not decided that the response meets it.
    """

    easy: float | None
    hard: float | None
    uniform: float | None
    has_place: bool = True


def tier_scores(rubrics: Sequence[Rubric], scores: Sequence[RubricScore]) -> TierScores:
    """Return a response's mean score over the easy rubrics, over the hard rubrics (Eq. 5), and over all rubrics.

    As in the paper, a rubric that is not applicable has the value 0 in the mean. So a response gains nothing if it
    leaves out the content that a rubric checks. The same holds for :data:`groundtrace.rewards.rubrics.PLACE`: if the
    judge calls it not applicable, the response has no place. Scores are matched by rubric id; other ids are not used.

    Raises:
        ValueError: if a rubric has no score. Do not call this function if the judge failed, since no rubric has a score
            in this case.
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
    """Return λ_t, the weight of the hard rubrics in the step after ``state`` (Eq. 8).

    The weight is 0 up to the step T_start (``state.started_at``). After T_start it grows from λ_base to λ_max in T_ramp
    steps.
    """
    if state.started_at is None:
        return 0.0
    done = min(1.0, (state.step + 1 - state.started_at) / settings.ramp_steps)
    return settings.lambda_base + (settings.lambda_max - settings.lambda_base) * GROWTH[settings.growth](done)


def advance(state: CurriculumState, batch_easy: float | None, settings: CurriculumSettings) -> CurriculumState:
    """Return the state after one more step (Eq. 7).

    ``batch_easy`` is the mean score of the step's responses on the easy rubrics. It is None if all responses are
    unscored. In this case, only the number of steps changes.

    Otherwise ``batch_easy`` is added to the window of the latest means. Once the window is full and all its values are
    at least τ, the hard rubrics are part of the reward in all following steps.
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
    """Return Eq. 9 with the rubric reward of Eq. 6: α · right + (1 - α) · ((1 - λ) · easy + λ · hard), in [0, 1].

    ``weight`` is λ (:func:`hard_weight`). ``right`` is 1 if the outcome is 1, else 0 (Eq. 4). ``easy`` and ``hard`` are
    the scores in ``tiers``, which is None if the judge failed. Returns None if the outcome is unscored or ``tiers`` is
    None.

    Deviation: Eq. 6 is undefined if the easy or the hard stratum has no rubrics. If one stratum has none, only the
    score of the other stratum is used, for every λ. If both have none, the reward is ``right``. All responses to a
    question have the same rubrics, so the same formula applies to all of them.

    If ``settings.aggregation`` is ``uniform``, the mean over all rubrics replaces Eq. 6, and ``weight`` has no effect.

    Deviation: if ``tiers.has_place`` is False, the rubric reward is 0. Without this, a response that only gives the
    answer could earn the full reward: as long as λ is small, only easy rubrics count, and these do not require looking.
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
