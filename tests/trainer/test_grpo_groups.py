"""Which groups a step learns from, and whole runs: the same twice, and the same after an interruption."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from groundtrace.trainer import grpo
from groundtrace.trainer.checkpoint import CheckpointError, checkpoints
from groundtrace.trainer.collate import collate
from groundtrace.trainer.encode import with_response
from groundtrace.trainer.grpo import SEEDS_PER_STEP, collect_groups, grpo_step, train_grpo
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.policy import score
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.sft import train_sft
from groundtrace.trainer.watching import sampled
from groundtrace.trainer.watching.sampled import Sampled

from .runs import (
    LEARNS_LENGTH,
    Said,
    changed,
    lines_of,
    metrics_of,
    records,
    rl_row,
    settings_of,
    trainee_of,
    weights_of,
)

WriteShards = Callable[..., Path]
POINTED = '<think>A <points x1="42" y1="560" alt="blue triangle">blue triangle</points>.</think> <answer>{}</answer>'
RIGHT, WRONG = (f"<think>I see it.</think><answer>{answer}</answer>" for answer in (1, 7))
OFF = POINTED.format("1").replace("42", "300")
MIXED, ALL_RIGHT, ALL_WRONG = [RIGHT, WRONG, RIGHT, WRONG], [RIGHT] * 4, [WRONG] * 4
SHAPED = [POINTED.format("1"), OFF, RIGHT, OFF]
"""All right, and with different rewards: a point on the triangle, points off it, no point."""


@pytest.fixture
def questions(tmp_path: Path, write_shards: WriteShards) -> Callable[[int], Path]:
    """A run with so many questions to draw, q0, q1, …, all about the one blue triangle of a picture."""
    (record,) = records("662-1-0-c0")

    def written(count: int) -> Path:
        rows = [rl_row(record, id=f"q{number}") for number in range(count)]
        for number, row in enumerate(rows):  # prompts that differ, so that their order shows
            row["prompt"][0]["content"] += " Look." * (number + 1)
        return write_shards(tmp_path / f"run{count}", rows, "rl")

    return written


@pytest.fixture
def collected(load: Callable[..., VisionLanguageModel], folders: Any, tmp_path: Path, questions: Any) -> Any:
    """Sampled and kept groups of a step by what is said to each question, and the sampler."""

    def run(script: Mapping[str, Sequence[Sequence[str]]], step: int = 0, **changes: Any) -> Any:
        settings = settings_of(folders["qwen3"], seed=5, grpo={"prompts_per_step": 2} | changes)
        vlm = load("qwen3")
        sampler = Said(vlm, script)
        trainee = trainee_of(vlm, settings, sampler, tmp_path / "out", questions(len(script)))
        sampled, kept = collect_groups(trainee, step)
        trainee.reward.close()
        return sampled, kept, sampler

    return run


@pytest.mark.slow
def test_dynamic_sampling_draws_again(collected: Any) -> None:
    """Of 4 questions 2 are mixed. Whatever the order, both are found and no more is asked than needed."""
    script = {"q0": [MIXED], "q1": [ALL_RIGHT], "q2": [ALL_WRONG], "q3": [MIXED]}
    sampled, kept, sampler = collected(script)
    assert sorted(group.row.id for group in kept) == ["q0", "q3"]
    assert len(sampled) in (2, 3, 4)
    assert {seed for _, seed in sampler.asked} <= {5, 6, 7}, "each draw has a seed of its own"
    assert all(group.is_mixed for group in kept)


@pytest.mark.slow
def test_right_answers_that_point_differently_teach(collected: Any) -> None:
    """The reward of Argos differs although all answers are right."""
    sampled, kept, _ = collected({"q0": [SHAPED], "q1": [ALL_RIGHT]}, max_draws=1)
    assert [group.row.id for group in kept] == ["q0"]
    assert not any(group.is_mixed for group in sampled)
    rewards = sorted({scored.reward for group in sampled for scored in group.scored})
    assert rewards == [0.475, 0.5, 1.0]
    assert {scored.outcome for group in sampled for scored in group.scored} == {1.0}


@pytest.mark.slow
@pytest.mark.parametrize("max_draws", [1, 3])
def test_draws_are_bounded(max_draws: int, collected: Any) -> None:
    sampled, kept, sampler = collected({"q0": [ALL_WRONG], "q1": [ALL_RIGHT]}, step=2, max_draws=max_draws)
    assert (len(sampled), kept) == (2 * max_draws, [])
    first = 5 + 2 * SEEDS_PER_STEP
    assert sorted({seed for _, seed in sampler.asked}) == list(range(first, first + max_draws))


@pytest.mark.slow
def test_only_the_missing_groups_are_drawn_again(collected: Any) -> None:
    """Both are asked; the one that is flat at first stays the only one missing."""
    sampled, kept, sampler = collected({"q0": [MIXED], "q1": [ALL_WRONG, MIXED]}, max_draws=4)
    assert len(kept) == 2
    assert len(sampled) == len(sampler.asked) == 3 + (kept[1].row.id == "q1")


@pytest.mark.slow
def test_without_dynamic_sampling_all_are_kept(collected: Any) -> None:
    sampled, kept, _ = collected({"q0": [ALL_WRONG], "q1": [MIXED]}, dynamic_sampling=False)
    assert sampled == kept
    assert len(kept) == 2


@pytest.mark.slow
def test_a_step_without_groups_changes_nothing(
    load: Callable[..., VisionLanguageModel],
    folders: Any,
    tmp_path: Path,
    questions: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even where momentum and weight decay would move the weights."""
    settings = settings_of(folders["qwen3"], grpo={"max_draws": 2}, optimiser={"weight_decay": 0.5})
    vlm = load("qwen3")
    sampler = Said(vlm, {"q0": [MIXED, ALL_WRONG], "q1": [MIXED, ALL_RIGHT]})
    shown = list[Sampled | None]()
    monkeypatch.setattr(sampled, "CHECK_EVERY_S", 0.001)
    trainee = replace(trainee_of(vlm, settings, sampler, tmp_path / "out", questions(2)), show_sampled=shown.append)
    start = weights_of(vlm)
    _, first = grpo_step(trainee, 0)
    *_, last, end = shown
    assert end is None and last is not None and (last.step, last.steps) == (1, 2)
    assert changed(start, vlm), "the first step learns"
    before = weights_of(vlm)
    groups, metrics = grpo_step(trainee, 1)
    trainee.reward.close()
    assert changed(before, vlm) == []
    assert (metrics["loss"], metrics["grad_norm"]) == (None, None)
    assert (metrics["groups_sampled"], metrics["groups_kept"], len(groups)) == (4.0, 0.0, 4)
    assert (first["outcome"], metrics["outcome"]) == (0.5, 0.5)
    assert sampler.synced == 2


@pytest.mark.slow
def test_a_step_makes_right_answers_likelier(
    load: Callable[..., VisionLanguageModel], folders: Any, tmp_path: Path, questions: Any
) -> None:
    settings = settings_of(folders["qwen3"], grpo={"prompts_per_step": 1})
    vlm = load("qwen3")
    trainee = trainee_of(vlm, settings, Said(vlm, {"q0": [MIXED]}), tmp_path / "out", questions(1))
    (_, prompt), *_ = trainee.draws.take(1)

    def chance(text: str) -> float:
        ids = vlm.tokenizer(text, add_special_tokens=False).input_ids
        with torch.no_grad():
            return float(score(vlm, collate(vlm, [with_response(prompt, ids, "g")])).logprobs.sum())

    before = chance(RIGHT) - chance(WRONG)
    grpo_step(trainee, 0)
    trainee.reward.close()
    assert chance(RIGHT) - chance(WRONG) > before + 0.1


def real_run(folders: Any, **changes: Any) -> TrainerSettings:
    """A run that samples from the model itself and learns to stop early."""
    steps = {"steps": 2} | LEARNS_LENGTH | changes.pop("grpo", {})
    return settings_of(folders["qwen3"], grpo=steps, rollout={"max_new_tokens": 24}, **changes)


@pytest.mark.slow
def test_the_same_twice(folders: Any, questions: Any, tmp_path: Path) -> None:
    """Sampling, scoring and two updates on two epochs, twice from the seed: every figure to its last bit."""
    settings = real_run(folders, grpo={"group_size": 8})
    found = []
    for name in ("a", "b"):
        model = train_grpo(settings, questions(2), tmp_path / name)
        found.append((metrics_of(tmp_path / name), load_file(model / "model.safetensors")))
    (first, weights), (second, same) = found
    assert first == second
    assert [line["step"] for line in first] == [1, 2]
    assert all(line["loss"] is not None and line["grad_norm"] > 0 for line in first), "it did learn"
    assert weights.keys() == same.keys()
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert metrics_of(tmp_path / "a", ()) != first, "times are left out"


class Killed(BaseException):
    """What no handler of the trainer takes for an error of its own."""


def kill_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the run be killed when so many steps are done and the next has changed the weights."""
    real = grpo.grpo_step

    def step_then_die(trainee: Any, step: int) -> Any:
        made = real(trainee, step)
        if step == steps:
            raise Killed
        return made

    monkeypatch.setattr(grpo, "grpo_step", step_then_die)


@pytest.mark.faults
@pytest.mark.parametrize("updates", [1, 2])
def test_killed_and_resumed(
    updates: int, folders: Any, questions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four steps over three questions, killed in the third and gone on with: the same figures and weights."""
    settings = real_run(folders, grpo={"steps": 4, "updates_per_rollout": updates}, log={"save_every": 1})
    whole = load_file(train_grpo(settings, questions(3), tmp_path / "whole") / "model.safetensors")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(2, patch)
        train_grpo(settings, questions(3), tmp_path / "killed")
    assert [line["step"] for line in metrics_of(tmp_path / "killed")] == [1, 2]
    assert checkpoints(tmp_path / "killed" / "checkpoints")[-1].name == "step-000002"
    resumed = load_file(train_grpo(settings, questions(3), tmp_path / "killed") / "model.safetensors")
    assert metrics_of(tmp_path / "killed") == metrics_of(tmp_path / "whole")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.slow
def test_steps_that_were_not_saved_are_made_again(
    folders: Any, questions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed behind the checkpoint: the metrics of the steps between are replaced, not repeated."""
    settings = real_run(folders, grpo={"steps": 4}, log={"save_every": 2})
    train_grpo(settings, questions(3), tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(3, patch)
        train_grpo(settings, questions(3), tmp_path / "killed")
    assert len(metrics_of(tmp_path / "killed")) == 3
    train_grpo(settings, questions(3), tmp_path / "killed")
    assert metrics_of(tmp_path / "killed") == metrics_of(tmp_path / "whole")


@pytest.mark.slow
def test_resumed_after_a_line_was_cut_short(folders: Any, questions: Any, tmp_path: Path) -> None:
    """A kill, or a full disk, may leave half a line of metrics: the step it belongs to is made again."""
    settings = real_run(folders, grpo={"steps": 2}, log={"save_every": 1})
    train_grpo(settings, questions(2), tmp_path / "out")
    expected = metrics_of(tmp_path / "out")
    for folder in checkpoints(tmp_path / "out" / "checkpoints")[1:]:
        (folder / "trainer.pt").unlink()
    path = tmp_path / "out" / "metrics.jsonl"
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")
    train_grpo(settings, questions(2), tmp_path / "out")
    assert metrics_of(tmp_path / "out") == expected


@pytest.mark.slow
def test_a_finished_run_is_left_as_it_is(folders: Any, questions: Any, tmp_path: Path) -> None:
    settings = real_run(folders, grpo={"steps": 1})
    model = train_grpo(settings, questions(2), tmp_path / "out")
    metrics, weights = metrics_of(tmp_path / "out", ()), load_file(model / "model.safetensors")
    assert train_grpo(settings, questions(2), tmp_path / "out") == model
    assert metrics_of(tmp_path / "out", ()) == metrics
    again = load_file(model / "model.safetensors")
    assert all(torch.equal(weights[name], again[name]) for name in weights)


@pytest.mark.slow
def test_a_checkpoint_of_the_other_command_is_refused(
    folders: Any, tmp_path: Path, write_shards: WriteShards, row: Callable[..., dict[str, Any]], questions: Any
) -> None:
    """One config serves both commands; the steps of SFT are not GRPO's."""
    settings = real_run(folders, sft={"steps": 2, "samples_per_step": 1})
    train_sft(settings, write_shards(tmp_path / "data", [row()]), tmp_path / "out")
    with pytest.raises(CheckpointError):
        train_grpo(settings, questions(2), tmp_path / "out")


@pytest.mark.slow
def test_other_data_do_not_go_on_with_a_run(folders: Any, questions: Any, tmp_path: Path) -> None:
    """The place in the data is that of the data it was made on."""
    settings = real_run(folders, grpo={"steps": 2})
    train_grpo(settings, questions(2), tmp_path / "out")
    with pytest.raises(CheckpointError):
        train_grpo(settings, questions(3), tmp_path / "out")


@pytest.mark.slow
def test_what_a_run_leaves(folders: Any, questions: Any, tmp_path: Path) -> None:
    settings = real_run(folders, log={"rollouts_every": 1})
    train_grpo(settings, questions(2), tmp_path / "out")
    run = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    assert (run["command"], run["ended"], run["rows_left_out"]) == ("grpo", "done", 0)
    assert run["revision"] and run["config_sha256"] and run["started"] <= run["finished"]
    names = {path.name for path in (tmp_path / "out" / "model").iterdir()}
    assert {"config.json", "model.safetensors", "generation_config.json", "tokenizer.json"} <= names
    for step in (1, 2):
        lines = lines_of(tmp_path / "out" / "rollouts" / f"step-{step:06d}" / "rollouts.jsonl")
        assert {line["id"] for line in lines} == {"q0", "q1"}
        assert {line["gold"] for line in lines} == {"1"}
        assert {line["reward"] for line in lines} == {0.0}, "the punishment for length is no part of the reward shown"
