"""CodeDance Eq. 1, 2 and 5 by hand, and where the sign of the tool reward changes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.rewards.scorers.tool_calls import (
    Factor,
    ToolCallSettings,
    difficulty_scale,
    group_accuracy,
    normalise_turns,
    tool_reward,
    turn_advantages,
    turn_returns,
)

PAPER = ToolCallSettings()


def threshold(gamma: float, beta: float) -> float:
    """Where d(μ) = 0, solved by hand: tanh(γ(0.5 - μ)) = 2β - 1."""
    return 0.5 - math.atanh(2 * beta - 1) / gamma


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        # (1 + tanh(2)) / 2 - 0.2 = 0.982014 - 0.2
        (0.0, 0.782014),
        (0.5, 0.3),
        # (1 + tanh(-1)) / 2 - 0.2 = 0.119203 - 0.2
        (0.75, -0.080797),
        (1.0, -0.182014),
    ],
)
def test_codedance_eq5_scale_by_hand(accuracy, expected) -> None:
    assert difficulty_scale(accuracy, PAPER) == pytest.approx(expected, abs=1e-6)


def test_codedance_eq5_threshold_of_the_paper() -> None:
    assert threshold(4.0, 0.2) == pytest.approx(0.673, abs=5e-4)
    assert difficulty_scale(threshold(4.0, 0.2), PAPER) == pytest.approx(0, abs=1e-15)


def test_codedance_eq5_without_suppression_no_call_costs() -> None:
    """β = 0, the ablation of §8.2.3."""
    assert min(difficulty_scale(number / 100, ToolCallSettings(beta=0.0)) for number in range(101)) > 0


@settings(max_examples=60)
@given(st.floats(0.5, 20), st.floats(0.05, 0.95), st.floats(0, 1))
def test_codedance_eq5_sign_changes_exactly_at_the_closed_form(gamma, beta, accuracy) -> None:
    scale = difficulty_scale(accuracy, ToolCallSettings(gamma, beta))
    gap = threshold(gamma, beta) - accuracy
    if abs(gap) < 1e-9:
        assert scale == pytest.approx(0, abs=1e-7)
    else:
        assert math.copysign(1, scale) == math.copysign(1, gap)
    assert -beta <= scale <= 1 - beta


@settings(max_examples=60)
@given(st.floats(0, 1), st.floats(0, 1))
def test_codedance_eq5_scale_falls_with_accuracy(a, b) -> None:
    low, high = sorted((a, b))
    assert difficulty_scale(low, PAPER) >= difficulty_scale(high, PAPER)


@pytest.mark.parametrize(
    ("outcome", "succeeded", "calls", "accuracy", "kind", "expected"),
    [
        # c * (n_ok / n_calls) * d, with d(0.5) = 0.3
        (1.0, 2, 4, 0.5, "general", 1.5 * 0.5 * 0.3),
        (0.0, 2, 4, 0.5, "general", 0.5 * 0.5 * 0.3),
        (0.5, 4, 4, 0.5, "general", 0.5 * 0.3),
        (1.0, 1, 1, 0.5, "math", 2.0 * 0.3),
        (0.0, 1, 1, 0.5, "math", 1.0 * 0.3),
        (1.0, 1, 1, 1.0, "general", 1.5 * -0.182014),
        (1.0, 0, 0, 0.5, "general", 0.0),
        (1.0, 0, 3, 0.5, "general", 0.0),
        # where d < 0, calls that fail cost as much as those that succeed
        (1.0, 0, 3, 1.0, "general", 1.5 * -0.182014),
        (1.0, 2, 3, 1.0, "general", 1.5 * -0.182014),
        (0.0, 0, 1, 0.75, "math", 1.0 * -0.080797),
        (1.0, 0, 0, 1.0, "general", 0.0),
        # without calls nothing depends on what is unscored
        (None, 0, 0, None, "general", 0.0),
        (None, 0, 3, 0.5, "general", None),
        (None, 1, 3, 0.5, "general", None),
        (1.0, 1, 3, None, "general", None),
    ],
)
def test_codedance_eq1_tool_reward_by_hand(outcome, succeeded, calls, accuracy, kind, expected) -> None:
    reward = tool_reward(outcome, succeeded, calls, accuracy, PAPER, kind)
    assert reward is None if expected is None else reward == pytest.approx(expected, abs=1e-6)


@settings(max_examples=60)
@given(st.floats(0, 1), st.integers(1, 5), st.integers(0, 5), st.sampled_from([0.0, 1.0]))
def test_codedance_eq1_failing_never_pays(accuracy, calls, failed, outcome) -> None:
    succeeded = max(0, calls - failed)
    fewer = tool_reward(outcome, succeeded, calls, accuracy, PAPER)
    every = tool_reward(outcome, calls, calls, accuracy, PAPER)
    assert fewer is not None and every is not None
    assert fewer <= every or (every < 0 and fewer == every)


def test_codedance_eq1_factors_can_be_set_by_kind() -> None:
    chosen = ToolCallSettings(factors=(Factor("chart", 3.0, 0.0),))
    assert tool_reward(1.0, 1, 1, 0.5, chosen, "chart") == pytest.approx(0.9)
    assert tool_reward(0.0, 1, 1, 0.5, chosen, "chart") == 0.0
    with pytest.raises(ValueError, match="general"):
        tool_reward(1.0, 1, 1, 0.5, chosen)


@pytest.mark.parametrize(("succeeded", "calls"), [(-1, 2), (3, 2), (0, -1)])
def test_codedance_eq1_impossible_counts(succeeded, calls) -> None:
    with pytest.raises(ValueError, match="calls"):
        tool_reward(1.0, succeeded, calls, 0.5, PAPER)


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, math.nan])
def test_codedance_eq5_impossible_accuracy(accuracy) -> None:
    with pytest.raises(ValueError, match="accuracy"):
        difficulty_scale(accuracy, PAPER)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [([1.0, 0.0, 1.0, 0.0], 0.5), ([1.0, None, 0.9], 0.5), ([0.0], 0.0), ([None, None], None), ([], None)],
)
def test_codedance_accuracy_of_a_group_is_over_the_scored(outcomes, expected) -> None:
    assert group_accuracy(outcomes) == expected


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ([], ()),
        ([False, False], (0.0, 0.0)),
        ([True], (-0.5,)),
        # from behind: -0.5, 0 - 0.1, -0.5 - 0.02
        ([True, False, True], (-0.52, -0.1, -0.5)),
        ([True, True], (-0.6, -0.5)),
    ],
)
def test_codedance_eq2_returns_by_hand(failed, expected) -> None:
    assert turn_returns(failed, PAPER) == pytest.approx(expected)


def test_codedance_eq2_penalty_and_discount_can_be_set() -> None:
    chosen = ToolCallSettings(failure_reward=-1.0, discount=0.5)
    assert turn_returns([True, False, True], chosen) == pytest.approx((-1.25, -0.5, -1.0))


def test_codedance_eq2_normalised_over_the_batch_by_hand() -> None:
    # mean -0.25; deviations -0.25, 0.25, 0.25, -0.25; standard deviation 0.25
    both = [[True] * 2] * 2
    assert normalise_turns([[-0.5, 0.0], [0.0, -0.5]], both) == (pytest.approx((-1, 1)), pytest.approx((1, -1)))
    # mean -0.2; squares 0.04 x 4 and 0.64; standard deviation 0.4
    assert normalise_turns([[0.0], [0.0, 0.0, 0.0], [-1.0]], [[True], [True] * 3, [True]]) == (
        pytest.approx((0.5,)),
        pytest.approx((0.5, 0.5, 0.5)),
        pytest.approx((-2,)),
    )
    # a final turn has no code: it is 0, and not among those with mean -0.25 and standard deviation 0.25
    assert normalise_turns([[-0.5, 0.0], [0.0, 0.0], [0.0]], [[True, False], [True, False], [False]]) == (
        pytest.approx((-1, 0)),
        pytest.approx((1, 0)),
        (0.0,),
    )


@pytest.mark.parametrize("value", [0.0, -0.5, 0.1, 1e300])
def test_codedance_eq2_a_flat_batch_is_exactly_0(value) -> None:
    executed = [[True] * 3, [], [True] * 7]
    assert normalise_turns([[value] * 3, [], [value] * 7], executed) == ((0.0,) * 3, (), (0.0,) * 7)
    assert normalise_turns([], []) == ()


@settings(max_examples=60)
@given(st.lists(st.lists(st.booleans(), max_size=6), max_size=8))
def test_codedance_eq2_a_batch_has_mean_0_and_deviation_1_or_is_flat(failed) -> None:
    returns = [turn_returns(each, PAPER) for each in failed]
    normalised = normalise_turns(returns, [[True] * len(each) for each in failed])
    assert [len(each) for each in normalised] == [len(each) for each in returns]
    pooled = [value for each in normalised for value in each]
    if len({value for each in returns for value in each}) < 2:
        assert all(value == 0 for value in pooled)
    else:
        assert sum(pooled) / len(pooled) == pytest.approx(0, abs=1e-9)
        assert sum(value * value for value in pooled) / len(pooled) == pytest.approx(1)


def test_codedance_eq2_advantages_by_hand() -> None:
    combined = turn_advantages([1.0, -0.5], [[0.5, -2.0], []], PAPER)
    assert combined == (pytest.approx((1.1, 0.6)), ())
    with pytest.raises(ValueError, match=r"shorter|longer"):
        turn_advantages([1.0], [[0.5], [0.5]], PAPER)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": math.inf}, "gamma"),
        ({"beta": -0.1}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"factors": ()}, "factors"),
        ({"factors": (Factor("a", 1.0, 0.0), Factor("a", 2.0, 0.0))}, "twice"),
        ({"failure_reward": 0.5}, "failure_reward"),
        ({"discount": 1.1}, "discount"),
        ({"turn_weight": -1.0}, "turn_weight"),
        ({"turn_weight": math.nan}, "turn_weight"),
    ],
)
def test_impossible_settings(fields, said) -> None:
    with pytest.raises(ValueError, match=said):
        ToolCallSettings(**fields)


@pytest.mark.parametrize(("bases", "said"), [((-1.0, 0.0), "right must be"), ((1.0, math.nan), "wrong must be")])
def test_impossible_factors(bases, said) -> None:
    with pytest.raises(ValueError, match=said):
        Factor("a", *bases)
