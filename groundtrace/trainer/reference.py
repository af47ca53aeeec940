"""Provides the reference model of GRPO's KL term: the policy (the model in training) as it is before training."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from groundtrace.trainer.model import VisionLanguageModel


def reference_of(vlm: VisionLanguageModel) -> Any:
    """Return the reference model of a policy that is not trained yet.

    If the policy has LoRA adapters, the reference is the policy's own model, because only its adapters are trained.
    Score this reference within :func:`without_adapters`. For any other policy, the reference is a frozen copy.
    """
    if vlm.settings.lora_rank:
        return vlm.model
    return copy.deepcopy(vlm.model).requires_grad_(False).eval()


@contextlib.contextmanager
def without_adapters(model: Any) -> Iterator[None]:
    """Switch the adapters of a model off within this context; a model without adapters is unchanged."""
    layers = [layer for layer in model.modules() if hasattr(layer, "lora_A")]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
