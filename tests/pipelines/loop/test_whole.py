"""A whole loop with drawn scenes and a tiny model, and the same loop, killed in three of its steps."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CONFIG = """
[held_out]
share = 0.2
[curate]
config = "{curate}"
[trainer]
config = "tiny"
[serve]
kind = "transformers_chat"
[sft.set]
sft = {{ epochs = 100, steps = 60, samples_per_step = 8 }}
log = {{ save_every = 5 }}
[rl.set]
attempt = {{ k = 2, k_min = 1, max_tokens = 64 }}
difficulty = {{ include_low = true, include_high = true }}
[grpo.set]
grpo = {{ epochs = 10, steps = 4, prompts_per_step = 4, group_size = 4 }}
rollout = {{ max_new_tokens = 64 }}
log = {{ save_every = 1 }}
[eval.set]
eval = {{ samples = 1, max_new_tokens = 64 }}
"""
"""The model learns its few rows by heart, so that it closes its answers and GRPO has rewards that differ."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with twelve scenes and the config of a loop."""
    desk = tmp_path_factory.mktemp("desk")
    scenes = [sys.executable, "benchmarks/learning/scenes.py", str(desk / "questions"), "--scenes", "12", "--seed", "1"]
    subprocess.run(scenes, cwd=ROOT, check=True)
    (desk / "loop.toml").write_text(CONFIG.format(curate=ROOT / "benchmarks/learning/curate.toml"), "utf-8")
    return desk


def start(desk: Path, name: str) -> "subprocess.Popen[bytes]":
    words = ["loop", "grounded_cot", "--input", str(desk / "questions"), "--model", "tiny"]
    words += ["--output", str(desk / name), "--config", str(desk / "loop.toml")]
    with (desk / f"{name}.err").open("ab") as err:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-m", "groundtrace", *words], stdout=err, stderr=err, env=environment)


def finish(desk: Path, name: str) -> None:
    assert start(desk, name).wait(900) == 0, (desk / f"{name}.err").read_text("utf-8")


@pytest.fixture(scope="module")
def whole(desk: Path) -> Path:
    finish(desk, "whole")
    return desk / "whole"


def test_the_page_and_the_figures(whole: Path) -> None:
    text = (whole / "loop.html").read_text("utf-8")
    assert text.count("state done") == 8
    drawn = 0
    for name in ("sft", "grpo"):
        lines = [json.loads(line) for line in (whole / name / "metrics.jsonl").read_text("utf-8").splitlines()]
        shown = (("reward", "blind_reward"), ("outcome",), ("loss",), ("entropy",), ("response_tokens",))
        drawn += sum(any(line.get(key) for line in lines for key in keys) for keys in shown)
    assert text.count("<svg") == drawn >= 4, "a metric that is 0 at all steps has no chart"
    for name in ("eval-base", "eval-sft", "eval-grpo"):
        assert json.loads((whole / name / "eval.json").read_text("utf-8"))["all"]["questions"] == 6


def test_no_image_is_on_both_sides(whole: Path) -> None:
    division = json.loads((whole / "questions/split.json").read_text("utf-8"))
    assert (division["train"], division["held"]) == (30, 6)
    for name in ("curate", "rl"):
        counts = json.loads((whole / name / "run.json").read_text("utf-8"))["counts"]
        assert counts["input"] == 30 and counts["rl" if name == "rl" else "sft"]


def test_the_second_run_takes_replies_from_the_first(whole: Path) -> None:
    run = json.loads((whole / "rl/run.json").read_text("utf-8"))
    assert set(run["taken_over"]) == {"curate"} and run["taken_over"]["curate"] > 0
    assert set(run["ledger"]) >= {"policy"}


def test_a_finished_loop_does_nothing(desk: Path, whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file() and path.name != "loop.html"}
    finish(desk, "whole")
    after = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file() and path.name != "loop.html"}
    assert {path for path in after if after[path] != before.get(path)} <= {whole / ".lock"}


def _begun(out: Path, name: str) -> bool:
    """Whether a step has done a part of its work."""
    if name == "curate":
        return (out / "curate/cache/replies.sqlite").exists() and b"requests sent" in log_of(out, name)
    return any((out / name / "checkpoints").glob("step-*"))


def log_of(out: Path, name: str) -> bytes:
    path = out / "logs" / f"{name}.log"
    return path.read_bytes() if path.exists() else b""


def test_a_loop_that_is_killed_in_three_steps_ends_alike(desk: Path, whole: Path) -> None:
    out = desk / "killed"
    killed = []
    for name in ("curate", "sft", "grpo"):
        process = start(desk, "killed")
        _await(lambda name=name, process=process: _begun(out, name) or process.poll() is not None)
        assert process.poll() is None, (desk / "killed.err").read_text("utf-8")
        children = _children(process.pid)
        process.send_signal(signal.SIGKILL)
        for child in children:
            os.kill(child, signal.SIGKILL)
        process.wait(60)
        record = json.loads((out / f"steps/{name}.json").read_text("utf-8"))
        killed.append((record["finished"], record["exit_code"]))
    assert killed == [("", None)] * 3, "each was killed before it was finished"
    finish(desk, "killed")
    for name in ("eval-base", "eval-sft", "eval-grpo"):
        for file in ("eval.json", "responses.jsonl"):
            assert (out / name / file).read_bytes() == (whole / name / file).read_bytes(), (name, file)
    assert not (out / "earlier").exists()


def _children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(word) for path in tasks for word in path.read_text().split()]


def _await(is_so: Callable[[], Any]) -> None:
    ends_s = time.monotonic() + 600
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.02)
