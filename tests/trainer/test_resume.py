"""A run that was killed goes on as if it had not been."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.faults

STEPS, SAVE_EVERY, KILLED_AFTER = 40, 4, 11
ROOT = Path(__file__).parents[2]
CONFIG = f"""
threads = 1
seed = 3
[model]
path = "MODEL"
dtype = "float32"
[batch]
max_tokens = 200
tokens = 200
[sft]
steps = {STEPS}
samples_per_step = 3
[sft.optimiser]
lr = 0.003
muon_lr = 0.01
weight_decay = 0.1
warmup_steps = 3
schedule = "cosine"
[log]
save_every = {SAVE_EVERY}
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(
    tmp_path: Path,
    folders: Mapping[str, Path],
    row: Callable[..., dict[str, Any]],
    write_shards: Callable[..., Path],
    png: Callable[..., bytes],
) -> Iterator[Start]:
    """Start ``trainer sft`` on eight rows, one of them undecodable, into an output folder of that name."""
    texts = ("3", "seven of them", "no", "two", "It is red.", "B", "one")
    rows = [
        row(
            id=f"q{number}",
            images=[{"bytes": png(64 + 32 * (number % 3), 64, number), "path": None}],
            messages=[row()["messages"][0], {"role": "assistant", "content": text}],
        )
        for number, text in enumerate(texts)
    ]
    write_shards(tmp_path, [*rows, row(id="q-bad", images=[{"bytes": b"no picture", "path": None}])])
    config = CONFIG.replace("MODEL", str(folders["qwen3"]))
    (tmp_path / "sft.toml").write_text(config, "utf-8")
    started: list[subprocess.Popen[str]] = []

    def run(output: str) -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-m",
            "groundtrace.trainer.cli",
            "sft",
            "--config",
            "sft.toml",
            "--data",
            ".",
            "--output",
            output,
        ]
        environment = os.environ | {
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _metrics(output: Path) -> dict[int, dict[str, Any]]:
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    return {line["step"]: {name: line[name] for name in ("loss", "grad_norm", "lr", "tokens")} for line in lines}


def _finished(process: "subprocess.Popen[str]") -> None:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said


def test_a_killed_run_goes_on_bit_for_bit(start: Start, tmp_path: Path) -> None:
    whole, killed = start("whole"), start("killed")
    assert killed.stderr is not None
    said = next(line for line in killed.stderr if line.startswith(f"step {KILLED_AFTER}/"))
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, said
    saved = sorted(path.name for path in (tmp_path / "killed" / "checkpoints").glob("step-*"))
    at = int(saved[-1].removeprefix("step-"))
    assert KILLED_AFTER - SAVE_EVERY <= at <= STEPS - 20, "20 steps are left"
    assert not (tmp_path / "killed" / "model").exists()

    _finished(whole)
    _finished(start("killed"))

    expected, resumed = _metrics(tmp_path / "whole"), _metrics(tmp_path / "killed")
    assert len(expected) == STEPS
    assert resumed == expected
    assert len({line["loss"] for line in expected.values()}) == STEPS, "no two losses are alike, so order shows"
    # metrics.jsonl has six decimals; the weights, moments and masters after the last step show every bit.
    last = f"checkpoints/step-{STEPS:06d}/trainer.pt"
    states = [torch.load(tmp_path / name / last, weights_only=True) for name in ("whole", "killed")]
    for state in states:
        del state["progress"]["random"]  # each process begins with its own; every draw is seeded by its step
    assert states[1]["progress"] == states[0]["progress"]
    torch.testing.assert_close(states[1]["optimiser"], states[0]["optimiser"], rtol=0, atol=0)
    models = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert models[0] == models[1]
