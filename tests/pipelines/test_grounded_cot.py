"""The whole DAG on the bundled sample: one right result, whatever the order, the workers and the interruptions."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands import cli

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = str(ROOT / "pipelines/grounded_cot.py")
SAMPLE = ROOT / "data/sample"


def run(source: Path, output: Path, *more: str) -> dict:
    assert cli.main(["run", PIPELINE, "--input", str(source), "--output", str(output), *more]) == 0
    return json.loads((output / "run.json").read_text("utf-8"))


def digests(output: Path) -> dict[str, str]:
    files = [*sorted((output / "sft").iterdir()), *sorted((output / "rl").iterdir())]
    return {f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def rows(output: Path, side: str) -> list[dict]:
    return [row for file in sorted((output / side).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def sent(summary: dict) -> int:
    return sum(role["requests"] for role in summary["ledger"].values())


@pytest.fixture(scope="module")
def done(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over the sample, with a cache of its own beside it, to which further runs may add."""
    folder = tmp_path_factory.mktemp("done")
    shutil.copytree(demo / "runs/demo", folder / "run")
    (folder / "run/cache").rename(folder / "cache")
    return folder


def rewritten(folder: Path, change) -> Path:
    """The sample with its records changed."""
    records = [json.loads(line) for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()]
    folder.mkdir()
    shutil.copytree(SAMPLE / "images", folder / "images")
    (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in change(records)), "utf-8")
    return folder


def test_counts_balance_and_both_sides_have_rows(done: Path) -> None:
    summary = json.loads((done / "run/run.json").read_text("utf-8"))
    counts = summary["counts"]
    rejected = sum(sum(reasons.values()) for reasons in counts["rejected"].values())
    assert counts["input"] == 120 == counts["sft"] + counts["rl"] + rejected
    assert counts["sft"] == len(rows(done / "run", "sft")) >= 20
    assert counts["rl"] == len(rows(done / "run", "rl")) >= 5
    assert counts["rejected"]["difficulty"]["too_easy"] > 0
    assert counts["rejected"]["difficulty"]["too_hard"] > 0
    everywhere = [row["id"] for side in ("sft", "rl", "rejected") for row in rows(done / "run", side)]
    wanted = [json.loads(line)["id"] for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()]
    assert sorted(everywhere) == sorted(wanted)
    for row in rows(done / "run", "rejected"):
        assert row["question"] and row["answer"] and row["media"], row["id"]
        assert row["attempts"], "what difficulty rejects has been attempted"
        assert row["images"] is None, "images stand as references unless a config asks for their bytes"


@pytest.mark.parametrize("mode", ["in_memory", pytest.param("multi_processing", marks=pytest.mark.slow)])
def test_a_second_run_sends_nothing_and_workers_and_record_order_change_nothing(
    done: Path, tmp_path: Path, mode: str
) -> None:
    reordered = rewritten(tmp_path / "data", lambda records: random.Random(5).sample(records, len(records)))
    cache = ("--cache", str(done / "cache"))
    workers = ("--direct_num_workers=2", f"--direct_running_mode={mode}")
    summary = run(reordered, tmp_path / "run", *cache, "--", *workers)
    assert sent(summary) == 0
    assert digests(tmp_path / "run") == digests(done / "run")


@pytest.mark.slow
def test_gold_boxes_are_only_carried_along(done: Path, tmp_path: Path) -> None:
    without = rewritten(tmp_path / "data", lambda records: [record | {"boxes": None} for record in records])
    assert sent(run(without, tmp_path / "run", "--cache", str(done / "cache"))) == 0
    for side in ("sft", "rl"):
        kept, bare = rows(done / "run", side), rows(tmp_path / "run", side)
        assert [row | {"gold_boxes": None, "boxes_source": None} for row in kept] == bare


def test_kept_points_lie_on_the_gold_objects(done: Path) -> None:
    inside = total = exact = counting = 0
    for row in rows(done / "run", "sft"):
        gold = row["gold_boxes"] or []
        hits = [
            [b["label"] == p["label"] and b["x1"] <= p["x"] <= b["x2"] and b["y1"] <= p["y"] <= b["y2"] for b in gold]
            for p in row["points"]
        ]
        inside, total = inside + sum(any(hit) for hit in hits), total + len(hits)
        if row["answer_type"] == "numeric":
            counting += 1
            exact += len(hits) == len(gold) and all(sum(column) == 1 for column in zip(*hits, strict=True))
    assert total > 50
    assert inside / total >= 0.99
    assert exact / counting >= 0.98


@pytest.mark.slow
def test_detector_and_pointer_can_disagree_and_disagreement_rejects(done: Path, tmp_path: Path) -> None:
    pointing_badly = ("--set", "roles.pointer=coarse", "--set", "endpoints.coarse.strength=1.5")
    summary = run(SAMPLE, tmp_path / "run", "--cache", str(done / "cache"), "--limit", "60", *pointing_badly)
    assert summary["counts"]["rejected"]["verify"]["low_grounding"] > 0
    verified = [row for row in rows(tmp_path / "run", "rejected") if row["stage"] == "verify"]
    for row in verified:
        assert row["traces"] and all(trace["verdicts"] for trace in row["traces"]), row["id"]


@pytest.mark.slow
def test_a_config_asks_for_other_traces_pictures_of_rejections_and_lines_of_the_input(
    done: Path, tmp_path: Path
) -> None:
    wanted = ("other_traces", "rejected_images", "input_row")
    more = [word for name in wanted for word in ("--set", f"write.{name}=true")]
    summary = run(SAMPLE, tmp_path / "run", "--cache", str(done / "cache"), *more)
    assert sent(summary) == 0
    sft = rows(tmp_path / "run", "sft")
    assert {len(row["other_traces"]) for row in sft} == {7}, "of eight traces one is kept"
    for row in rows(tmp_path / "run", "rejected"):
        assert all(image["bytes"] for image in row["images"])
    assert "`other_traces`" in (tmp_path / "run/README.md").read_text("utf-8")
    ids = [json.loads(line)["id"] for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()]
    found = [row for name in ("sft", "rl", "rejected") for row in rows(tmp_path / "run", name)]
    assert {row["id"]: row["input_row"] for row in found} == {
        name: f"records.jsonl, line {number}" for number, name in enumerate(ids, 1)
    }


def test_splits_share_no_picture(done: Path) -> None:
    pictures = {
        side: {
            hashlib.sha256(image["bytes"]).hexdigest() for row in rows(done / "run", side) for image in row["images"]
        }
        for side in ("sft", "rl")
    }
    assert pictures["sft"]
    assert pictures["rl"]
    assert not pictures["sft"] & pictures["rl"]


def started(output: Path, enough_bytes: int) -> subprocess.Popen[str]:
    """A run over the sample in a process of its own, once its reply cache has so many bytes."""
    command = [sys.executable, "-m", "groundtrace", "run", PIPELINE, "--input", str(SAMPLE), "--output", str(output)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    cache = output / "cache/replies.sqlite-wal"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if cache.exists() and cache.stat().st_size > enough_bytes:
            break
        time.sleep(0.002)  # the run, too, wants a processor
    return process


@pytest.mark.faults
def test_a_killed_run_completes_with_the_same_bytes(done: Path, tmp_path: Path) -> None:
    enough = random.randrange(20_000, 400_000)
    process = started(tmp_path / "run", enough)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "run/run.json").exists(), f"killed too late, at {enough} bytes"
    check_completes(done, tmp_path)


def check_completes(done: Path, folder: Path) -> None:
    """A run that ended early goes on from its cache to the same rows."""
    summary = run(SAMPLE, folder / "run")
    assert sum(role["cached"] for role in summary["ledger"].values()) > 0
    assert digests(folder / "run") == digests(done / "run")


@pytest.mark.faults
def test_an_interrupted_run_says_so_and_completes(done: Path, tmp_path: Path) -> None:
    process = started(tmp_path / "run", random.randrange(20_000, 200_000))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    lines = [line for line in said.splitlines() if line.startswith("beam: ")]
    page = tmp_path / "run/failed.html"
    expected = f"beam: interrupted; run the same command again to resume (report: {page})"
    assert (process.returncode, page.is_file(), lines) == (130, True, [expected]), said
    assert not (tmp_path / "run/run.json").exists()
    check_completes(done, tmp_path)
