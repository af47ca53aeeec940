"""What ends a training in its second step: the first is saved, one line shows how to go on, and going on loses nothing.

Each case runs the command line three times: to its end, to the ending, and again after that.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from groundtrace.rewards.rows import reward
from groundtrace.schemas.loop_step import step_environment
from groundtrace.trainer import grpo, sft
from groundtrace.trainer.checkpoint import checkpoints, read_checkpoint
from groundtrace.trainer.grpo import SEEDS_PER_STEP
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler, SamplerError

from .runs import BUSY, READS, Command, Ran, judging, metrics_of, records, rl_row, rollout_of
from .test_judges_down import FREE, GOLD, Clock, config_for

STEPS = 3
SETS = ("grpo.steps=3", "sft.steps=3", "grpo.prompts_per_step=1", "grpo.dynamic_sampling=false", "log.save_every_s=0")
SKIPS = '[reward.options]\nskip = ["format", "spatial", "counting", "reasoning"]\n'
COUNTS = [f"There are {number}.\n<answer>{number}</answer>" for number in range(2, 6)]
"""Answers of which one at most is right, so that a group teaches."""


class Answers(Sampler):
    """Gives each prompt the same answers in every run: their texts name the step. In step 2 it calls ``ends`` once."""

    ends: Callable[[], None] | None = None
    texts: Sequence[str] = COUNTS

    def __init__(self, vlm: VisionLanguageModel, *_: Any) -> None:
        self._vlm = vlm

    def sync(self) -> None:
        """Nothing to do."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        step = seed // SEEDS_PER_STEP
        if step == 1 and Answers.ends is not None:
            now, Answers.ends = Answers.ends, None
            now()
        return [[rollout_of(self._vlm, f"Step {step}. {text}") for text in self.texts[:n]] for _ in prompts]


@pytest.fixture(autouse=True)
def _answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpo, "make_sampler", Answers)
    monkeypatch.setattr(Answers, "ends", None)
    monkeypatch.setattr(reward, "time", Clock())


@pytest.fixture
def counted(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    """Two questions that rules grade."""
    (record,) = records("662-1-0-c0")
    rows = [rl_row(record, id=f"q{n}", answer=str(3 + n), answer_type="numeric", choices=None) for n in range(2)]
    return write_shards(tmp_path / "counted", rows, "rl")


def last_of(output: Path) -> dict[str, Any]:
    """The last checkpoint without the state of torch's generator, which is that of its process."""
    state = read_checkpoint(checkpoints(output / "checkpoints")[-1])
    del state["progress"]["random"]
    return state


def check_goes_on(run: Command, command: str, data: Path, stopped: Ran, toml: str, *said: str, code: int) -> None:
    """Step 1 is saved and named; the same command then ends as a run that nothing ended."""
    saved = stopped.output / "checkpoints" / "step-000001"
    stopped.check_refused(code, *said, str(saved))
    assert checkpoints(stopped.output / "checkpoints") == [saved]
    assert all(master.isfinite().all() for master in read_checkpoint(saved)["optimiser"]["masters"].values())
    assert not (stopped.output / "model").exists()
    whole = run(command, data, *SETS, output="whole", toml=toml)
    resumed = run(command, data, *SETS, toml=toml)
    assert (whole.code, resumed.code) == (0, 0), whole.err + resumed.err
    assert metrics_of(resumed.output) == metrics_of(whole.output)
    assert {line["step"] for line in metrics_of(whole.output)} == {1, 2, 3}
    assert all(line["grad_norm"] > 0 for line in metrics_of(whole.output)), "each step learns, so a lost one shows"
    states = [last_of(ran.output) for ran in (whole, resumed)]
    assert [states[1][name] for name in ("progress", "identity")] == [
        states[0][name] for name in ("progress", "identity")
    ]
    torch.testing.assert_close(states[1]["optimiser"], states[0]["optimiser"], rtol=0, atol=0)
    models = [(ran.output / "model" / "model.safetensors").read_bytes() for ran in (whole, resumed)]
    assert models[0] == models[1]


@pytest.mark.slow
def test_judges_that_are_down(
    run: Command, tmp_path: Path, write_shards: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (record,) = records("662-1-0-c0")
    rows = [rl_row(record, id=f"q{n}", question=f"Why {n}?", answer=GOLD, answer_type="text") for n in range(2)]
    data = write_shards(tmp_path / "judged", rows, "rl")
    monkeypatch.setattr(Answers, "texts", FREE)
    with judging(*[READS] * len(FREE), BUSY) as judge:
        toml = config_for(judge.base_url, 1.0)
        stopped = run("grpo", data, *SETS, toml=toml)
        judge.script.clear()
        judge.script.append(READS)
        said = ("did not answer for 1 s", "run the same command again to continue from it")
        check_goes_on(run, "grpo", data, stopped, toml, *said, code=3)


@pytest.mark.slow
def test_a_sampler_that_is_gone(run: Command, counted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise SamplerError("the server does not answer")

    monkeypatch.setattr(Answers, "ends", gone)
    stopped = run("grpo", counted, *SETS, toml=SKIPS)
    said = ("the server does not answer; ", "run the same command again to continue from it")
    check_goes_on(run, "grpo", counted, stopped, SKIPS, *said, code=3)


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_rollouts(
    number: signal.Signals, run: Command, counted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answers, "ends", lambda: os.kill(os.getpid(), number))
    stopped = run("grpo", counted, *SETS, toml=SKIPS)
    said = (f"stopped by {number.name}; ", "run the same command again to continue from it")
    check_goes_on(run, "grpo", counted, stopped, SKIPS, *said, code=128 + number)


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_sft(
    number: signal.Signals, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sft, "sft_loss", in_step_2(sft.sft_loss, lambda loss: os.kill(os.getpid(), number) or loss))
        stopped = run("sft", sft_data, *SETS)
    said = (f"stopped by {number.name}; ", "run the same command again to continue from it")
    check_goes_on(run, "sft", sft_data, stopped, "", *said, code=128 + number)


@pytest.mark.faults
def test_a_step_of_a_loop_leaves_the_instruction_to_the_loop(
    run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop passes Ctrl-C on as SIGTERM, and prints what the user can do."""
    for name, value in step_environment("sft").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        sft, "sft_loss", in_step_2(sft.sft_loss, lambda loss: os.kill(os.getpid(), signal.SIGTERM) or loss)
    )
    stopped = run("sft", sft_data, *SETS)
    assert stopped.code == 128 + signal.SIGTERM
    assert "trainer: stopped; the last complete step is in " in stopped.err and "same command" not in stopped.err


NAN = ("step 2: the loss is nan", "the same command continues from this step")


@pytest.mark.slow
def test_a_loss_of_sft_that_is_no_number(run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sft, "sft_loss", in_step_2(sft.sft_loss, lambda loss: loss * torch.nan))
        stopped = run("sft", sft_data, *SETS)
    check_goes_on(run, "sft", sft_data, stopped, "", *NAN, code=1)


@pytest.mark.slow
def test_a_loss_of_grpo_that_is_no_number(run: Command, counted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(found: Any) -> Any:
        return type(found)(**{**vars(found), "loss": found.loss * torch.nan})

    with monkeypatch.context() as patch:
        patch.setattr(grpo, "policy_loss", in_step_2(grpo.policy_loss, spoilt))
        stopped = run("grpo", counted, *SETS, toml=SKIPS)
    check_goes_on(run, "grpo", counted, stopped, SKIPS, *NAN, code=1)


def in_step_2(real: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """The loss with a change in its second call, which is that of step 2: a step here is one forward pass."""
    calls: list[Mapping[str, Any]] = []

    def changed(*arguments: Any, **named: Any) -> Any:
        calls.append(named)
        found = real(*arguments, **named)
        return change(found) if len(calls) == 2 else found

    return changed
