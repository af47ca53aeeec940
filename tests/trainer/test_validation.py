"""Validation during training: what is held out, what it measures, and that the training goes as it would without it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from groundtrace.schemas.intervals import wilson
from groundtrace.trainer import grpo, sft
from groundtrace.trainer.checkpoint import checkpoints, read_checkpoint
from groundtrace.trainer.validation import validator

from .runs import SAMPLE, Command, Ran, lines_of, metrics_of, records, rl_row, write_records

pytestmark = pytest.mark.slow

ROWS = 12
GRPO = (
    "grpo.prompts_per_step=2",
    "grpo.dynamic_sampling=false",
    "grpo.overlong=soft",
    "grpo.overlong_buffer=24",
    "max_idle_steps=0",
)
HELD = ("validation.share=0.3", "validation.every=2")


@pytest.fixture
def questions(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    """A run whose twelve questions have six images, two questions for each."""
    found = [json.loads(line) for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()]
    images = list({tuple(record["media"]): record for record in found if len(record["media"]) == 1}.values())[:6]
    rows = [rl_row(record, id=f"q{number}-{twin}") for number, record in enumerate(images) for twin in range(2)]
    return write_shards(tmp_path / "questions", rows, "rl")


@pytest.fixture
def traces(tmp_path: Path, write_shards: Callable[..., Path], row: Any, png: Any) -> Path:
    """The same for SFT."""
    rows = [
        row(id=f"s{number}", images=[{"bytes": png(64, 64, number // 2), "path": None}], answer=str(number % 3))
        for number in range(ROWS)
    ]
    return write_shards(tmp_path / "traces", rows)


def masters_of(ran: Ran) -> Mapping[str, torch.Tensor]:
    return read_checkpoint(checkpoints(ran.output / "checkpoints")[-1])["optimiser"]["masters"]


def validations_of(ran: Ran) -> list[dict[str, Any]]:
    """The validations without the time that they took."""
    lines = lines_of(ran.output / "validation.jsonl")
    return [{name: value for name, value in line.items() if name != "wall_s"} for line in lines]


@pytest.mark.parametrize("command", ["sft", "grpo"])
def test_a_validation_changes_nothing_in_the_training(
    command: str, run: Command, questions: Path, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows are left out of both trainings; one asks them. Random draws between steps would show in GRPO."""
    data = {"sft": traces, "grpo": questions}[command]
    sets = (*GRPO, *HELD, f"{command}.steps=4")
    asked = run(command, data, *sets)
    assert asked.code == 0, asked.err
    assert [line["step"] for line in validations_of(asked)] == [0, 2, 4]
    with monkeypatch.context() as patch:
        module = {"sft": sft, "grpo": grpo}[command]
        patch.setattr(validator.Validator, "__call__", lambda self: None)
        assert module.validating is validator.validating
        silent = run(command, data, *sets, output="silent")
    assert silent.code == 0, silent.err
    assert not (silent.output / "validation.jsonl").exists()
    assert metrics_of(asked.output) == metrics_of(silent.output)
    assert all(torch.equal(weight, masters_of(silent)[name]) for name, weight in masters_of(asked).items())
    states = [
        read_checkpoint(checkpoints(each.output / "checkpoints")[-1])["progress"]["random"]["torch"]
        for each in (asked, silent)
    ]
    assert torch.equal(*states)


def test_what_a_validation_of_grpo_measures(run: Command, questions: Path) -> None:
    ran = run("grpo", questions, *GRPO, *HELD, "grpo.steps=2", "validation.samples=2")
    assert ran.code == 0, ran.err
    first, _ = validations_of(ran)
    assert {"reward", "accuracy", "blind_reward", "blind_accuracy", "point_f1", "entropy"} <= set(first)
    assert 0 < first["blind_accuracy"] <= 1 and first["accuracy"] == 0, "random weights do not answer"
    assert [first["accuracy_low"], first["accuracy_high"]] == list(wilson(0, int(first["questions"])))
    assert first["questions"] == 4 and first["entropy"] > 1 and first["response_tokens"] > 1
    assert first["logprob_gap"] < 1e-4 and first["weights_capped"] == 0, "the sampler is the model itself"
    assert "loss" not in first
    assert "trainer: held out for the validation: 4 rows\n" in ran.err
    assert ran.err.count("trainer: the validation has only 4 questions: ") == 1
    assert ran.err.count("validation after ") == 2
    answers = lines_of(ran.output / "validation" / "step-000002.jsonl")
    assert len(answers) == 4 * 2 and {answer["id"] for answer in answers} == held_ids(ran)


def held_ids(ran: Ran) -> set[str]:
    return {asked["id"] for asked in json.loads((ran.output / "validation" / "questions.json").read_text("utf-8"))}


def test_rows_of_one_image_are_all_held_out_or_all_trained_on(run: Command, questions: Path) -> None:
    """So twins are held out together; the trained rows are the others, which the identity of the run says."""
    ran = run("grpo", questions, *GRPO, *HELD, "grpo.steps=1", "log.rollouts_every=1")
    held = held_ids(ran)
    assert len(held) == 4 and {id[:2] + "-0" for id in held} | {id[:2] + "-1" for id in held} == held
    identity = read_checkpoint(checkpoints(ran.output / "checkpoints")[-1])["identity"]
    assert identity["data"].startswith("8 rows, ") and identity["held_out"].startswith("4 rows, ")


def test_a_folder_of_questions(run: Command, questions: Path, tmp_path: Path) -> None:
    """Rows that share an image with the folder's questions are not trained on."""
    found = [json.loads(line) for line in (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()]
    single = [record for record in found if len(record["media"]) == 1]
    folder = write_records(tmp_path / "held", [*single[:1], *records("662-1-0-c0")])
    ran = run("grpo", questions, *GRPO, f"validation.data={folder}", "grpo.steps=1")
    assert ran.code == 0, ran.err
    assert "held out for the validation: 2 rows; not trained on because of their images: " in ran.err
    identity = read_checkpoint(checkpoints(ran.output / "checkpoints")[-1])["identity"]
    assert int(identity["data"].split()[0]) in (8, 10)
    assert validations_of(ran)[0]["questions"] == 2


def test_the_best_checkpoint_of_sft_has_the_lowest_loss(run: Command, traces: Path) -> None:
    """At this learning rate the loss on held-out rows falls and rises again, or falls to the end."""
    sets = (*HELD, "validation.best_by=loss", "sft.steps=6", "sft.optimiser.lr=3e-3")
    stale = run.home / "out" / "best" / "step-000099"  # of a training that died before its first checkpoint
    stale.mkdir(parents=True)
    (stale / "trainer.pt").write_bytes(b"stale")
    (run.home / "out" / "run.json").write_text('{"command": "sft"}')
    ran = run("sft", traces, *sets)
    assert ran.code == 0, ran.err
    losses = {line["step"]: line["loss"] for line in validations_of(ran)}
    assert len(set(losses.values())) == len(losses) == 4
    [best] = checkpoints(ran.output / "best")
    assert int(best.name.removeprefix("step-")) == min(losses, key=losses.__getitem__)
    exported = run.words(["export", str(best), str(run.home / "exported"), "--model", str(run.model)], run.home)
    assert exported.code == 0, exported.err


NOTE = "trainer: the best checkpoint is the model before the training: no later validation is better by validation."


def test_the_best_of_equally_accurate_models_has_the_lowest_loss(run: Command, traces: Path) -> None:
    """Random weights never answer, but the loss on held-out rows falls."""
    ran = run("sft", traces, *HELD, "sft.steps=4", "sft.optimiser.lr=1e-3")
    assert ran.code == 0, ran.err
    found = validations_of(ran)
    assert {line["accuracy"] for line in found} == {0}
    losses = {line["step"]: line["loss"] for line in found}
    [best] = checkpoints(ran.output / "best")
    assert 0 < int(best.name.removeprefix("step-")) == min(losses, key=losses.__getitem__)
    assert NOTE not in ran.err


def test_a_best_checkpoint_that_is_not_the_last_has_its_command(
    run: Command, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter((0.1, 0.5, 0.3))
    monkeypatch.setattr(validator.Validator, "_validate", lambda _: ([], {"accuracy": next(values)}))
    ran = run("sft", traces, *HELD, "sft.steps=4")
    assert ran.code == 0, ran.err
    command = f"trainer export {ran.output}/best/step-000002 {ran.output}-step-000002 --model {run.model}"
    said = "trainer: the best checkpoint by validation.best_by = 'accuracy' is of step 2"
    assert ran.err.count(f"{said}: `{command}` makes a model of it") == 1, ran.err
    assert run.words(command.split()[1:], run.home).code == 0


def test_a_training_that_its_validation_finds_useless_has_a_note(run: Command, questions: Path) -> None:
    ran = run("grpo", questions, *GRPO, *HELD, "grpo.steps=2")
    assert [path.name for path in checkpoints(ran.output / "best")] == ["step-000000"]
    held = f"{ran.output / 'model'} holds the model after the last step: use {run.model} instead"
    assert ran.err.count(f"{NOTE}best_by = 'accuracy'. {held}") == 1, ran.err


def test_a_resumed_training_has_each_validation_once(
    run: Command, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is interrupted in its third step and in the middle of a validation, and has the curves of a whole one."""
    sets = (*HELD, "sft.steps=4")
    whole = run("sft", traces, *sets, output="whole")
    real, validated = sft.sft_step, validator.Validator._validate

    def ends(*arguments: Any) -> Any:
        if arguments[3] == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    def half(self: Any) -> Any:
        if self._training.progress.step == 4:
            raise KeyboardInterrupt
        return validated(self)

    with monkeypatch.context() as patch:
        patch.setattr(sft, "sft_step", ends)
        run("sft", traces, *sets).check_refused(130, "step-000002, run the same command again")
    with monkeypatch.context() as patch:
        patch.setattr(validator.Validator, "_validate", half)
        run("sft", traces, *sets).check_refused(130, "step-000004, run the same command again")
    resumed = run("sft", traces, *sets)
    assert resumed.code == 0, resumed.err
    assert validations_of(resumed) == validations_of(whole)
    assert metrics_of(resumed.output) == metrics_of(whole.output)
    page = (resumed.output / "train.html").read_text("utf-8")
    assert page.count("<title>step 2: ") == page.count("<title>step 4: ") > 0


def test_a_reward_that_rises_while_the_accuracy_falls_ends_the_training(
    run: Command, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = iter([(0.1, 0.6), (0.2, 0.7), (0.3, 0.6), (0.4, 0.5), (0.5, 0.4)])

    def measured(self: Any) -> Any:
        reward, accuracy = next(figures)
        return [], {"reward": reward, "accuracy": accuracy}

    monkeypatch.setattr(validator.Validator, "_validate", measured)
    sets = (*GRPO, "validation.share=0.3", "validation.every=1", "validation.stop_after=2", "grpo.steps=9")
    stopped = run("grpo", questions, *sets)
    said = "from step 1 to 3, the reward rose from 0.200 to 0.400, and the accuracy fell from 0.700 to 0.500"
    stopped.check_refused(1, "in 2 validations in a row", said, "best/step-000001", "checkpoints/step-000003")
    assert "The training was stopped early" in (stopped.output / "train.html").read_text("utf-8")
    again = run("grpo", questions, *sets)
    again.check_refused(1, said)
    on = run("grpo", questions, *sets, "validation.stop_after=0", "grpo.steps=4")
    assert on.code == 0, on.err


REFUSED = [
    (("validation.share=1.0",), "validation.share must be less than 1, got 1.0"),
    (("validation.share=0.1", "validation.data=x"), "validation.share must be 0 if validation.data is set, got 0.1"),
    (("validation.every=0", "validation.share=0.1"), "validation.every"),
    (
        ("validation.share=0.01",),
        "hold out 1 row of 12, but all rows with the same image are held out together, and each image has 2",
    ),
    (("validation.data=nowhere",), "nowhere has no shards and no records.jsonl: give the output folder of"),
    (("validation.share=0.3", "validation.best_by=loss"), "'loss' needs responses, but the held-out rows have none"),
    (("validation.best_by=luck",), "validation.best_by must be 'accuracy', 'reward', 'point_f1' or 'loss'"),
]


@pytest.mark.parametrize(("sets", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_held_out(sets: tuple[str, ...], said: str, run: Command, questions: Path) -> None:
    run("grpo", questions, *GRPO, *sets).check_refused(2, said)


def test_other_questions_are_another_run(run: Command, questions: Path) -> None:
    assert run("grpo", questions, *GRPO, *HELD, "grpo.steps=1").code == 0
    other = run("grpo", questions, *GRPO, *HELD, "grpo.steps=2", "validation.samples=3")
    said = "validation.samples was 1 and is now 3; the set of held-out questions was '4 rows"
    other.check_refused(2, said, "asked 1 times' and is now")
    on = run("grpo", questions, *GRPO, *HELD, "grpo.steps=2", "validation.every=1", "validation.best_by=reward")
    assert on.code == 0, on.err
