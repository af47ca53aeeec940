"""Wilson's interval of a share, against printed values."""

import pytest

from groundtrace.schemas.intervals import wilson

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


@pytest.mark.parametrize(("hits", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_no_interval_of_what_was_not_seen(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="a confidence interval needs"):
        wilson(hits, n)


@pytest.mark.parametrize("n", [1, 7, 2000])
def test_all_and_none_reach_the_ends(n: int) -> None:
    assert wilson(0, n)[0] == 0.0
    assert wilson(n, n)[1] == 1.0
