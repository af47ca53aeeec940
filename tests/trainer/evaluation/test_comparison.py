"""Means, differences and their intervals over media groups."""

import json
from pathlib import Path

import numpy as np
import pytest

from groundtrace.schemas.intervals import paired_difference, wilson
from groundtrace.trainer.evaluation.comparison import Estimate, difference, estimate, estimate_text, read_answers

GROUPS = {f"q{n}": f"g{n // 2}" for n in range(40)}


def test_an_accuracy_has_wilsons_interval_over_questions() -> None:
    figures = {f"q{n}": (1.0 if n < 10 else 0.5 if n < 14 else 0.0) for n in range(40)}
    found = estimate(figures, GROUPS, is_share=True)
    assert found is not None
    assert (found.value, found.questions) == (0.3, 40)
    assert (found.low, found.high) == wilson(12, 40)


@pytest.mark.parametrize("value", [0.0, 1 / 3, 1.0])
def test_equal_answers(value: float) -> None:
    found = estimate(dict.fromkeys(GROUPS, value), GROUPS, is_share=True)
    assert found is not None and found.low is not None and found.high is not None
    assert found.low <= found.value <= found.high


def test_the_difference_is_paired() -> None:
    first = {f"q{n}": float(n % 2) for n in range(40)}
    second = {key: min(1.0, value + 0.5) for key, value in first.items()}
    found = difference(first, second, GROUPS, is_share=False)
    assert found is not None and found.value == pytest.approx(0.25)
    assert (found.low, found.high) == (None, None), "each group has one of both, so all draws are the same"
    found = difference(first, second, GROUPS, is_share=True)
    assert found is not None and (found.low, found.high) == paired_difference(10, 0, 5, 5)


@pytest.mark.parametrize(
    ("of_first", "of_second", "counts"), [(0.0, 0.0, (0, 0, 0, 8)), (1.0, 1.0, (8, 0, 0, 0)), (1.0, 0.0, (0, 8, 0, 0))]
)
def test_equal_differences_of_few_groups_have_a_wide_interval(
    of_first: float, of_second: float, counts: tuple[int, int, int, int]
) -> None:
    keys = [f"q{n}" for n in range(16)]  # in 8 media groups
    found = difference(dict.fromkeys(keys, of_first), dict.fromkeys(keys, of_second), GROUPS, is_share=True)
    low, high = paired_difference(*counts)
    assert found == Estimate(of_second - of_first, low, high, 16) and high - low > 0.3


def test_only_common_questions_count() -> None:
    found = difference({"q0": 1.0, "q1": 0.0}, {"q1": 1.0, "q2": 0.0}, GROUPS, is_share=False)
    assert found is not None and (found.value, found.questions) == (1.0, 1)
    assert (found.low, found.high) == (None, None), "one group has no interval"
    assert difference({"q0": 1.0}, {"q1": 1.0}, GROUPS, is_share=True) is None
    assert estimate({}, GROUPS, is_share=True) is None


def test_the_interval_covers_the_truth_when_groups_agree() -> None:
    """The answers of a group are equal, so that an interval over single questions would be too narrow."""
    generator, inside, rounds = np.random.default_rng(3), 0, 200
    groups = {f"{group}-{n}": str(group) for group in range(40) for n in range(5)}
    for _ in range(rounds):
        means = generator.normal(0.2, 0.5, 40)
        figures = {key: float(means[int(group)]) for key, group in groups.items()}
        found = difference(dict.fromkeys(figures, 0.0), figures, groups, is_share=False)
        assert found is not None and found.low is not None and found.high is not None
        inside += found.low <= 0.2 <= found.high
    assert 0.89 <= inside / rounds <= 0.99


def line(name: str, outcome: float | None, **more: object) -> str:
    verdicts = {"outcome": {"value": outcome, "reason": ""}}
    own = {"id": name, "gold": "3", "text": f"{name} {outcome}", "reward": 0.5, "verdicts": verdicts}
    return json.dumps(own | more) + "\n"


def test_answers_are_read_by_question(tmp_path: Path) -> None:
    lines = [
        line("a", 1.0, point_f1=0.5, media_group="g"),
        line("a", 0.0, point_f1=1.0, media_group="g", reward=0.25),
        line("b", None, reward=None),
        line("b", 1.0, gold="4"),
    ]
    (tmp_path / "r.jsonl").write_text("".join(lines), "utf-8")
    found = read_answers(tmp_path / "r.jsonl")
    assert found.figures == {
        "accuracy": {"a": 0.5, "b": 1.0},
        "point_f1": {"a": 0.75},
        "reward": {"a": 0.375, "b": 0.5},
    }
    assert found.first == {"a": (1.0, "a 1.0", 0.5), "b": (None, "b None", None)}
    assert found.golds == {"a": {"3"}, "b": {"3", "4"}}
    assert found.groups == {"a": "g"}


def test_answers_without_crops_are_left_out_if_there_are_answers_with_crops(tmp_path: Path) -> None:
    lines = [line("a", 0.0), line("a", 1.0, crops=2), line("b", 0.0), line("b", 1.0, crops=0)]
    (tmp_path / "r.jsonl").write_text("".join(lines), "utf-8")
    assert read_answers(tmp_path / "r.jsonl").figures["accuracy"] == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(
    ("found", "is_difference", "text"),
    [
        (None, False, "–"),
        (Estimate(0.5, 0.25, 0.75, 8), False, "0.500 [0.250, 0.750]"),
        (Estimate(-0.1, -0.2, 0.01, 8), True, "-0.100 [-0.200, +0.010]"),
        (Estimate(0.1, None, None, 1), True, "+0.100"),
    ],
)
def test_estimates_as_text(found: Estimate | None, is_difference: bool, text: str) -> None:
    assert estimate_text(found, is_difference) == text
