"""RuCL Eq. 4–9 by hand, and the three phases of the schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.rewards.curriculum import (
    GROWTH,
    CurriculumSettings,
    CurriculumState,
    TierScores,
    advance,
    hard_weight,
    rubric_reward,
    tier_scores,
)
from groundtrace.rewards.rubrics import RubricScore
from groundtrace.schemas.records import Rubric

PAPER = CurriculumSettings(ramp_steps=100)
SHORT = CurriculumSettings(ramp_steps=4, window=3, growth="linear")


def rubric(name: str, stratum: str) -> Rubric:
    return Rubric(name, "what", "when", 1.0, 0.5, stratum)


RUBRICS = (rubric("e1", "easy"), rubric("e2", "easy"), rubric("e3", "easy"), rubric("h1", "hard"), rubric("h2", "hard"))


def test_rucl_table5_defaults() -> None:
    assert (PAPER.alpha, PAPER.window, PAPER.tau, PAPER.lambda_max) == (0.7, 20, 0.9, 1.0)
    assert (PAPER.lambda_base, PAPER.growth) == (0.0, "sigmoid")


@pytest.mark.parametrize(
    ("scores", "easy", "hard"),
    [
        ({"e1": 1, "e2": 1, "e3": 0, "h1": 1, "h2": 0}, 2 / 3, 0.5),
        # one that is not applicable is divided by, and counts 0
        ({"e1": 1, "e2": None, "e3": 0, "h1": None, "h2": 0}, 1 / 3, 0.0),
        ({"e1": 1, "e2": None, "e3": None, "h1": 1, "h2": 1, "another": 0}, 1 / 3, 1.0),
        (dict.fromkeys(("e1", "e2", "e3", "h1", "h2")), 0.0, 0.0),
    ],
)
def test_rucl_eq5_tiers(scores, easy, hard) -> None:
    tiers = tier_scores(RUBRICS, judged(scores))
    assert (tiers.easy, tiers.hard) == (pytest.approx(easy), pytest.approx(hard))
    assert tiers.uniform == pytest.approx((3 * easy + 2 * hard) / 5)


def judged(scores: Mapping[str, int | None]) -> list[RubricScore]:
    return [RubricScore(name, score is not None, score) for name, score in scores.items()]


def test_rucl_eq5_a_stratum_without_rubrics_has_no_score() -> None:
    assert tier_scores(RUBRICS[:1], judged({"e1": 1})) == TierScores(1.0, None, 1.0)
    assert tier_scores((), []) == TierScores(None, None, None)


@pytest.mark.parametrize("scores", [{}, {"e1": 1, "e2": 1, "e3": 1, "h1": 1}])
def test_rucl_eq5_what_was_not_judged_has_no_mean(scores) -> None:
    with pytest.raises(ValueError, match="has no score"):
        tier_scores(RUBRICS, judged(scores))


def run(batch_means: Sequence[float | None], curriculum: CurriculumSettings) -> tuple[list[float], CurriculumState]:
    """λ of each step, and the state after the last."""
    state, weights = CurriculumState(), []
    for mean in batch_means:
        weights.append(hard_weight(state, curriculum))
        state = advance(state, mean, curriculum)
    return weights, state


def test_rucl_eq7_eq8_linear_schedule_by_hand() -> None:
    # The window of three is full of 0.9 or more for the first time after step 6: T_start = 6, λ_7 = 1/4.
    weights, state = run([0.9, 0.95, 0.8, 0.9, 0.9, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1], SHORT)
    assert weights == [0, 0, 0, 0, 0, 0, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert (state.step, state.started_at, state.window) == (11, 6, (0.1, 0.1, 0.1))


def test_rucl_eq7_needs_a_full_window() -> None:
    assert run([1.0, 1.0], SHORT)[1].started_at is None
    assert run([1.0, 1.0, 1.0], SHORT)[1].started_at == 3
    assert run([1.0] * 19, PAPER)[1].started_at is None
    assert run([0.9] * 20, PAPER)[1].started_at == 20
    assert run([0.9] * 19 + [0.899], PAPER)[1].started_at is None


def test_rucl_eq7_a_step_without_scores_proves_nothing() -> None:
    weights, state = run([1.0, None, 1.0, None, 1.0], SHORT)
    assert weights == [0] * 5
    assert (state.started_at, state.window, state.step) == (5, (1.0, 1.0, 1.0), 5)
    # the ramp goes on by steps
    assert run([1.0] * 3 + [None] * 2, SHORT)[0] == [0, 0, 0, 0.25, 0.5]


def test_rucl_eq8_base_and_maximum() -> None:
    curriculum = CurriculumSettings(ramp_steps=2, window=1, lambda_base=0.2, lambda_max=0.8, growth="linear")
    # λ_base counts from the ramp on; before it λ is 0
    assert run([0.5, 0.9, 0.0, 0.0, 0.0], curriculum)[0] == pytest.approx([0, 0, 0.5, 0.8, 0.8])


@pytest.mark.parametrize("growth", GROWTH)
def test_rucl_eq8_growth_is_normalised_and_rises(growth) -> None:
    grown = [GROWTH[growth](step / 20) for step in range(21)]
    assert (grown[0], grown[10], grown[20]) == pytest.approx((0, 0.5, 1), abs=1e-12)
    assert grown == sorted(grown)


def test_rucl_eq8_sigmoid_by_hand() -> None:
    # σ(2.5) = 0.924142, σ(5) = 0.993307: (0.924142 - 0.006693) / (0.993307 - 0.006693)
    assert GROWTH["sigmoid"](0.75) == pytest.approx(0.929897, abs=1e-5)


@pytest.mark.parametrize(
    ("outcome", "easy", "hard", "weight", "expected"),
    [
        # 0.7 * 1 + 0.3 * easy before the curriculum starts
        (1.0, 0.75, 0.25, 0.0, 0.925),
        # 0.7 * 0 + 0.3 * (0.6 * 0.75 + 0.4 * 0.25)
        (0.0, 0.75, 0.25, 0.4, 0.165),
        (1.0, 0.75, 0.25, 1.0, 0.775),
        # Eq. 4: less than right is wrong
        (0.99, 1.0, 1.0, 0.5, 0.3),
        # the weight of a stratum without rubrics is the other's, whatever λ is
        (1.0, None, 0.5, 0.0, 0.85),
        (1.0, None, 0.5, 0.4, 0.85),
        (1.0, None, 0.5, 1.0, 0.85),
        (1.0, 0.5, None, 0.0, 0.85),
        (1.0, 0.5, None, 0.4, 0.85),
        (0.0, 0.5, None, 1.0, 0.15),
        (0.0, None, None, 0.5, 0.0),
        (1.0, None, None, 1.0, 1.0),
        (None, 1.0, 1.0, 0.5, None),
    ],
)
def test_rucl_eq6_eq9_reward(outcome, easy, hard, weight, expected) -> None:
    assert rubric_reward(outcome, TierScores(easy, hard, None), weight, PAPER) == pytest.approx(expected)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_uniform_averaging_has_no_curriculum(weight) -> None:
    """§4.3 (2): the mean over all rubrics, whatever λ is."""
    uniform = replace(PAPER, aggregation="uniform")
    assert rubric_reward(1.0, TierScores(1.0, 0.0, 0.6), weight, uniform) == pytest.approx(0.7 + 0.3 * 0.6)
    assert rubric_reward(0.0, TierScores(None, None, None), weight, uniform) == 0.0


def test_rucl_eq9_a_failed_judge_gives_no_reward() -> None:
    assert rubric_reward(1.0, None, 0.5, PAPER) is None


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1) | st.none(), max_size=40), st.sampled_from(list(GROWTH)), st.floats(0, 1))
def test_rucl_eq8_weight_never_falls_and_stays_in_bounds(means, growth, tau) -> None:
    curriculum = CurriculumSettings(ramp_steps=5, window=3, tau=tau, lambda_max=0.9, growth=growth)
    weights, _ = run(means, curriculum)
    assert weights == sorted(weights)
    assert all(0 <= weight <= 0.9 + 1e-12 for weight in weights)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ramp_steps": 0}, "ramp_steps"),
        ({"window": 0}, "window"),
        ({"alpha": 1.1}, "alpha"),
        ({"tau": float("nan")}, "tau"),
        ({"lambda_max": 1.1}, "lambda"),
        ({"lambda_base": 0.6, "lambda_max": 0.5}, "lambda"),
        ({"lambda_base": -0.1}, "lambda"),
        ({"growth": "sudden"}, "sudden"),
    ],
)
def test_impossible_settings(fields, said) -> None:
    with pytest.raises(ValueError, match=said):
        CurriculumSettings(**{"ramp_steps": 10, **fields})
