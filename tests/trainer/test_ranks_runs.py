"""``trainer --gpus 2`` on two processes of the CPU, as a user meets it: killed, resumed, stopped, and with errors."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from groundtrace.trainer import commands, launch
from groundtrace.trainer.checkpoint import checkpoints

from .runs import Command, metrics_of, records, rl_row

ROOT = Path(__file__).parents[2]
STEPS = 24
CONFIG = f"""
threads = 1
seed = 3
[model]
path = "MODEL"
dtype = "float32"
[batch]
max_tokens = 400
tokens = 400
[sft]
steps = {STEPS}
samples_per_step = 3
[sft.optimiser]
lr = 0.0005
warmup_steps = 3
schedule = "cosine"
[grpo]
steps = 2
prompts_per_step = 2
group_size = 4
dynamic_sampling = false
overlong = "soft"
overlong_buffer = 24
[rollout]
max_new_tokens = 12
[log]
save_every = 4
rollouts_every = 1
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def home(
    tmp_path_factory: pytest.TempPathFactory,
    folders: Mapping[str, Path],
    row: Callable[..., dict[str, Any]],
    write_shards: Callable[..., Path],
    png: Callable[..., bytes],
) -> Path:
    """A folder with seven rows, one of them undecodable, and a config; each test writes a folder of its own beside."""
    home = tmp_path_factory.mktemp("home")
    texts = ("3", "seven of them", "no", "two", "It is red.", "B")
    rows = [
        row(
            id=f"q{number}",
            images=[{"bytes": png(64 + 32 * (number % 3), 64, number), "path": None}],
            messages=[row()["messages"][0], {"role": "assistant", "content": text}],
        )
        for number, text in enumerate(texts)
    ]
    write_shards(home, [*rows, row(id="q-bad", images=[{"bytes": b"no picture", "path": None}])])
    write_shards(home, [rl_row(each) for each in records("662-1-0-c0", "662-1-0-c1")], "rl")
    (home / "c.toml").write_text(CONFIG.replace("MODEL", str(folders["qwen3"])), "utf-8")
    return home


@pytest.fixture(scope="module")
def start(home: Path) -> Iterator[Start]:
    """Start a ``trainer`` command on the rows of ``home``, into an output folder of that name there."""
    started: list[subprocess.Popen[str]] = []

    def run(output: str, *words: str, command: str = "sft") -> "subprocess.Popen[str]":
        parts = ["-m", "groundtrace.trainer.cli", command, "--config", "c.toml", "--data", ".", "--output", output]
        environment = os.environ | {
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        process = subprocess.Popen(
            [sys.executable, *parts, *words],
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="module")
def whole(start: Start, home: Path) -> Path:
    """The output of a run on one process that nothing interrupts."""
    _finished(start("whole"))
    return home / "whole"


def _at_step(process: "subprocess.Popen[str]", output: Path, step: int) -> list[psutil.Process]:
    """Wait until a run has logged this step; return the processes of its ranks."""
    deadline_s = time.monotonic() + 900
    path = output / "metrics.jsonl"
    while not path.exists() or len(path.read_text("utf-8").splitlines()) < step:
        assert process.poll() is None and time.monotonic() < deadline_s, process.communicate()
        time.sleep(0.02)
    return psutil.Process(process.pid).children()


def _finished(process: "subprocess.Popen[str]", code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=900)
    assert process.returncode == code, err
    return out, err


def _messages(err: str) -> list[str]:
    """The lines in which the command tells something, without the one about the CPU, which each run on ranks has."""
    on_cpu = "trainer: torch finds no GPU on this machine, so the 2 processes of --gpus use the CPU"
    lines = [line for line in err.splitlines() if not line.startswith("step ")]
    assert lines.count(on_cpu) == 1
    return [line for line in lines if line != on_cpu]


def _check_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive


@pytest.mark.ranks
@pytest.mark.parametrize(("before", "after"), [(("--gpus", "2"), ()), ((), ("--gpus", "2"))], ids=["2 to 1", "1 to 2"])
def test_killed_and_resumed_on_another_number(
    before: tuple[str, ...], after: tuple[str, ...], start: Start, home: Path, whole: Path
) -> None:
    """kill -9 of all processes; then the run continues on the other number of ranks, and ends as one process ends."""
    output = home / f"killed-on-{2 if before else 1}"
    killed = start(output.name, *before)
    ranks = _at_step(killed, output, 9)
    assert len(ranks) == (2 if before else 0)
    for process in (*ranks, killed):
        process.kill()
    _check_gone(ranks)
    saved = checkpoints(output / "checkpoints")[-1]
    assert (saved / "shards").is_dir() == bool(before)
    at = int(saved.name.removeprefix("step-"))
    assert 8 <= at < STEPS - 4, "steps are left"

    out, _ = _finished(start(output.name, *after))
    assert out.strip() == f"{output.name}/model"
    lines, expected = metrics_of(output), metrics_of(whole)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    for line, other in zip(lines, expected, strict=True):
        assert {name: line[name] for name in ("samples", "targets", "tokens", "lr")} == {
            name: other[name] for name in ("samples", "targets", "tokens", "lr")
        }, "the same rows in each step"
        assert line["loss"] == pytest.approx(other["loss"], rel=2e-3)
    left_out = (output / "left_out.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["row"] for line in left_out] == ["row 6"]
    models = [load_file(folder / "model" / "model.safetensors") for folder in (output, whole)]
    assert models[0].keys() == models[1].keys()
    differences = torch.cat([(models[0][name] - models[1][name]).abs().flatten() for name in models[0]])
    assert differences.max() < STEPS * 2 * 0.0005 and differences.mean() < 1e-5


@pytest.mark.ranks
def test_grpo_and_export(start: Start, home: Path) -> None:
    """The first rank alone writes logs, rollouts and the model; the last checkpoint is this model."""
    out, err = _finished(start("rl", "--gpus", "2", "--set", "log.save_every=1", command="grpo"))
    assert out == "rl/model\n"
    assert [line for line in err.splitlines() if not line.startswith(("step ", "trainer: "))] == []
    assert err.count("trainer: A policy that never looks") == 1
    lines = metrics_of(home / "rl")
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["groups_sampled"] == 2 and line["logprob_gap"] < 1e-4 for line in lines)
    assert len(list((home / "rl" / "rollouts").glob("step-*"))) == 2
    export = [sys.executable, "-m", "groundtrace.trainer.cli", "export", "rl/checkpoints/step-000002", "exported"]
    export += ["--model", tomllib.loads((home / "c.toml").read_text("utf-8"))["model"]["path"]]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}  # the tokenizer's file names the latter
    subprocess.run(export, cwd=home, check=True, env=environment, capture_output=True)
    for name in sorted(path.name for path in (home / "rl" / "model").iterdir()):
        assert (home / "exported" / name).read_bytes() == (home / "rl" / "model" / name).read_bytes(), name


@pytest.mark.ranks
def test_a_rank_that_dies_ends_all(start: Start, home: Path) -> None:
    process = start("died", "--gpus", "2")
    first, second = _at_step(process, home / "died", 6)
    second.kill()
    _, err = _finished(process, 128 + signal.SIGKILL)
    said = [line for line in _messages(err) if line.startswith("trainer: ")]
    assert len(said) == 1 and "the process of GPU 1 was killed by SIGKILL; the last complete step is in " in said[0]
    assert "run the same command again" in said[0] and "Traceback" not in err
    _check_gone([first, second])


@pytest.mark.ranks
def test_a_signal_saves_the_last_step(start: Start, home: Path) -> None:
    process = start("stopped", "--gpus", "2", "--set", "log.save_every=0")
    ranks = _at_step(process, home / "stopped", 3)
    process.send_signal(signal.SIGTERM)
    _, err = _finished(process, 128 + signal.SIGTERM)
    _check_gone(ranks)
    [saved] = checkpoints(home / "stopped" / "checkpoints")
    [said] = [line for line in _messages(err) if line.startswith("trainer: ")]
    assert said.startswith("trainer: stopped by SIGTERM; the last complete step is in ") and saved.name in said
    assert int(saved.name.removeprefix("step-")) == len(metrics_of(home / "stopped"))


@pytest.mark.ranks
def test_a_mistake_is_told_once(start: Start, home: Path) -> None:
    _, err = _finished(start("out", "--gpus", "2", "--set", "batch.max_tokens=8"), 2)
    [said] = _messages(err)
    assert said.startswith("trainer: none of the 7 rows can be used")


def test_more_gpus_than_the_machine_has(run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(launch.torch.cuda, "device_count", lambda: 1)
    words = ["sft", "--config", "argos", "--data", str(sft_data), "--output", str(run.home / "out"), "--gpus", "2"]
    ran = run.words(words, run.home / "out")
    ran.check_refused(2, "--gpus is 2, but the number of GPUs of this machine is 1: lower --gpus")
    assert run.words([*words[:-1], "0"], run.home).code == 2


def test_one_gpu_starts_no_process(run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "launch", None)
    assert run("sft", sft_data).code == 0
    config = run.home / "config.toml"
    out = run.home / "other"
    words = ["sft", "--config", str(config), "--data", str(sft_data), "--output", str(out), "--gpus", "1"]
    assert run.words(words, out).code == 0
    last = "checkpoints/step-000002/trainer.pt"
    states = [torch.load(folder / last, weights_only=True) for folder in (run.home / "out", out)]
    torch.testing.assert_close(states[0]["optimiser"], states[1]["optimiser"], rtol=0, atol=0)
