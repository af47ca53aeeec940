from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.passk import pass_at_k, pass_rate


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (4, 0, 1, 0.0),
        (4, 4, 1, 1.0),
        (4, 2, 1, 0.5),
        (4, 2, 2, 5 / 6),
        (4, 1, 4, 1.0),
        (10, 3, 5, 1 - 21 / 252),
        (4, 3, 2, 1.0),
    ],
)
def test_pass_at_k(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(expected)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_agrees_with_the_binomials(counts: tuple[int, int, int]) -> None:
    n, c, k = counts
    assert pass_at_k(n, c, k) == pytest.approx(1 - comb(n - c, k) / comb(n, k), abs=1e-9)
    assert 0.0 <= pass_at_k(n, c, k) <= 1.0
    assert pass_at_k(n, c, 1) == pytest.approx(pass_rate(c, n))


def test_stable_for_many_attempts() -> None:
    assert pass_at_k(100_000, 1, 50_000) == pytest.approx(0.5)


@pytest.mark.parametrize("counts", [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0), (0, 0, 1)])
def test_impossible_counts(counts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"pass@k needs"):
        pass_at_k(*counts)


@pytest.mark.parametrize(("c", "k", "expected"), [(0, 4, 0.0), (1, 4, 0.25), (4, 4, 1.0)])
def test_pass_rate(c: int, k: int, expected: float) -> None:
    assert pass_rate(c, k) == expected


@pytest.mark.parametrize(("c", "k"), [(0, 0), (1, 0), (5, 4), (-1, 4)])
def test_no_rate_of_nothing(c: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass rate needs"):
        pass_rate(c, k)
