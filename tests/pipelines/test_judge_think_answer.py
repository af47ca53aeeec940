"""Judge-think-answer as a whole: scripted models whose rows are known to the letter, and the bundled sample.

``golden/judge_think_answer_*.txt`` hold what the scripted runs leave: every row and every rejection.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.ordering import unit_hash

from .far_server import Answer, serving

GOLDEN = Path(__file__).parent / "golden"
SAMPLE = Path(__file__).resolve().parents[2] / "data/sample"
NAME = "judge_think_answer"
LIMIT = 80
"""Of the sample's records only so many are read: enough for rows of every kind, in two thirds of the time."""

SURE = 0.999
"""The confidence of each of six intervals, so that all of them hold but once in some 170 populations."""

SIMPLE, COMPLEX = ("simple", "one look is enough"), ("complex", "two things are compared")
NEEDED = "<judge>Two things have to be compared, so this needs reasoning.</judge>"
STEPS = "The left cup holds two spoons and the right one holds five. Five is more than two"

# The complexity of each question of the SFT side, and what the teacher writes.
TRACES: dict[str, tuple[tuple[str, str], str]] = {
    "simple": (SIMPLE, "The cups can be counted directly, by looking."),
    "simple_untold": (SIMPLE, "<judge>Directly.</judge>"),
    "complex": (COMPLEX, f"{NEEDED}\n\n<think>{STEPS}, so the right cup.</think>\nHence \\boxed{{right}}"),
    "leak_told": (COMPLEX, f"{NEEDED}<think>The given answer is right. {STEPS}.</think>\\boxed{{right}}"),
    "leak_sly": (COMPLEX, f"{NEEDED}<think>Right was settled long ago. {STEPS}.</think>\\boxed{{right}}"),
    "redundant": (COMPLEX, f"{NEEDED}<think>So the answer is right.</think>\\boxed{{right}}"),
    "wrong": (COMPLEX, f"{NEEDED}<think>{STEPS}, so the left cup.</think>\\boxed{{left}}"),
    "empty": (COMPLEX, f"{NEEDED}<think>\n\n</think>\\boxed{{right}}"),
    "undecided": (COMPLEX, f"<judge>Look at it.</judge><think>{STEPS}, so right.</think>\\boxed{{right}}"),
    "otherwise": (COMPLEX, f"<judge>Answer directly.</judge><think>{STEPS}, so right.</think>\\boxed{{right}}"),
    "no_form": (COMPLEX, "The right one, \\boxed{right}"),
    "unclear": (("cannot_judge", "there are no cups"), ""),
}

# The questions of the RL side: text, gold answer, type, choices, and how many of four attempts are right.
QUESTIONS: dict[str, tuple[str, str, str, list[str] | None, int]] = {
    "stem0": ("How many cups are on the table?", "3", "numeric", None, 0),
    "stem1": ("How many cups are on the shelf?", "3", "numeric", None, 1),
    "stem2": ("How many cups are in the box?", "3", "numeric", None, 2),
    "stem3": ("How many cups are there?\nA. 2\nB. 3\nC. 4", "3", "mcq", ["2", "3", "4"], 3),
    "stem4": ("How many cups are in the sink?", "3", "numeric", None, 4),
    "stem5": ("Solve for the angle in the figure.", "30", "numeric", None, 3),
    "general1": ("Is there 1 cup on the tray?", "yes", "bool", None, 0),
    "general2": ("Is there 2 cup on the tray?", "yes", "bool", None, 0),
    "general3": ("Is there 3 cup on the tray?", "yes", "bool", None, 0),
    "general4": ("Is the tray full?", "no", "bool", None, 0),
    "owner": ("Which of these owns the tray?", "Ann", "mcq", ["Ann", "Bob"], 0),
    "weather": ("Which of these fits the tray?", "nice", "mcq", ["nice", "blue"], 0),
    "blurred": ("Is it nice?", "yes", "bool", None, 0),
    "mistaken": ("Is the tray empty?", "yes", "bool", None, 0),
}


def written(folder: Path, records: list[dict[str, Any]]) -> Path:
    """The records with a picture of its own each."""
    folder.mkdir()
    for number, record in enumerate(records):
        pixels = np.full((40, 60, 3), 211, np.uint8)
        pixels[10:30, 5 + number % 50 : 8 + number % 50] = (number, 0, 255)
        cv2.imwrite(str(folder / f"{record['id']}.png"), pixels)
    lines = [json.dumps(record | {"media": [f"{record['id']}.png"]}) for record in records]
    (folder / "records.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def sft_records() -> list[dict[str, Any]]:
    common = {"source": "drawn", "license": "CC0-1.0", "answer_type": "mcq", "choices": ["left", "right"]}
    return [
        common | {"id": name, "question": f"Which cup holds more spoons ({name})?", "answer": "right"}
        for name in TRACES
    ]


def rl_records() -> list[dict[str, Any]]:
    return [
        {"source": "drawn", "license": "CC0-1.0", "id": name, "question": text, "answer": gold}
        | {"answer_type": kind, "choices": choices}
        for name, (text, gold, kind, choices, _) in QUESTIONS.items()
    ]


def script(text: str, sample: int) -> str:
    """What the teacher, the policy and the judge reply to a prompt."""
    tag = re.search(r"\((\w+)\)\?", text)
    name = tag[1] if tag else next((n for n, q in QUESTIONS.items() if q[0].split("\n")[0] in text), "")
    if "What does it take to answer" in text:
        label, reason = TRACES[name][0] if name in TRACES else SIMPLE
        return json.dumps({"reason": reason, "complexity": label})
    if "For your guidance only" in text or "Reply with these" in text:
        return TRACES[name][1]
    if "Which way does this text decide" in text:
        said = text.split("BEGIN")[1].split("END")[0].lower()
        decision = "think" if "needs reasoning" in said else "direct" if "directly" in said else "neither"
        return json.dumps({"reason": "so it says", "decision": decision})
    if "something that its reader does not have?" in text:
        return json.dumps({"reason": "as it says", "leaks": "yes" if "settled long ago" in text else "no"})
    if "Ask the same in the same language" in text:
        told = "Who owns the tray?" if name == "owner" else "What fits the tray?"
        return json.dumps({"reason": "as few words as possible", "question": told})
    if "REWRITTEN" in text:
        return json.dumps({"reason": "by its words", "equivalent": "Who owns" in text})
    if "RECORDED ANSWER" in text:
        verdict = {"blurred": "unclear", "mistaken": "wrong_answer"}.get(name, "good")
        return json.dumps({"reason": "so it is", "quality": verdict})
    if "Is this argument sound" in text:
        return json.dumps({"reason": "sums", "sound": "2 + 3 = 6" not in text})
    if "Does every claim" in text:
        return json.dumps({"reason": "sides", "true_to_sources": True})
    if "Is the final answer what" in text:
        return json.dumps({"reason": "ends", "supported": "\nA\n" not in text})
    gold, right = QUESTIONS[name][1], QUESTIONS[name][4]
    return f"<think>I look.</think><answer>{gold if sample < right else 7}</answer>"


def answer(_: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    parts = body["messages"][-1]["content"]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    choices = [
        {"index": n, "message": {"role": "assistant", "content": script(text, n)}, "finish_reason": "stop"}
        for n in range(body.get("n", 1))
    ]
    return 200, {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 10}}


def run(source: Path, output: Path, *more: str) -> dict[str, Any]:
    assert cli.main(["run", NAME, "--input", str(source), "--output", str(output), *more]) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def scripted(source: Path, output: Path, sft_ratio: float, *more: str, by: Answer = answer) -> dict[str, Any]:
    """A run whose teacher, policy and judge are the script."""
    with serving(by) as server:
        named = {"kind": "openai", "model": "m", "base_url": server.url, "max_retries": 0, "repair_attempts": 0}
        options = {f"endpoints.far.{name}": value for name, value in named.items()}
        options |= {f"roles.{role}": "far" for role in ("teacher", "policy", "judge")}
        options |= {"allow_embedded": "true", "split.sft_ratio": sft_ratio, "alike.max_alike": 2, "ratio.general": 50.0}
        options |= {"rl.max_same_answer": 1, "rl.max_absent": 1}  # the script asks for few answers
        return run(source, output, *(w for n, v in options.items() for w in ("--set", f"{n}={v}")), *more)


def rows(output: Path, side: str) -> list[dict[str, Any]]:
    return [row for file in sorted((output / side).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def told(output: Path) -> str:
    """The rows and rejections of a run, for people: the columns that this recipe decides on."""
    lines = []
    for row in sorted(rows(output, "sft"), key=lambda row: row["id"]):
        lines += [f"sft {row['id']}: {row['complexity']}, {row['complexity_reason']}"]
        lines += [f"[{turn['role']}]\n{turn['content']}" for turn in row["messages"]] + [""]
    for row in sorted(rows(output, "rl"), key=lambda row: row["id"]):
        known = f"{row['domain']}, {row['complexity']}, pass rate {row['pass_rate']}, answer {row['answer']}"
        lines += [f"rl {row['id']}: {known}, choices {row['choices']}", row["prompt"][0]["content"], ""]
    rejected = sorted(rows(output, "rejected"), key=lambda row: row["id"])
    lines += [f"rejected {row['id']}: {row['stage']}, {row['reason']}: {row['detail']}" for row in rejected]
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_the_sft_side_of_a_scripted_teacher(tmp_path: Path) -> None:
    summary = scripted(written(tmp_path / "in", sft_records()), tmp_path / "run", 1.0)
    assert told(tmp_path / "run") == (GOLDEN / "judge_think_answer_sft.txt").read_text("utf-8")
    assert summary["counts"]["sft"] == 2
    judges = json.loads((tmp_path / "run/judges.json").read_text("utf-8"))["judges"]
    agreed = {name: (each["clean"]["agree"], each["planted"]["agree"]) for name, each in judges.items()}
    assert agreed == {"logic": (1, 1), "grounding": (1, 0), "consistency": (1, 1)}


@pytest.mark.slow
def test_the_rl_side_of_a_scripted_policy(tmp_path: Path) -> None:
    summary = scripted(written(tmp_path / "in", rl_records()), tmp_path / "run", 0.0)
    assert told(tmp_path / "run") == (GOLDEN / "judge_think_answer_rl.txt").read_text("utf-8")
    assert summary["counts"]["rl"] == 8
    for row in rows(tmp_path / "run", "rl"):
        right = QUESTIONS[row["id"]][4]
        assert row["pass_rate"] == (right / 4 if row["domain"] == "stem" else None)
        assert row["choices"] is not None or not re.search(r"(?m)^[A-E]\. ", row["prompt"][0]["content"])


@pytest.mark.slow
def test_a_policy_that_was_trained_on_the_shards_is_asked_in_their_words(tmp_path: Path) -> None:
    only = [record for record in rl_records() if record["id"] == "stem1"]
    summary = scripted(written(tmp_path / "in", only), tmp_path / "run", 0.0, "--set", "attempt.as_trained=true")
    assert summary["counts"]["rl"] == 1
    assert "attempt_as_trained.v1" in {
        prompt["id"] for row in rows(tmp_path / "run", "rl") for prompt in row["lineage"]["prompts"]
    }


@pytest.fixture(scope="module")
def sample(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A finished run of the embedded engine over the bundled sample, with its cache beside it."""

    def make(folder: Path) -> None:
        run(SAMPLE, folder / "run", "--limit", str(LIMIT), "--cache", str(folder / "cache"))

    return made_once("judge_think_answer", make)


def digests(output: Path) -> dict[str, str]:
    files = [*sorted((output / "sft").iterdir()), *sorted((output / "rl").iterdir()), output / "judges.json"]
    return {f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files[:-1]} | {
        "judges": hashlib.sha256(files[-1].read_bytes()).hexdigest()
    }


def test_the_sample_balances_and_has_rows_of_every_kind(sample: Path) -> None:
    counts = json.loads((sample / "run/run.json").read_text("utf-8"))["counts"]
    rejected = sum(sum(reasons.values()) for reasons in counts["rejected"].values())
    assert counts["input"] == LIMIT == counts["sft"] + counts["rl"] + rejected
    sft, rl = rows(sample / "run", "sft"), rows(sample / "run", "rl")
    assert {row["complexity"] for row in sft} == {"simple", "complex"}
    assert {row["domain"] for row in rl} == {"stem", "general"}
    assert all(row["complexity"] in ("simple", "complex") and row["complexity_reason"] for row in (*sft, *rl))
    stem = sum(row["domain"] == "stem" for row in rl)
    assert abs((len(rl) - stem) - stem * 20 / 50) < 1
    assert all((row["pass_rate"] is not None) == (row["domain"] == "stem") for row in rl)


def test_a_thought_is_empty_for_simple_questions_only(sample: Path) -> None:
    for row in rows(sample / "run", "sft"):
        text = row["messages"][1]["content"]
        is_empty = "</judge>\n<think>\n\n</think>\n\\boxed{" in text
        assert is_empty == (row["complexity"] == "simple"), text
        assert is_empty or re.search(r"<think>\n\w[^<]+</think>", text)


def test_no_picture_stands_on_both_sides(sample: Path) -> None:
    def pictures(side: str) -> set[bytes]:
        return {image["bytes"] for row in rows(sample / "run", side) for image in row["images"]}

    assert pictures("sft")
    assert not pictures("sft") & pictures("rl")


@pytest.mark.slow
def test_a_second_run_sends_what_failed_alone_and_writes_the_same_bytes(sample: Path, tmp_path: Path) -> None:
    """A judgement that the embedded engine cannot give is a failed call, and is asked for again."""
    again = run(SAMPLE, tmp_path / "run", "--limit", str(LIMIT), "--cache", str(sample / "cache"))
    judges = json.loads((sample / "run/judges.json").read_text("utf-8"))["judges"]
    failed = sum(each["all"]["unjudged"] for each in judges.values())
    assert sum(role["requests"] for role in again["ledger"].values()) == failed
    assert digests(tmp_path / "run") == digests(sample / "run")


@pytest.mark.slow
def test_fresh_replies_and_workers_write_the_same_bytes(sample: Path, tmp_path: Path) -> None:
    workers = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
    run(SAMPLE, tmp_path / "run", "--limit", str(LIMIT), "--", *workers)
    assert digests(tmp_path / "run") == digests(sample / "run")


def test_validation_shows_a_record_in_this_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", NAME, "--input", str(SAMPLE)]) == 0
    said = capsys.readouterr().out
    assert "Say inside <judge> and </judge> whether this question needs reasoning" in said
    assert "alt=" not in said


@pytest.mark.slow
def test_pass_rates_of_a_planted_population(tmp_path: Path) -> None:
    """Questions with a known chance of each attempt to be right: what the rows say lies where it ought to.

    The interval of the shares kept is that of the binomial: of k = 4 attempts at chance p, 1 - p^4 - (1 - p)^4.
    """
    chances = {0.1: 30, 0.5: 30, 0.9: 30}
    names = [f"{chance}-{number}" for chance, size in chances.items() for number in range(size)]
    records = [
        {"source": "drawn", "license": "CC0-1.0", "id": name, "question": f"How many cups of {name} are there?"}
        | {"answer": "3", "answer_type": "numeric"}
        for name in names
    ]

    def planted(_: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = "\n".join(part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text")
        name = re.search(r"cups of (\S+) are", text)
        assert name
        if "What does it take" in text:
            replies = [json.dumps({"reason": "one look", "complexity": "simple"})]
        else:
            draws = [unit_hash(f"{name[1]} {sample}", 0, "planted") < float(name[1][:3]) for sample in range(body["n"])]
            replies = [f"<answer>{3 if right else 4}</answer>" for right in draws]
        choices = [
            {"index": n, "message": {"content": reply}, "finish_reason": "stop"} for n, reply in enumerate(replies)
        ]
        return 200, {"choices": choices}

    scripted(written(tmp_path / "in", records), tmp_path / "run", 0.0, by=planted)
    every = [*rows(tmp_path / "run", "rl"), *rows(tmp_path / "run", "rejected")]
    assert sorted(row["id"] for row in every) == sorted(names)
    for chance, size in chances.items():
        own = [row for row in every if row["id"].startswith(str(chance))]
        right = sum(round(row["pass_rate"] * row["k"]) for row in own)
        low, high = wilson(right, 4 * size, SURE)
        assert low <= chance <= high
        kept = sum("messages" not in row and row.get("reason") is None for row in own)
        low, high = wilson(kept, size, SURE)
        assert low <= 1 - chance**4 - (1 - chance) ** 4 <= high


def test_a_ratio_of_other_domains_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my.toml").write_text("ratio = { stem = 1.0, other = 2.0 }\n", "utf-8")
    arguments = ["run", NAME, "--input", str(SAMPLE), "--output", str(tmp_path / "run")]
    assert cli.main([*arguments, "--config", str(tmp_path / "my.toml")]) != 0
    assert "ratio must give a weight to stem and general" in capsys.readouterr().err
