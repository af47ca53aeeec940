"""Results that are kept, and the tables and the figure that are made of them again."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning import reinforce_report
from benchmarks.learning.held import COUNTED
from benchmarks.learning.kept import Kept, curves_of, keep, read_kept
from benchmarks.learning.reinforce_report import GRPO, NEVER, START
from benchmarks.learning.training import EXAMS

SCENES = 40
RIGHT = {NEVER: 1, START: 1, GRPO: 2}


def counts(right: int) -> np.ndarray:
    """Counts of scenes with three answers each, of which so many are right."""
    row = dict.fromkeys(COUNTED, 0) | {"answers": 3, "right": right, "boxes": 2, "points": 2, "boxes found": right}
    return np.tile(np.array([row[name] for name in COUNTED]), (SCENES, 1))


def kept(name: str, seed: int) -> Kept:
    curves = (
        {
            "reward": [0.1 * step for step in range(12)],
            "outcome": [0.5] * 12,
            "spatial": [None, *[0.25] * 11],
            "entropy": [1.0] * 12,
        }
        if name == GRPO
        else {}
    )
    exams = {how: counts(RIGHT[name]) for how in EXAMS}
    return Kept(name, seed, "abc", ("grpo.steps=12",), 60, exams, curves)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, seeds in ((NEVER, (0,)), (START, (0, 1)), (GRPO, (0, 1))):
        for seed in seeds:
            keep(tmp_path, kept(name, seed))
    return tmp_path


def test_a_result_is_read_as_it_was_kept(folder: Path) -> None:
    assert len(read_kept(folder)) == 5
    found = next(each for each in read_kept(folder) if each.name == GRPO and each.seed == 1)
    expected = kept(GRPO, 1)
    assert all(np.array_equal(found.exams[how], expected.exams[how]) for how in expected.exams)
    assert (found.curves, found.settings, found.file) == (expected.curves, expected.settings, "grpo-seed-1.json")
    keep(folder, kept(GRPO, 1))
    assert len(read_kept(folder)) == 5


def test_curves_are_the_metrics_that_a_training_has(tmp_path: Path) -> None:
    lines = [{"step": 0, "reward": 0.123456, "lr": 1.0}, {"step": 1, "reward": None}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert curves_of(tmp_path / "metrics.jsonl") == {"reward": [0.1235, None]}


@pytest.mark.slow
def test_the_tables_and_the_figure_are_made_of_the_results(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reinforce_report, "TUNING", folder / "tuning")
    keep(folder / "tuning", kept(GRPO, 0))
    drawn = []
    for name in ("one.svg", "two.svg"):
        assert reinforce_report.main([str(folder), "--figure", str(folder / name)]) == 0
        drawn.append((folder / name).read_text("utf-8"))
    assert drawn[0] == drawn[1] and "never looks" in drawn[0] and "0.667" in drawn[0]
    printed = capsys.readouterr().out
    assert f"| {GRPO} − {START} | 0 1 | +0.333 [+0.333, +0.333]" in printed
    assert f"| {GRPO} − {NEVER} | 0 1 | +0.333 [+0.333, +0.333]" in printed
    assert f"| {GRPO} | 1 | 0.667 | 0.667 | 1.000 | 1.000 | 1 |" in printed
    assert f"| {GRPO} | 0.550 → 0.550 | 0.500 → 0.500 | 0.250 → 0.250 |" in printed and "| `grpo.steps=12` |" in printed
    assert reinforce_report.headline(folder)["ratio"] == pytest.approx(1 / 3)


def test_what_is_missing_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path, kept(START, 0))
    reinforce_report.print_report(tmp_path)
    assert "−" not in capsys.readouterr().out
    assert reinforce_report.headline(tmp_path)["ratio"] is None
