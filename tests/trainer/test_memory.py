"""The arithmetic of a step's memory, by hand."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trainer.memory import GIB, DoesNotFit, Estimate, available_bytes, estimate, refuse_if_too_large
from trainer.settings import BatchSettings, GrpoSettings, ModelSettings, OptimiserSettings, TrainerSettings


def _model(dtype: torch.dtype) -> Any:
    """40 trained weights and 3 frozen float32 ones: hidden size 4, 2 layers, 10 tokens in the vocabulary."""
    model: Any = nn.ParameterList([nn.Parameter(torch.zeros(10, 4, dtype=dtype)), nn.Parameter(torch.zeros(3))])
    model[1].requires_grad_(False)
    model.config = SimpleNamespace(text_config=SimpleNamespace(hidden_size=4, num_hidden_layers=2, vocab_size=10))
    return model


BF16 = {
    "weights": 40 * 2 + 3 * 4,
    "float32 master weights": 40 * 4,
    "gradients": 40 * 4,
    "optimiser moments": 40 * 8,
    "activations": 8 * 4 * 2 * 34,  # tokens * hidden * layers * 34 bytes
    "a chunk of logits": 3 * 4 * 8 * 10,  # three float32 copies of tokens * vocabulary
    "reference model": 0,
}


@pytest.mark.parametrize(
    ("settings", "dtype", "changes"),
    [
        ({}, "bfloat16", {}),
        ({"model": {"gradient_checkpointing": True}}, "bfloat16", {"activations": 8 * 4 * 2 * 2}),
        ({"optimiser": {"muon_lr": 0.02}}, "bfloat16", {"optimiser moments": 40 * 4}),
        ({"grpo": {"kl_beta": 0.01}}, "bfloat16", {"reference model": 40 * 2 + 3 * 4}),
        (
            {},
            "float32",
            {"weights": 43 * 4, "float32 master weights": 0, "activations": 8 * 4 * 2 * 68},
        ),
        (
            {"model": {"gradient_checkpointing": True}},
            "float32",
            {"weights": 172, "float32 master weights": 0, "activations": 256},
        ),
    ],
)
def test_estimate(settings: dict[str, dict[str, Any]], dtype: str, changes: dict[str, int]) -> None:
    made = TrainerSettings(
        ModelSettings("x", dtype=dtype, **settings.get("model", {})),
        batch=BatchSettings(8, 8),
        optimiser=OptimiserSettings(**settings.get("optimiser", {})),
        grpo=GrpoSettings(**settings.get("grpo", {})),
    )
    found = estimate(_model(getattr(torch, dtype)), made)
    assert dict(found.parts) == BF16 | changes
    assert found.total == sum((BF16 | changes).values())


def test_logits_are_counted_for_one_chunk() -> None:
    made = TrainerSettings(ModelSettings("x"), batch=BatchSettings(8, 10**6))
    assert dict(estimate(_model(torch.bfloat16), made).parts)["a chunk of logits"] == 3 * 4 * 2048 * 10


def test_the_refusal_shows_the_arithmetic() -> None:
    found = Estimate((("weights", 3 * GIB), ("gradients", GIB // 2), ("reference model", 0)))
    with pytest.raises(DoesNotFit) as refused:
        refuse_if_too_large(found, 2 * GIB)
    assert str(refused.value) == (
        "3.0 weights + 0.5 gradients = 3.5 GiB, but 2.0 GiB are there: lower batch.tokens, set "
        "model.gradient_checkpointing, model.freeze_vision or model.lora_rank, or take a smaller model"
    )


def test_what_just_fits_is_not_refused() -> None:
    refuse_if_too_large(Estimate((("weights", 5),)), 5)
    with pytest.raises(DoesNotFit):
        refuse_if_too_large(Estimate((("weights", 6),)), 5)


def test_there_is_some_memory() -> None:
    assert available_bytes() > 2**26
