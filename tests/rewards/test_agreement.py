"""Cohen's kappa by hand, what has none, and its invariants."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.rewards.agreement import Agreement, agreement


def table(both_yes: int, yes_no: int, no_yes: int, both_no: int) -> tuple[list[float], list[float]]:
    """The labels of two judges with these counts."""
    pairs = [(1.0, 1.0)] * both_yes + [(1.0, 0.0)] * yes_no + [(0.0, 1.0)] * no_yes + [(0.0, 0.0)] * both_no
    return [a for a, _ in pairs], [b for _, b in pairs]


@pytest.mark.parametrize(
    ("counts", "observed", "kappa"),
    [
        # p_o = 35/50; p_e = (25·30 + 25·20)/2500 = 0.5; κ = 0.2/0.5
        ((20, 5, 10, 15), 0.7, 0.4),
        # p_o = 60/100; p_e = (60·70 + 40·30)/10000 = 0.54; κ = 0.06/0.46
        ((45, 15, 25, 15), 0.6, 0.06 / 0.46),
        # p_o = 60/100; p_e = (60·30 + 40·70)/10000 = 0.46; κ = 0.14/0.54
        ((25, 35, 5, 35), 0.6, 0.14 / 0.54),
        ((3, 0, 0, 3), 1.0, 1.0),
        ((0, 3, 3, 0), 0.0, -1.0),
        # independent judges: p_o = p_e = 0.5
        ((1, 1, 1, 1), 0.5, 0.0),
        # one judge constant: p_o = p_e
        ((3, 2, 0, 0), 0.6, 0.0),
        # both constant, on different labels: p_o = p_e = 0
        ((0, 4, 0, 0), 0.0, 0.0),
    ],
)
def test_cohen_1960_eq1(counts, observed, kappa) -> None:
    found = agreement(*table(*counts))
    assert (found.n, found.left_out) == (sum(counts), 0)
    assert found.observed == pytest.approx(observed)
    assert found.kappa == pytest.approx(kappa)


def test_cohen_1960_eq1_with_three_labels() -> None:
    """p_o = 4/5; p_e = (2·2 + 2·1 + 1·2)/25 = 8/25; κ = (20 - 8)/(25 - 8)."""
    found = agreement(["a", "a", "b", "b", "c"], ["a", "a", "b", "c", "c"])
    assert found.observed == pytest.approx(4 / 5)
    assert found.kappa == pytest.approx(12 / 17)


@pytest.mark.parametrize("label", [0.0, 1.0, 0.7])
def test_one_and_the_same_constant_label_has_no_kappa(label) -> None:
    assert agreement([label] * 5, [label] * 5) == Agreement(5, 0, 1.0, None)


def test_unscored_pairs_are_left_out_and_counted() -> None:
    first = [1.0, None, 0.0, 1.0, None, 0.0]
    second = [1.0, 1.0, None, 0.0, None, 0.0]
    # left: (1, 1), (1, 0), (0, 0): p_o = 2/3; p_e = (2·1 + 1·2)/9 = 4/9; κ = (6 - 4)/(9 - 4)
    assert agreement(first, second) == Agreement(3, 3, pytest.approx(2 / 3), pytest.approx(0.4))


@pytest.mark.parametrize(("first", "second", "left_out"), [([], [], 0), ([None, 1.0], [0.0, None], 2)])
def test_without_pairs_there_is_nothing_to_say(first, second, left_out) -> None:
    assert agreement(first, second) == Agreement(0, left_out, None, None)


def test_lists_of_different_length_are_a_defect() -> None:
    with pytest.raises(ValueError, match="shorter"):
        agreement([1.0, 0.0], [1.0])


LABELS = st.sampled_from([0.0, 0.3, 0.7, 1.0, None])


@settings(max_examples=150)
@given(st.lists(st.tuples(LABELS, LABELS), max_size=30))
def test_kappa_is_symmetric_bounded_and_blind_to_order(pairs) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found = agreement(first, second)
    assert found == agreement(second, first)
    assert found == agreement(first[::-1], second[::-1])
    assert found.n + found.left_out == len(pairs)
    if found.kappa is not None and found.observed is not None:
        assert -1 <= found.kappa <= 1
        assert found.kappa <= found.observed
        assert (found.kappa == 1) == (found.observed == 1)
