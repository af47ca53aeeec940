"""Preference pairs: which trace is rejected, and when there is none."""

from pathlib import Path

import pytest

from groundtrace.publishing.exports.dpo import worse_traces
from tests.publishing.exports.made_runs import exported, lines, make_run, other, sft, table, trace

KEPT = trace((100, 50))
SCORES = {"outcome": 1.0, "final": 0.9}


@pytest.mark.parametrize(
    ("others", "chosen"),
    [
        ([], []),
        ([other(KEPT, 0.0, 0.0)], []),
        ([other("a", 1.0, 0.9), other("b", 1.0, None), other("c", None, None), other("", 0.0, 0.0)], []),
        ([other("a", 1.0, 0.8), other("b", 0.0, 0.5)], ["b", "a"]),
        ([other("a", 0.0, 0.5), other("b", 0.0, 0.2), other("c", 0.0, 0.2)], ["b", "c", "a"]),
        ([other("a", 1.0, 0.8), other("b", 1.0, 0.1)], ["b", "a"]),
        ([other("a", 0.0, 0.5), other("b", 0.0, None)], ["b", "a"]),
        ([other("a", None, 0.1)], ["a"]),
    ],
)
def test_the_rejected_trace(others: list, chosen: list[str]) -> None:
    assert [trace["text"] for _, trace in worse_traces(others, KEPT, SCORES)] == chosen


@pytest.mark.parametrize("scores", [{}, {"outcome": None, "final": None}])
def test_without_scores_nothing_is_known_to_be_worse(scores: dict) -> None:
    assert worse_traces([other("a", 0.0, 0.0)], KEPT, scores) == []


def test_pairs(tmp_path: Path) -> None:
    wrong, cheap = other(trace((10, 10), answer="7"), 0.0, 0.0), other(trace((20, 20)), 1.0, 0.5)
    unwritable = other(trace((900, 10), answer="7"), 0.0, 0.0)
    rows = [
        sft("wrong", other_traces=[cheap, wrong]),
        sft("cheap", other_traces=[cheap]),
        sft("second", other_traces=[unwritable, cheap]),
        sft("alone", other_traces=[]),
        sft("null", other_traces=None),
        sft("alike", other_traces=[other(KEPT)]),
        sft("outside", other_traces=[unwritable]),
    ]
    run = make_run(tmp_path / "run", rows, other_traces=True)
    exported(run, "dpo", tmp_path / "out")
    found = {row["id"]: row for row in table(tmp_path / "out/dpo.parquet")}
    assert {name: row["rejected_for"] for name, row in found.items()} == {
        "wrong": "wrong_answer",
        "cheap": "lower_score",
        "second": "lower_score",
    }
    left = {each["id"]: each["reason"] for each in lines(tmp_path / "out/left_out.jsonl")}
    assert left == {
        "alone": "no_other_trace",
        "null": "no_other_trace",
        "alike": "no_worse_trace",
        "outside": "outside_image",
    }
    wrong_row = found["wrong"]
    assert [part["type"] for part in wrong_row["prompt"][0]["content"]] == ["image", "text"]
    assert wrong_row["chosen"][0]["content"][0]["text"] == trace((500, 500))
    assert wrong_row["rejected"][0]["content"][0]["text"] == trace((50, 100), answer="7")
    assert (wrong_row["chosen_score"], wrong_row["rejected_score"]) == (1.0, 0.0)
