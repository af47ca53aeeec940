"""Intervals of shares and of their differences, against printed values."""

import pytest

from groundtrace.schemas.intervals import difference, paired_difference, wilson

# n/(n + z²) and its complement at the ends; the others stand in Newcombe, Stat. Med. 17 (1998), tables I and II.
SHARES = [
    (0, 2, 0.0, 0.6576),
    (2, 2, 0.3424, 1.0),
    (0, 10, 0.0, 0.2775),
    (10, 10, 0.7225, 1.0),
    (5, 10, 0.2366, 0.7634),
    (81, 263, 0.2553, 0.3662),
    (15, 148, 0.0624, 0.1605),
    (0, 20, 0.0, 0.1611),
    (1, 29, 0.0061, 0.1718),
]


@pytest.mark.parametrize(("hits", "n", "low", "high"), SHARES)
def test_wilsons_interval(hits: int, n: int, low: float, high: float) -> None:
    assert wilson(hits, n) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_an_item_may_count_in_part() -> None:
    bounds = [wilson(hits, 10) for hits in (4, 4.5, 5)]
    assert bounds == sorted(bounds) and len(set(bounds)) == 3


@pytest.mark.parametrize(("hits", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_no_interval_of_what_was_not_seen(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="a confidence interval needs"):
        wilson(hits, n)


@pytest.mark.parametrize("n", [1, 7, 2000])
def test_all_and_none_reach_the_ends(n: int) -> None:
    assert wilson(0, n)[0] == 0.0
    assert wilson(n, n)[1] == 1.0


def test_newcombes_intervals_of_differences() -> None:
    """The printed examples of Newcombe, Stat. Med. 17 (1998): 2635–2650, table III, and 873–890, table II."""
    assert paired_difference(36, 12, 2, 0) == (pytest.approx(-0.3404, abs=5e-5), pytest.approx(-0.0569, abs=5e-5))
    assert difference(48, 80, 56, 70) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


@pytest.mark.parametrize("counts", [(0, 0, 0, 5), (5, 0, 0, 0), (0, 5, 0, 0), (3, 0, 0, 3), (1, 1, 1, 1)])
def test_an_interval_of_a_difference_holds_the_difference(counts: tuple[int, int, int, int]) -> None:
    both, first, second, neither = counts
    low, high = paired_difference(*counts)
    assert -1 <= low <= (second - first) / sum(counts) <= high <= 1
    swapped = paired_difference(both, second, first, neither)
    assert swapped == (pytest.approx(-high), pytest.approx(-low))
