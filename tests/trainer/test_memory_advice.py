"""The refusal of a step that does not fit: each change that it names has the memory that it names."""

import re
from functools import cache

import pytest

from groundtrace.config.settings import load_config
from groundtrace.rewards.rows.settings import CONFIGS, config_file
from groundtrace.trainer import memory_advice
from groundtrace.trainer.memory import GIB, AverageRow
from groundtrace.trainer.memory_advice import DoesNotFit, Step, refuse_if_too_large
from groundtrace.trainer.outline import outline_of
from groundtrace.trainer.settings import TrainerSettings

SMALL = "model.path=Qwen/Qwen3-VL-2B-Instruct"
CHANGE = re.compile(r"(?:: |, )((?:[a-z_]+\.|\d+ GPUs)[^()]*) \(([\d.]+) GiB\)")
_model_of = cache(outline_of)


@pytest.fixture(autouse=True)
def _outlines_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_advice, "outline_of", _model_of)


def settings_with(*sets: str, config: str = "rucl") -> TrainerSettings:
    return load_config(TrainerSettings, config_file(config), [SMALL, *sets], CONFIGS)


def step_of(*sets: str, rows: AverageRow | None = None, is_grpo: bool = True, gpus: int = 1) -> Step:
    settings = settings_with(*sets)
    return Step(_model_of(settings.model), settings, rows, is_grpo, gpus)


def refusal(step: Step, available_gib: float) -> str:
    with pytest.raises(DoesNotFit) as refused:
        refuse_if_too_large(step, round(available_gib * GIB))
    return str(refused.value)


def named(message: str) -> dict[str, float]:
    """The changes that a message names, with their memory in GiB."""
    return {text: float(gib) for text, gib in CHANGE.findall(message)}


HERE = "rollout.kind=transformers"
PLAIN = ("model.gradient_checkpointing=false", "grpo.kl_beta=0", HERE)
ROWS = AverageRow(2000.0, 6000.0, 2.0)
CASES: list[tuple[tuple[str, ...], AverageRow | None, bool, float]] = [
    (PLAIN, None, True, 20.0),
    (PLAIN, None, True, 100.0),
    (PLAIN, None, False, 20.0),
    (PLAIN, None, False, 50.0),
    (PLAIN, ROWS, True, 30.0),
    (("machine.server_gib=22", "model.lora_rank=8"), None, True, 5.0),
    (("rollout.prompts_at_once=256", "rollout.max_new_tokens=4096", HERE), ROWS, True, 40.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("sets", "rows", "is_grpo", "available_gib"), CASES)
def test_each_change_needs_the_memory_that_is_named(
    sets: tuple[str, ...], rows: AverageRow | None, is_grpo: bool, available_gib: float
) -> None:
    before = step_of(*sets, rows=rows, is_grpo=is_grpo)
    first = refusal(before, available_gib).partition("In addition to these changes:")[0]
    found, enough = named(first), named(first.partition("is enough")[2].partition("Each of these alone")[0])
    assert len(found) >= 2
    for text, gib in found.items():
        total = changed(sets, text, rows, is_grpo).estimate().total
        assert total / GIB == pytest.approx(gib, abs=0.051)
        assert total < before.estimate().total
        assert (text in enough) == (gib <= available_gib)


def changed(sets: tuple[str, ...], text: str, rows: AverageRow | None, is_grpo: bool) -> Step:
    """The step after a change, as the user makes it: with --set, and another number of GPUs."""
    own = text.partition(", which")[0].partition(" with the server")[0].split(" and ")
    if (gpus := text.partition(" GPUs")[0]).isdigit():
        return step_of(*sets, rows=rows, is_grpo=is_grpo, gpus=int(gpus))
    if own[0].startswith("model.max_pixels=") and rows is not None:  # a patch has 256 pixels; 4 patches are a token
        patches = rows.images * int(own[0].partition("=")[2]) / 256
        rows = AverageRow(rows.tokens - (rows.patches - patches) / 4, patches, rows.images)
    return step_of(*sets, *own, rows=rows, is_grpo=is_grpo)


def test_the_message() -> None:
    assert refusal(step_of("model.gradient_checkpointing=false", is_grpo=False), 60.0) == (
        "a training step needs 119.9 GiB of memory (4.0 GiB for weights + 7.9 GiB for float32 master weights + "
        "7.9 GiB for gradients of these + 15.9 GiB for optimiser moments + 29.8 GiB for activations + 51.0 GiB for "
        "activations of the vision tower + 3.5 GiB for a chunk of logits), but 60.0 GiB are available. Each "
        "of these changes is enough: model.gradient_checkpointing=true (47.1 GiB), model.lora_rank=32 "
        "(39.8 GiB). Each of these alone is not enough: batch.tokens=8192 (79.5 GiB), 8 GPUs (90.7 GiB). Or use a "
        "smaller model"
    )


def test_changes_that_help_only_after_others() -> None:
    """The rollouts need the most; only without them do the activations decide."""
    first, _, second = refusal(step_of(*PLAIN), 20.0).partition(" In addition to these changes: ")
    assert "model.gradient_checkpointing" not in first
    assert first.endswith("All of them together need 35.6 GiB.")
    assert second.startswith("Each of these changes is enough: model.gradient_checkpointing=true (8.6 GiB).")


@pytest.mark.parametrize(
    ("sets", "rows", "is_grpo", "absent"),
    [
        ((), None, False, ["rollout", "environment", "gradient_checkpointing", "max_pixels", "server_gib"]),
        (("model.lora_rank=8",), None, False, ["lora_rank", "freeze_vision"]),
        (("validation.share=0.1",), None, False, ["GPUs"]),
        ((HERE, "rollout.prompts_at_once=1"), ROWS, True, ["prompts_at_once", "max_images"]),
        (("model.max_pixels=65536", HERE), ROWS, True, ["max_pixels"]),
    ],
)
def test_what_does_not_help_is_not_named(
    sets: tuple[str, ...], rows: AverageRow | None, is_grpo: bool, absent: list[str]
) -> None:
    message = refusal(step_of(*sets, rows=rows, is_grpo=is_grpo), 1.0)
    assert not [name for name in absent if name in message.partition("are available.")[2]]


def test_nothing_helps() -> None:
    sets = ["model.lora_rank=8", "batch.tokens=4", "batch.max_tokens=4", "validation.share=0.1"]
    message = refusal(step_of(*sets, rows=AverageRow(), is_grpo=False), 0.1)
    assert message.endswith("but 0.1 GiB are available. Use a smaller model")


def test_what_just_fits_is_not_refused() -> None:
    step = step_of(is_grpo=False)
    needed = step.estimate().total
    refuse_if_too_large(step, needed)
    with pytest.raises(DoesNotFit):
        refuse_if_too_large(step, needed - 1)
