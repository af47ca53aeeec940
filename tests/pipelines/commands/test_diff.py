import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.pipelines.commands.diff import diff_runs

SUMMARY: dict[str, Any] = {
    "recipe": "grounded_cot",
    "input": "/data/questions",
    "counts": {"input": 10, "sft": 4, "rl": 2, "rejected": {"difficulty": {"too_easy": 3}, "verify": {"malformed": 1}}},
    "stages": {"ingest": {"in": 10, "kept": 10}, "difficulty": {"in": 10, "kept": 7}, "verify": {"in": 5, "kept": 4}},
    "ledger": {"teacher": {"stages": {"trace": {"calls": 5, "cost_usd": 0.25}}}},
    "roles": {"teacher": "big-model"},
    "prompts": {},
    "self_judged": False,
    "config_sha256": "c0ffee",
    "revision": "abc123",
    "finished": "2026-01-02T03:04:05+00:00",
    "wall_s": 1.5,
}


def make_run(folder: Path, config: str = "", **changes: Any) -> Path:
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(SUMMARY | changes), "utf-8")
    (folder / "config.toml").write_text(config, "utf-8")
    return folder


def rows(text: str, title: str) -> list[list[str]]:
    return [line.split() for line in text.split(f"\n{title}\n", 1)[1].split("\n\n")[0].splitlines()[1:]]


def test_two_runs_stand_side_by_side(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", "[attempt]\nk = 4\n[dedup]\nnear = true\n")
    counts = {"input": 20, "sft": 9, "rl": 2, "rejected": {"difficulty": {"too_easy": 8, "too_hard": 1}}}
    ledger = {"teacher": {"stages": {"trace": {"calls": 9, "cost_usd": 1.0000004}}}, "judge": {"stages": {}}}
    second = make_run(
        tmp_path / "b", "[attempt]\nk = 8\n[dedup]\nnear = true\n[split]\nseed = 1\n", counts=counts, ledger=ledger
    )
    text = diff_runs(first, second)
    assert rows(text, "settings that differ") == [["attempt.k", "4", "8"], ["split.seed", "–", "1"]]
    assert rows(text, "rows") == [
        ["input", "10", "20", "10"],
        ["sft", "4", "9", "5", "40.0", "%", "45.0", "%"],
        ["rl", "2", "2", "0", "20.0", "%", "10.0", "%"],
        ["rejected", "4", "9", "5", "40.0", "%", "45.0", "%"],
    ]
    assert ["difficulty", "10", "10", "7", "7", "3", "9"] in rows(text, "funnel")
    assert rows(text, "rejections") == [
        ["difficulty", "too_easy", "3", "8", "5"],
        ["verify", "malformed", "1", "0", "-1"],
        ["difficulty", "too_hard", "0", "1", "1"],
    ]
    teacher = next(row for row in rows(text, "calls and cost by role") if row[0] == "teacher")
    assert teacher == ["teacher", "big-model", "big-model", "5", "9", "0.25", "1.0"]


def test_equal_runs_differ_in_no_setting(tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "a", "x = 1"), make_run(tmp_path / "b", "x = 1")
    text = diff_runs(first, second)
    assert "settings that differ" not in text
    assert {row[-1] for row in rows(text, "rejections")} == {"0"}


def test_what_is_no_run_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", str(make_run(tmp_path / "a")), str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == (
        f"beam: there is no folder {tmp_path / 'none'}: give the folder that `beam run` had as --output\n"
    )
