"""A training left alone: what is saved, when, whatever ends it, and what ends it."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from groundtrace.rewards.rows.reward import JudgesDown
from groundtrace.trainer import monitor, sft, training
from groundtrace.trainer.checkpoint import checkpoints, read_checkpoint
from groundtrace.trainer.continued import changes_note, finished_note
from groundtrace.trainer.group import idle_because, note_idle
from groundtrace.trainer.optimiser import Optimiser
from groundtrace.trainer.sampler import SamplerError
from groundtrace.trainer.training import Stopped, StopSignals

from .runs import Command, lines_of, metrics_of

STEPS = 3


def saved_steps(output: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in checkpoints(output / "checkpoints")]


def masters_of(output: Path) -> Mapping[str, torch.Tensor]:
    """The weights of the last checkpoint."""
    return read_checkpoint(checkpoints(output / "checkpoints")[-1])["optimiser"]["masters"]


class Hours:
    """A clock on which every look takes an hour."""

    now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 3600
        return self.now_s


def test_checkpoints_by_default_and_a_bounded_number(
    run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is set: a long run has its last two checkpoints, one in each quarter of an hour."""
    monkeypatch.setattr(training, "time", Hours())
    made: list[list[int]] = []
    real = sft.sft_step
    monkeypatch.setattr(sft, "sft_step", lambda *a: (made.append(saved_steps(run.home / "out")), real(*a))[1])
    done = run("sft", sft_data, "sft.steps=4")
    assert done.code == 0, done.err
    assert made == [[], [1], [1, 2], [2, 3]]
    assert saved_steps(done.output) == [3, 4]


def test_a_short_run_has_one_checkpoint(run: Command, sft_data: Path) -> None:
    assert saved_steps(run("sft", sft_data, "sft.steps=4").output) == [4]


def test_a_finished_training_that_is_repeated_keeps_its_times(
    run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more step is then work of its own, which ends later; both have begun with the first command."""
    shown = []
    for hour, steps in ((8, 2), (9, 2), (10, 3)):
        monkeypatch.setattr(monitor, "utc_now", lambda hour=hour: f"2026-11-26T{hour:02}:00:00+00:00")
        done = run("sft", sft_data, f"sft.steps={steps}")
        assert done.code == 0, done.err
        record = json.loads((done.output / "run.json").read_text("utf-8"))
        shown.append((record["started"][11:13], record["finished"][11:13]))
        page = (done.output / "train.html").read_text("utf-8")
        assert (f"{hour:02}:00" in page) == (hour != 9)
    assert shown == [("08", "08"), ("08", "08"), ("08", "10")]


def test_a_training_that_continues_names_the_step(run: Command, sft_data: Path) -> None:
    """A training that begins, and one that is already complete, have no such line."""
    sets = ("sft.optimiser.schedule=linear", "sft.optimiser.lr=1e-3")
    said = [run("sft", sft_data, f"sft.steps={steps}", *sets).err.splitlines() for steps in (2, 2, 5)]
    lines = [[line for line in each if "continues" in line] for each in said]
    first, rate = (line["lr"] for line in metrics_of(run.home / "out")[1:3])
    note = f"steps 2 -> 5, model/ is replaced, and the learning rate goes back up from {first:.3g} to {rate:.3g}"
    changed = ", with changed settings: sft.steps 2 -> 5"
    continued = f"trainer: continues after step 2 (checkpoints/step-000002){changed}; the training was finished: {note}"
    assert lines == [[], [], [continued]]


def test_the_note_of_a_finished_training_names_the_learning_rate_only_if_it_rises() -> None:
    plain = "the training was finished: steps 76 -> 127, model/ is replaced"
    assert finished_note(76, 127, 1e-3, 1e-3) == finished_note(76, 127, 1e-3, None) == plain
    assert finished_note(76, 127, 8.4e-4, 1e-4) == f"{plain}, and the learning rate goes back up from 0.0001 to 0.00084"


def test_the_line_of_a_training_that_continues_names_few_changed_settings() -> None:
    assert changes_note({}) == ""
    assert changes_note({"log.keep": [None, 1]}) == ", with changed settings: log.keep unset -> 1"
    many = changes_note({f"a.b{number}": [0, 1] for number in range(7)})
    assert many.endswith("a.b4 0 -> 1 and 2 more (see train.html)")


def test_settings_that_changed_are_kept_and_shown(run: Command, sft_data: Path) -> None:
    """Of each command that continued the training, but not of one that did nothing more; addresses are not kept."""
    for sets in (("sft.steps=2",), ("sft.steps=3", "log.keep=1", "log.project=secret"), ("sft.steps=4", "log.keep=1")):
        done = run("sft", sft_data, *sets)
        assert done.code == 0, done.err
    changes = json.loads((done.output / "run.json").read_text("utf-8"))["changes"]
    first = {"step": 2, "settings": {"sft.steps": [2, 3], "log.keep": [2, 1]}}
    assert changes == [first, {"step": 3, "settings": {"sft.steps": [3, 4]}}]
    page = (done.output / "train.html").read_text("utf-8")
    table = page.partition("Changed when the training continued")[2].partition("</table>")[0]
    assert table.count("sft.steps") == 2 and ">3</td>" in table and "secret" not in table


def test_what_a_killed_process_left_half_is_removed(run: Command, sft_data: Path) -> None:
    half = run.home / "out" / "checkpoints" / ".step-000001.4242"
    half.mkdir(parents=True)
    (half / "trainer.pt").write_bytes(b"half")
    (run.home / "out" / "run.json").write_text('{"command": "sft"}')  # which a training writes first
    assert run("sft", sft_data).code == 0
    assert not half.exists()


ENDS = [
    (JudgesDown("no answer for 1 s"), 3, "no answer for 1 s; ", "run the same command again"),
    (SamplerError("the server is gone"), 3, "the server is gone; ", "run the same command again"),
    (KeyboardInterrupt(), 130, "interrupted; ", "run the same command again"),
    (torch.OutOfMemoryError("CUDA out of memory"), 1, "OutOfMemoryError: CUDA out of memory", "run the same command"),
    (OSError("disk full"), 1, "OSError: disk full", "run the same command again"),
]


@pytest.mark.faults
@pytest.mark.parametrize(("error", "code", "said", "how"), ENDS, ids=[type(case[0]).__name__ for case in ENDS])
def test_what_was_learnt_is_saved_first(
    error: BaseException, code: int, said: str, how: str, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in the third step with no checkpoint due: two steps are saved, and going on makes the third alone."""
    real = sft.sft_step

    def ends(vlm: Any, optimiser: Any, samples: Any, step: int, tokens: int) -> Any:
        if step == STEPS - 1:
            raise error
        return real(vlm, optimiser, samples, step, tokens)

    sets = (f"sft.steps={STEPS}", "log.save_every_s=0")
    with monkeypatch.context() as patch:
        patch.setattr(sft, "sft_step", ends)
        stopped = run("sft", sft_data, *sets)
    stopped.check_refused(code, said, str(stopped.output / "checkpoints" / "step-000002"), how)
    whole = run("sft", sft_data, *sets, output="whole")
    resumed = run("sft", sft_data, *sets)
    assert resumed.code == 0
    assert metrics_of(resumed.output) == metrics_of(whole.output)
    assert all(torch.equal(weight, masters_of(whole.output)[n]) for n, weight in masters_of(resumed.output).items())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_signal(
    number: signal.Signals, when: str, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the weights of the second step change it is given up; once they begin to, it is finished first."""
    real, before = Optimiser.step, signal.getsignal(number)

    def struck(self: Optimiser, step: int) -> float:
        if step == 1 and when == "before":
            os.kill(os.getpid(), number)
        norm = real(self, step)
        if step == 1:
            os.kill(os.getpid(), number)
        return norm

    with monkeypatch.context() as patch:
        patch.setattr(Optimiser, "step", struck)
        stopped = run("sft", sft_data, f"sft.steps={STEPS}")
    saved = {"before": 1, "after": 2}[when]
    stopped.check_refused(128 + number, f"stopped by {number.name}; ", f"step-{saved:06d}, run the same command again")
    assert len(metrics_of(stopped.output)) == saved
    assert json.loads((stopped.output / "run.json").read_text("utf-8"))["ended"] == f"Stopped: stopped by {number.name}"
    assert signal.getsignal(number) == before
    whole, resumed = run("sft", sft_data, f"sft.steps={STEPS}", output="whole"), run("sft", sft_data, "sft.steps=3")
    assert metrics_of(resumed.output) == metrics_of(whole.output)


def test_a_second_signal_does_not_cut_the_saving_short(
    run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = training.save_checkpoint

    def struck(*arguments: Any) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(training, "save_checkpoint", struck)
    monkeypatch.setattr(Optimiser, "rates", lambda self, step: os.kill(os.getpid(), signal.SIGTERM) or {})
    stopped = run("sft", sft_data)
    assert stopped.code in (130, 143)
    assert saved_steps(stopped.output) == [1]


def test_a_closed_terminal_ends_a_training_unless_it_was_to_outlive_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with StopSignals(), pytest.raises(Stopped, match="SIGHUP"):
            os.kill(os.getpid(), signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
        with StopSignals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_are_noted_while_they_are_held_back() -> None:
    with StopSignals() as stops:
        stops.hold()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped, match="SIGTERM"):
            stops.release()
        stops.release()
        with pytest.raises(Stopped, match="SIGINT"):
            os.kill(os.getpid(), signal.SIGINT)


def nan_after(step: int, real: Callable[..., float]) -> Callable[..., float]:
    """An optimiser whose step leaves a weight that is no number."""

    def poisoned(self: Optimiser, at: int) -> float:
        norm = real(self, at)
        if at == step:
            with torch.no_grad():
                next(iter(self.masters.values())).view(-1)[0] = torch.nan
        return norm

    return poisoned


@pytest.mark.parametrize("save_every", [0, 1])
def test_weights_that_are_no_numbers_are_never_saved(
    save_every: int, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step leaves one: it is seen at the next save, or by the loss of the third, and nothing is saved."""
    monkeypatch.setattr(Optimiser, "step", nan_after(1, Optimiser.step))
    ran = run("sft", sft_data, f"sft.steps={STEPS}", f"log.save_every={save_every}")
    said = "step-000001: `trainer export " if save_every else "no step was completed, so none is saved"
    ran.check_refused(1, said)
    assert saved_steps(ran.output) == [1] * save_every
    for path in checkpoints(ran.output / "checkpoints"):
        assert all(m.isfinite().all() for m in read_checkpoint(path)["optimiser"]["masters"].values())


def test_a_loss_that_is_no_number_saves_the_step_before(
    run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = sft.sft_loss, []
    nan = lambda logprobs, n: real(logprobs, n) * (torch.nan if (seen.append(n), len(seen) > 2)[1] else 1)  # noqa: E731
    monkeypatch.setattr(sft, "sft_loss", nan)
    ran = run("sft", sft_data, f"sft.steps={STEPS}")
    ran.check_refused(
        1,
        "the loss is nan on the rows s",
        "step-000002: `trainer export ",
        f"out-step-000002 --model {run.model}` turns it into a",
    )
    assert saved_steps(ran.output) == [2]


def test_a_disk_that_is_full(run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    ran = run("sft", sft_data)
    ran.check_refused(1, "No space left on device", "step 2 cannot be saved")
    assert list((ran.output / "checkpoints").iterdir()) == []


def test_steps_without_a_gradient_are_shown_and_end_the_run(
    run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two steps learn, all others have a gradient of 0."""
    real, seen = sft.sft_loss, []
    flat = lambda logprobs, n: real(logprobs, n) * (0 if (seen.append(n), len(seen) > 2)[1] else 1)  # noqa: E731
    monkeypatch.setattr(sft, "sft_loss", flat)
    ran = run("sft", sft_data, "sft.steps=99", "sft.optimiser.lr=1e-4")
    ran.check_refused(
        1, "10 consecutive steps had no gradient, because the gradient is 0", "step-000012: `trainer export "
    )
    assert [line["idle_steps"] for line in metrics_of(ran.output)] == [0, 0, *range(1, 11)]
    shown = [line for line in ran.err.splitlines() if "no gradient in " in line]
    assert len(shown) == 10 and "no gradient in 4 consecutive steps: the gradient is 0" in shown[3]


def test_epochs_that_end_the_training_before_its_steps_are_named(run: Command, sft_data: Path) -> None:
    ran = run("sft", sft_data, "sft.steps=99", "sft.epochs=1")
    count = len(metrics_of(ran.output))
    cut = f"trainer: sft.epochs = 1 ends the training after step {count}, before sft.steps = 99, because "
    assert cut in ran.err
    assert "ends the training after" not in run("sft", sft_data, "sft.steps=1", "sft.epochs=1").err


@pytest.mark.parametrize(("limit", "code", "steps"), [(2, 1, 2), (0, 0, 4)])
def test_how_many_are_too_many_is_a_setting(limit: int, code: int, steps: int, run: Command, rl_data: Path) -> None:
    """Random weights never answer: no group has answers that differ."""
    ran = run("grpo", rl_data, "grpo.steps=4", "grpo.max_draws=1", f"max_idle_steps={limit}")
    assert ran.code == code, ran.err
    assert len(lines_of(ran.output / "metrics.jsonl")) == steps
    assert "no group has answers with different rewards" in ran.err


def test_a_training_that_changed_nothing_has_a_note_at_its_end(run: Command, rl_data: Path) -> None:
    """Also if it was continued, and if it is repeated."""
    for steps, ends in ((2, 2), (3, 3), (3, 3)):
        ran = run("grpo", rl_data, f"grpo.steps={steps}", "grpo.max_draws=1", "max_idle_steps=0")
        note = f"trainer: no step had a gradient, so no weight has changed: in {ends} of {ends} steps, no group has "
        assert (ran.code, ran.err.count(note), ran.err.count("no weight has changed")) == (0, 1, 1), ran.err


FLAT = {"step": 1, "grad_norm": 0.0, "reward": 0.5, "groups_kept": 2.0, "loss": 0.0}


@pytest.mark.parametrize(
    ("lines", "decay", "said"),
    [
        ([], 0.0, None),
        ([FLAT, FLAT | {"grad_norm": 1e-9}], 0.0, None),
        ([FLAT], 0.0, "so no weight has changed: in 1 of 1 steps, the rewards within each group are nearly equal;"),
        ([FLAT, {"step": 2}, FLAT], 0.1, "so the model has learnt nothing: in 2 of 3 steps, the rewards within each"),
        (
            [{"step": 1}],
            0.0,
            "so no weight has changed: in 1 of 1 steps, no rollout was scored; look with gt.reward for",
        ),
    ],
)
def test_the_note_of_a_training_without_a_gradient(
    lines: list[dict[str, float | None]], decay: float, said: str | None
) -> None:
    note = note_idle(lines, decay)
    assert note is None if said is None else said in str(note)


IDLE = [
    ({"reward": None, "groups_kept": 2.0, "loss": None}, "no rollout was scored"),
    ({"reward": 0.0, "groups_kept": 0.0, "loss": None}, "no group has answers with different rewards"),
    ({"reward": 0.5, "groups_kept": 2.0, "loss": None}, "cut off at rollout.max_new_tokens"),
    ({"reward": 0.5, "groups_kept": 2.0, "loss": 0.0}, "the rewards within each group are nearly equal"),
]


@pytest.mark.parametrize(("metrics", "said"), IDLE)
def test_why_nothing_was_learnt(metrics: dict[str, float | None], said: str) -> None:
    assert said in idle_because(metrics)
