"""The whole DAG of executable reasoning on the bundled sample: conservation, determinism, and rows whose code looks."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from groundtrace.grading.responses.operations import OPERATIONS
from groundtrace.grading.responses.turns import as_tool_calls, read_trajectory
from groundtrace.pipelines.commands import cli
from groundtrace.pipelines.running.plan import plan
from groundtrace.sandbox import SandboxRefused

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data/sample"
LIMIT = 60

pytestmark = pytest.mark.sandbox


def run(output: Path, *more: str) -> dict[str, Any]:
    words = ["run", "executable_cot", "--input", str(SAMPLE), "--output", str(output), "--limit", str(LIMIT), *more]
    assert cli.main(words) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def rows(output: Path, side: str) -> list[dict[str, Any]]:
    return [row for file in sorted((output / side).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def digests(output: Path) -> dict[str, str]:
    files = [*sorted((output / "sft").iterdir()), *sorted((output / "rl").iterdir())]
    return {f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over the sample, with its cache beside it."""
    folder = tmp_path_factory.mktemp("done")
    run(folder / "run", "--cache", str(folder / "cache"))
    return folder


def test_every_record_has_one_end(done: Path) -> None:
    counts = json.loads((done / "run/run.json").read_text("utf-8"))["counts"]
    ends = [row["id"] for side in ("sft", "rl", "rejected") for row in rows(done / "run", side)]
    assert len(ends) == len(set(ends)) == counts["input"] == LIMIT


def test_easy_questions_are_answered_directly_and_hard_ones_with_code_of_one_kind(done: Path) -> None:
    found = rows(done / "run", "sft")
    modes = Counter(row["mode"] for row in found)
    assert modes["direct"] == modes["code"] >= 8
    for row in found:
        if row["mode"] == "direct":
            assert row["messages"][1]["content"] == f"<answer>{row['answer']}</answer>"
            assert (row["turns"], row["operations"], len(row["images"])) == (None, None, 1)
            assert row["pass_rate"] == 1
            continue
        assert row["pass_rate"] < 1
        assert row["operations"][0] in OPERATIONS
        assert len(row["operations"]) == 1
    kinds = Counter(row["operations"][0] for row in found if row["mode"] == "code")
    assert len(kinds) == 3


def test_messages_turns_and_images_agree(done: Path) -> None:
    coded = [row for row in rows(done / "run", "sft") if row["mode"] == "code"]
    for row in coded:
        text = "\n".join(message["content"] for message in row["messages"][1:])
        plain = [{**turn, "status": ""} for turn in row["turns"]]
        assert [vars(turn) for turn in read_trajectory(text)] == plain
        assert sum(turn["images"] for turn in row["turns"]) == len(row["images"]) - 1
        assert sum(message["content"].count("<image>") for message in row["messages"]) == len(row["images"])
        assert row["overlays"] == []
        assert [turn["status"] for turn in row["turns"]][-2:] == ["ok", ""]
        roles = [message["role"] for message in as_tool_calls(row["messages"])]
        assert roles == ["user", *(["assistant", "tool"] * (len(row["turns"]) - 1)), "assistant"]
    assert {len(row["turns"]) for row in coded} == {2, 3}, "in one call and in two"


def test_exports_have_all_images_and_no_result_as_a_target(done: Path, tmp_path: Path) -> None:
    found = rows(done / "run", "sft")
    for form in ("trl", "llamafactory", "verl"):
        words = ["export", str(done / "run"), "--format", form, "--output", str(tmp_path / form)]
        assert cli.main(words) == 0
        assert not (tmp_path / form / "left_out.jsonl").exists()
    pairs = pq.read_table(tmp_path / "trl/sft.parquet").to_pylist()
    assert len(pairs) == sum(len(row["turns"] or [None]) for row in found)
    for pair in pairs:
        assert [turn["role"] for turn in pair["completion"]] == ["assistant"]
        parts = [part["type"] for turn in pair["prompt"] for part in turn["content"]]
        assert parts.count("image") == len(pair["images"])
        text = "".join(part["text"] or "" for part in pair["completion"][0]["content"])
        assert "<interpreter>" not in text
    whole = pq.read_table(tmp_path / "verl/sft.parquet").to_pylist()
    assert {row["id"]: len(row["images"]) for row in whole} == {row["id"]: len(row["images"]) for row in found}


def test_exports_have_each_call_and_its_result_as_tool_turns(done: Path, tmp_path: Path) -> None:
    found = {row["id"]: row for row in rows(done / "run", "sft")}
    for form in ("trl", "llamafactory", "verl", "swift"):
        words = ["export", str(done / "run"), "--format", form, "--output", str(tmp_path / form), "--turns", "tools"]
        assert cli.main(words) == 0
        assert not (tmp_path / form / "left_out.jsonl").exists()
    for row in pq.read_table(tmp_path / "verl/sft.parquet").to_pylist():
        turns = found[row["id"]]["turns"] or []
        calls = [turn["tool_calls"][0]["function"]["arguments"] for turn in row["messages"] if turn["tool_calls"]]
        assert [call["code"] for call in calls] == [turn["code"] for turn in turns if turn["code"]]
        results = [message["content"] for message in row["messages"] if message["role"] == "tool"]
        assert [result.replace("<image>", "").rstrip("\n") for result in results] == [
            turn["output"].rstrip("\n") for turn in turns if turn["code"]
        ]
    asked = pq.read_table(tmp_path / "verl/rl.parquet").to_pylist()
    limits = [row["extra_info"]["tools_kwargs"]["execute_python_code"]["create_kwargs"]["sandbox"] for row in asked]
    assert all(json.loads(text)["call_timeout_s"] == 15 for text in limits)


def test_rl_rows_ask_for_code(done: Path) -> None:
    for row in rows(done / "run", "rl"):
        assert "input_image" in row["prompt"][0]["content"]
        assert 0 < row["pass_rate"] < 1


def test_again_and_with_two_workers_nothing_is_sent_and_nothing_changes(done: Path, tmp_path: Path) -> None:
    cache = ("--cache", str(done / "cache"))
    for name, beam_options in (("again", ()), ("two", ("--", "--direct_num_workers=2"))):
        summary = run(tmp_path / name, *cache, *beam_options)
        assert sum(role["requests"] for role in summary["ledger"].values()) == 0
        assert digests(tmp_path / name) == digests(done / "run")


def test_some_questions_are_solved_in_text_and_some_solutions_rewritten_with_code(done: Path, tmp_path: Path) -> None:
    more = ("--set", 'trajectory.rewritten_sources=["lil-lab/nlvr"]', "--set", "text_from=0.75")
    ratio = ("--set", "ratio={direct=6, text=1, transform=1, computation=1, drawing=1}")
    run(tmp_path / "run", "--cache", str(done / "cache"), *more, *ratio)
    assert sum(len(rows(tmp_path / "run", side)) for side in ("sft", "rl", "rejected")) == LIMIT
    found = rows(tmp_path / "run", "sft")
    modes = Counter(row["mode"] for row in found)
    assert modes["direct"] == 6 * modes["text"] == 6 * modes["code"] > 0
    for row in found:
        if row["mode"] == "code":
            assert row["operations"] == ["computation"]
            assert row["messages"][1]["content"].startswith("<think>From left to right, these objects are at x = ")
            assert [turn["output"] for turn in row["turns"]][-2:] != ["", ""]
        if row["mode"] == "text":
            assert row["pass_rate"] >= 0.75
            assert "<code>" not in row["messages"][1]["content"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (
            "ratio={direct=1}",
            "ratio must have exactly the keys direct, code, or exactly the keys direct, computation, drawing, "
            "transform, got direct",
        ),
        (
            "ratio={direct=1, drawing=1}",
            "direct, code, or exactly the keys direct, computation, drawing, transform, got direct, drawing",
        ),
        ("ratio={direct=1, code=1, text=1}", "ratio must have exactly the keys direct, code, or"),
        ("text_from=1.5", "text_from"),
    ],
)
def test_a_ratio_names_each_class_of_rows(
    words: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "executable_cot", "--input", str(SAMPLE), "--output", str(tmp_path / "run"), "--set", words]
    assert cli.main(command) == 2
    assert fault in capsys.readouterr().err


def test_without_isolation_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise SandboxRefused("code cannot be isolated here: the program bwrap is not on PATH")

    monkeypatch.setattr(plan, "check_sandbox", refuse)
    words = ["run", "executable_cot", "--input", str(SAMPLE), "--output", str(tmp_path / "run")]
    assert cli.main(words) == 2
    assert capsys.readouterr().err.strip().endswith("the program bwrap is not on PATH")
    assert not (tmp_path / "run").exists()
