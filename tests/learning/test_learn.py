"""The experiment's models: which are trained, and when a result is used again."""

import pytest

from benchmarks.learning.learn import COMPARED, PAIR, SHARE, models_of
from benchmarks.learning.pool import ARMS
from benchmarks.learning.report import Model


@pytest.mark.parametrize(
    ("seeds", "shares", "full", "number"),
    [
        ((0,), (SHARE,), False, len(PAIR)),
        ((0, 0), (SHARE, SHARE), False, len(PAIR)),
        ((0, 1, 2), (SHARE, 0.2, 0.6), True, 3 * (len(ARMS) + 2 * len(COMPARED))),
    ],
)
def test_the_models_are_the_arms_of_each_seed_and_share(
    seeds: tuple[int, ...], shares: tuple[float, ...], full: bool, number: int
) -> None:
    found = list(models_of(seeds, shares, full))
    assert len(found) == len(set(found)) == number
    assert Model(PAIR[0], SHARE, 0) in found
    assert all(model.name in COMPARED for model in found if model.share != SHARE)
