"""A training left alone: what is saved, when, whatever ends it, and what may change before it goes on."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from schemas.errors import UserError
from schemas.files import locked
from trainer import cli, grpo, sft, training
from trainer.checkpoint import checkpoints, read_checkpoint
from trainer.identity import FREE, FREE_OF_ENDPOINTS, difference, identity
from trainer.optimiser import Optimiser
from trainer.reward import JudgesDown
from trainer.sampling import SamplerError
from trainer.settings import TrainerSettings
from trainer.sft import train_sft
from trainer.stopping import Stopped, Stops

from .runs import Command, lines_of, metrics_of, records, rl_row, settings_of

STEPS = 3


@pytest.fixture
def run(tmp_path: Path, folders: Any, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, folders["qwen3"], capsys)


@pytest.fixture
def sft_data(tmp_path: Path, row: Callable[..., Any], write_shards: Callable[..., Path]) -> Path:
    return write_shards(tmp_path / "sft-run", [row(id=f"s{number}") for number in range(3)])


@pytest.fixture
def rl_data(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    rows = [rl_row(record) for record in records("662-1-0-c0", "662-1-0-c1")]
    return write_shards(tmp_path / "rl-run", rows, "rl")


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


def test_what_a_killed_process_left_half_is_removed(run: Command, sft_data: Path) -> None:
    half = run.home / "out" / "checkpoints" / ".step-000001.4242"
    half.mkdir(parents=True)
    (half / "trainer.pt").write_bytes(b"half")
    assert run("sft", sft_data).code == 0
    assert not half.exists()


ENDS = [
    (JudgesDown("no answer for 1 s"), 3, "no answer for 1 s; ", "run the same command again"),
    (SamplerError("the server is gone"), 3, "the server is gone; ", "run the same command again"),
    (KeyboardInterrupt(), 130, "interrupted; ", "run the same command again"),
    (torch.OutOfMemoryError("CUDA out of memory"), 1, "OutOfMemoryError: CUDA out of memory", "run the same command"),
    (OSError("disk full"), 1, "OSError: disk full", "run the same command again"),
]


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


def test_signals_are_noted_while_they_are_held_back() -> None:
    with Stops() as stops:
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
    said = "step-000001: `trainer export` makes a model of it" if save_every else "no step was done, so none is saved"
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
    ran.check_refused(1, "the loss is nan on s", "step-000002: `trainer export` makes a model of it")
    assert saved_steps(ran.output) == [2]


def test_a_disk_that_is_full(run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    ran = run("sft", sft_data)
    ran.check_refused(1, "No space left on device", "step 2 cannot be saved")
    assert list((ran.output / "checkpoints").iterdir()) == []


# What may change before a run goes on, and what may not


def test_more_steps(run: Command, sft_data: Path) -> None:
    """And other log settings and threads: the same as one run of that length."""
    assert run("sft", sft_data).code == 0
    more = run("sft", sft_data, "sft.steps=4", "log.keep=1", "threads=2", "model.gradient_checkpointing=true")
    assert more.code == 0, more.err
    whole = run("sft", sft_data, "sft.steps=4", output="whole")
    assert [line["step"] for line in metrics_of(more.output)] == [0, 1, 2, 3]
    found, expected = (
        [line["loss"] for line in metrics_of(more.output)],
        [line["loss"] for line in metrics_of(whole.output)],
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_fewer_steps_than_are_done(run: Command, sft_data: Path) -> None:
    assert run("sft", sft_data).code == 0
    run("sft", sft_data, "sft.steps=1").check_refused(2, "step-000002 is beyond the 1 steps of this run")


REFUSED = [
    ("seed=1", "seed was 0 and is now 1"),
    ("optimiser.lr=0.5", "optimiser.lr was 1e-05 and is now 0.5"),
    ("batch.tokens=2048", "batch.tokens was 1024 and is now 2048"),
    ("sft.samples_per_step=3", "sft.samples_per_step was 2 and is now 3"),
    ("model.freeze_vision=true", "model.freeze_vision was False and is now True"),
]


def test_what_changes_the_result_is_refused(run: Command, sft_data: Path, rl_data: Path) -> None:
    assert run("sft", sft_data).code == 0
    for change, said in REFUSED:
        run("sft", sft_data, change).check_refused(2, "step-000002 is of another run, ", said, "another --output")
    other = run("sft", rl_data, "seed=0")
    other.check_refused(2)


JUDGE = {
    "endpoints": {"judge": {"kind": "openai", "model": "m", "base_url": "http://a/v1"}},
    "roles": {"judge": "judge"},
}


class Rows:
    """What an identity looks at of shards."""

    def __init__(self, count: int = 4, sha256: str = "aa" * 32) -> None:
        self.count, self.sha256 = count, sha256

    def __len__(self) -> int:
        return self.count


def made(command: str, settings: TrainerSettings, rows: Any = None) -> dict[str, Any]:
    return identity(command, settings, rows or Rows())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"endpoints": {"judge": {**JUDGE["endpoints"]["judge"], "base_url": "http://b/v1"}}}, None),
        ({"endpoints": {"judge": {**JUDGE["endpoints"]["judge"], "max_retries": 1, "api_key_env": "K"}}}, None),
        ({"wait_s": 1.0}, None),
        ({"endpoints": {**JUDGE["endpoints"], "spare": JUDGE["endpoints"]["judge"]}}, None),
        (
            {"endpoints": {"judge": {**JUDGE["endpoints"]["judge"], "model": "n"}}},
            "reward.endpoints.judge.model was 'm' and is now 'n'",
        ),
        ({"options": {"skip": ["format"]}}, "reward.options.skip was left out and is now ['format']"),
        ({"recipe": "ivgr"}, "reward.recipe was 'argos' and is now 'ivgr'"),
    ],
)
def test_a_judge_may_move_and_not_change(change: dict[str, Any], said: str | None) -> None:
    one = settings_of(Path("tiny"), reward=JUDGE)
    other = settings_of(Path("tiny"), reward=JUDGE | change)
    assert difference(made("grpo", one), made("grpo", other)) == said
    assert difference(made("sft", one), made("sft", other)) is None, "SFT has no reward"


def test_other_data_are_named() -> None:
    settings = settings_of(Path("tiny"))
    said = difference(made("sft", settings), made("sft", settings, Rows(5)))
    assert said and said.startswith("data was '4 rows, ids sha256 aaaaaaaaaaaa' and is now '5 rows, ")


def test_a_models_folder_is_the_same_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    assert made("sft", settings_of(Path("tiny"))) == made("sft", settings_of(tmp_path / "tiny"))


def test_every_free_key_is_a_setting() -> None:
    """A renamed key would otherwise be refused, or a misspelt one never be free."""
    from inference.settings import EndpointSettings

    settings = settings_of(Path("tiny"))
    for key in FREE:
        at: Any = settings
        for part in key.split("."):
            assert hasattr(at, part), key
            at = getattr(at, part)
    assert set(EndpointSettings.__dataclass_fields__) >= FREE_OF_ENDPOINTS


# Steps in which nothing is learnt


def test_steps_without_a_gradient_are_shown_and_end_the_run(
    run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two steps learn, all others have a gradient of 0."""
    real, seen = sft.sft_loss, []
    flat = lambda logprobs, n: real(logprobs, n) * (0 if (seen.append(n), len(seen) > 2)[1] else 1)  # noqa: E731
    monkeypatch.setattr(sft, "sft_loss", flat)
    ran = run("sft", sft_data, "sft.steps=99", "optimiser.lr=1e-4")
    ran.check_refused(1, "nothing learnt in 10 steps in a row: the gradient is 0", "step-000012: `trainer export`")
    assert [line["idle_steps"] for line in metrics_of(ran.output)] == [0, 0, *range(1, 11)]
    shown = [line for line in ran.err.splitlines() if "nothing learnt, " in line]
    assert len(shown) == 10 and "nothing learnt, 4 in a row: the gradient is 0" in shown[3]


@pytest.mark.parametrize(("limit", "code", "steps"), [(2, 1, 2), (0, 0, 4)])
def test_how_many_are_too_many_is_a_setting(limit: int, code: int, steps: int, run: Command, rl_data: Path) -> None:
    """Random weights never answer: no group has answers that differ."""
    ran = run("grpo", rl_data, "grpo.steps=4", "grpo.max_draws=1", f"max_idle_steps={limit}")
    assert ran.code == code, ran.err
    assert len(lines_of(ran.output / "metrics.jsonl")) == steps
    assert "no group has answers that differ in what they earn" in ran.err


IDLE = [
    ({"reward": None, "groups_kept": 2.0, "loss": None}, "no rollout was scored"),
    ({"reward": 0.0, "groups_kept": 0.0, "loss": None}, "no group has answers that differ in what they earn"),
    ({"reward": 0.5, "groups_kept": 2.0, "loss": None}, "cut off at rollout.max_new_tokens"),
    ({"reward": 0.5, "groups_kept": 2.0, "loss": 0.0}, "the rewards within each group are alike"),
]


@pytest.mark.parametrize(("metrics", "said"), IDLE)
def test_why_nothing_was_learnt(metrics: dict[str, float | None], said: str) -> None:
    assert said in grpo.idle_because(metrics)


# One process at a time


def test_a_folder_that_another_process_writes(run: Command, sft_data: Path) -> None:
    (run.home / "out").mkdir()
    with locked(run.home / "out"):
        run("sft", sft_data).check_refused(2, f"another process is writing {run.home / 'out'}")
    assert run("sft", sft_data).code == 0, "the file of a lock that nobody holds any more does not matter"


def test_a_lock_is_refused_as_the_caller_says(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"), locked(tmp_path / "file"):
        pass


@pytest.mark.parametrize("command", ["sft", "grpo", "eval"])
def test_several_ranks(command: str, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    ran = run(command, sft_data)
    ran.check_refused(2, "WORLD_SIZE is 2, and the trainer is one process")
    assert not ran.output.exists()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert cli.main(["sft", "--config", "gone.toml", "--data", "d", "--output", str(ran.output)]) == 2
    assert "gone.toml" in run.capture.readouterr().err


# How long


LENGTHS = [
    ({"steps": 7}, 100, 7),
    ({"epochs": 1.0}, 100, 25),
    ({"epochs": 2.5}, 10, 7),
    ({"epochs": 0.01}, 10, 1),
]


@pytest.mark.parametrize(("length", "rows", "steps"), LENGTHS)
def test_steps_and_epochs(length: dict[str, Any], rows: int, steps: int) -> None:
    settings = settings_of(Path("tiny"), sft=length | {"samples_per_step": 4})
    assert settings.sft.steps_for(rows) == steps
    rounds = replace(settings.grpo, steps=None, epochs=None, prompts_per_step=4)
    assert replace(rounds, **length).steps_for(rows) == steps


@pytest.mark.parametrize("section", ["sft", "grpo"])
def test_one_of_steps_and_epochs(section: str, run: Command, sft_data: Path, rl_data: Path) -> None:
    data = {"sft": sft_data, "grpo": rl_data}[section]
    both = run(section, data, f"{section}.epochs=2")
    both.check_refused(2, f"{section}.steps = 2 stands beside epochs = 2: leave one of them out")


def test_neither_steps_nor_epochs(folders: Any, sft_data: Path, tmp_path: Path) -> None:
    settings = settings_of(folders["qwen3"])
    with pytest.raises(UserError, match=r"neither sft\.steps nor sft\.epochs is set"):
        train_sft(settings, sft_data, tmp_path / "out")


def test_a_run_of_two_epochs(folders: Any, sft_data: Path, tmp_path: Path) -> None:
    train_sft(settings_of(folders["qwen3"], sft={"epochs": 2.0, "samples_per_step": 2}), sft_data, tmp_path / "out")
    assert len(metrics_of(tmp_path / "out")) == 3
