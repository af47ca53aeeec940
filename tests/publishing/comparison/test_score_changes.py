"""Scores of two runs: means, medians, and paired differences with their intervals."""

import random

import pytest

from groundtrace.publishing.comparison.compare import opened_pair
from groundtrace.publishing.comparison.score_changes import (
    BEST,
    MAX_RESAMPLED,
    TRACE_CHARS,
    mean_interval,
    other_traces,
    score_section,
)

from .conftest import MakeRun, out, sft


def test_scores_are_compared_on_the_ids_of_both_runs(make_run: MakeRun) -> None:
    first = {"sft": [sft("1", 0.5, "ab"), sft("2", 0.7, "abcd"), sft("3", 0.9)], "rejected": [out("4", pass_rate=1.0)]}
    second = {
        "sft": [sft("1", 0.75, "abcd", pass_rate=0.5), sft("2", 0.95, "abcd")],
        "rejected": [
            out("3", traces=[{"text": "x", "score": 0.2}, {"text": "y", "score": 0.4}]),
            out("4", pass_rate=0.5, traces=[{"text": "x", "score": None}]),
        ],
    }
    with opened_pair(make_run("a", first), make_run("b", second)) as (tables, _, _):
        rows = {row[0]: row[1:] for row in score_section(tables).rows}
        assert other_traces(tables) == (2, 1)
    assert rows["sft: final"] == (3, 2, "0.7", "0.85", "0.7", "0.85", 2, "+0.25")
    assert rows[f"sft: {TRACE_CHARS}"] == (3, 2, "3", "4", "3", "4", 2, "+1")
    assert rows[BEST][:2] == (3, 3)
    assert rows[BEST][-2:] == (3, "0")
    assert rows["pass rate of the policy"] == (1, 2, "1", "0.5", "1", "0.5", 1, "−0.5")


def test_verdicts_count_once_beside_the_columns_of_scores(make_run: MakeRun) -> None:
    verdicts = [
        {"name": "final", "value": 0.1},
        {"name": "it's new", "value": 0.5},
        {"name": "counting", "value": None},
    ]
    rows = {"sft": [sft(str(number), verdicts=verdicts) for number in range(6)]}
    with opened_pair(make_run("a", rows), make_run("b", rows)) as (tables, _, _):
        found = {row[0]: row[1:] for row in score_section(tables).rows}
    assert set(found) == {"sft: final", "sft: it's new", f"sft: {TRACE_CHARS}", BEST}
    assert found["sft: final"][2] == "1"
    assert found["sft: it's new"][-1] == "0, all equal"


def test_scores_that_only_one_run_has(make_run: MakeRun) -> None:
    with opened_pair(make_run("a", {"sft": [sft("1")]}), make_run("b", {"rl": [{"id": "1"}]})) as (tables, _, _):
        rows = {row[0]: row[1:] for row in score_section(tables).rows}
        assert other_traces(tables) == (0, 0)
    assert rows["sft: final"] == (1, 0, "1", "–", "1", "–", 0, "–")


@pytest.mark.parametrize("n", [40, MAX_RESAMPLED + 1])
def test_the_interval_of_a_mean_difference(n: int) -> None:
    """It is the normal one within a tenth of its width, by bootstrap as by formula."""
    values = [random.Random(number).gauss(0.2, 1) for number in range(n)]
    mean = sum(values) / n
    half = 1.96 * (sum((value - mean) ** 2 for value in values) / (n - 1) / n) ** 0.5
    found = mean_interval(values)
    assert found == (pytest.approx(mean - half, abs=0.2 * half), pytest.approx(mean + half, abs=0.2 * half))
    assert mean_interval(values) == found


def test_few_pairs_have_no_interval() -> None:
    assert mean_interval([1.0] * 4) is None
