"""What pointing earns, by hand and by its laws."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from groundtrace.rewards.aggregate import GateSettings, gated
from groundtrace.rewards.pointing_score import PointCounts, PointingSettings, pointing_score
from groundtrace.schemas.records import Verdict

BY_HAND = [
    # right, wrong, number, value
    (0, 0, None, 0.0),
    (0, 0, 4, 0.0),
    (0, 1, 4, -0.05),
    (0, 3, None, -0.075),
    (1, 0, None, 1.0),
    (1, 1, None, 0.5),
    (1, 0, 4, 0.625),
    (2, 0, 4, 0.75),
    (4, 0, 4, 1.0),
    (4, 4, 4, 0.5),
    (1, 1, 2, 0.375),
]


@pytest.mark.parametrize(("right", "wrong", "number", "value"), BY_HAND)
def test_by_hand(right, wrong, number, value) -> None:
    assert pointing_score(PointCounts(right, wrong, number)) == pytest.approx(value)


@pytest.mark.parametrize(("right", "wrong", "number", "value"), BY_HAND)
def test_argos_eq3_is_all_of_it_where_one_target_earns_the_whole(right, wrong, number, value) -> None:
    eq3 = right / (right + wrong) if right else 0.0
    assert pointing_score(PointCounts(right, wrong, number), PointingSettings(1.0, 0.0)) == pytest.approx(eq3)


def test_targets_beyond_their_number_are_wrong() -> None:
    assert PointCounts.within(5, 1, 3) == PointCounts(3, 3, 3)
    assert PointCounts.within(2, 1, 3) == PointCounts(2, 1, 3)
    assert PointCounts.within(5, 1, None) == PointCounts(5, 1, None)


settings_ = st.builds(PointingSettings, st.floats(0, 1), st.floats(0.01, 1))
counts = st.integers(0, 12)
numbers = st.none() | st.integers(1, 12)
others = st.sampled_from([(), (Verdict("reasoning", 1.0, ""),), (Verdict("reasoning", 0.3, ""),)])


def reward(right: int, wrong: int, number: int | None, pointing: PointingSettings, others=()) -> float:
    """Eq. 9 of a right answer of valid form."""
    spatial = Verdict("spatial", pointing_score(PointCounts.within(right, wrong, number), pointing), "")
    value = gated((Verdict("outcome", 1.0, ""), Verdict("format", 1.0, ""), spatial, *others), GateSettings())
    assert value is not None
    return value


@given(counts, counts, numbers, settings_, others)
def test_a_right_point_never_lowers_the_reward(right, wrong, number, pointing, others) -> None:
    assume(number is None or right < number)
    given_ = (wrong, number, pointing, others)
    assert reward(right + 1, *given_) >= reward(right, *given_) - 1e-12


@given(st.integers(1, 12), counts, numbers, settings_, others)
def test_without_points_it_is_below_every_response_that_points_at_a_target(
    right, wrong, number, pointing, others
) -> None:
    assume(pointing.first_share > 0.01)
    assert reward(0, 0, number, pointing, others) < reward(right, wrong, number, pointing, others)


@given(counts, counts, numbers, settings_, others)
def test_a_wrong_point_lowers_the_reward(right, wrong, number, pointing, others) -> None:
    assume(pointing.first_share > 0.01)
    given_ = (number, pointing, others)
    assert reward(right, wrong + 1, *given_) < reward(right, wrong, *given_)


@given(st.integers(1, 12), settings_, others)
def test_all_targets_and_nothing_wrong_earn_1(number, pointing, others) -> None:
    assert pointing_score(PointCounts(number, 0, number), pointing) == pytest.approx(1.0)


@given(counts, counts, numbers, settings_)
def test_its_bounds(right, wrong, number, pointing) -> None:
    value = pointing_score(PointCounts.within(right, wrong, number), pointing)
    assert -pointing.wrong_cost <= value <= 1.0
