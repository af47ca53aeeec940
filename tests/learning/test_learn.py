"""The experiment's chains: what is trained, where it stands, and that sizes are not mixed."""

from pathlib import Path

import pytest

from benchmarks.learning.learn import SHARE, STEPS, chains, other_experiment
from benchmarks.learning.pool import ARMS
from benchmarks.learning.report import CONTROL, EARLY, GRPO
from benchmarks.learning.training import Model, Trainings

SIZES = {"scenes": 2, "rows": 3, "steps": 4, "overrides": []}


def test_a_folder_goes_on_with_the_sizes_that_it_was_begun_with(tmp_path: Path) -> None:
    assert other_experiment(tmp_path, SIZES) is None and other_experiment(tmp_path, SIZES) is None
    said = other_experiment(tmp_path, SIZES | {"rows": 5})
    assert said is not None and said.endswith("was begun with rows 3, not 5: choose another --output")


@pytest.mark.parametrize(
    ("seeds", "shares", "full", "number"), [((0,), (SHARE,), False, 4), ((0, 1, 2), (SHARE, 0.2, 0.6), True, 36)]
)
def test_the_chains_are_the_arms_and_the_reinforced(
    tmp_path: Path, seeds: tuple[int, ...], shares: tuple[float, ...], full: bool, number: int
) -> None:
    found = list(chains(Trainings(tmp_path, [], 1, ()), STEPS, seeds, shares, full))
    assert len(found) == number == len(seeds) * (len(ARMS if full else (0, 0, 0)) + 3 * (len(shares) - 1) + 1)


def test_folders_are_distinct() -> None:
    names = (*ARMS, EARLY, GRPO, CONTROL)
    assert len({Model(name, share, seed).folder for name in names for share in (0.2, 0.4) for seed in (0, 1)}) == 32
