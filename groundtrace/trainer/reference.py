"""Provides the reference model of GRPO's KL term: the policy (the model in training) as it is before training."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from groundtrace.trainer.model import VisionLanguageModel


def reference_of(vlm: VisionLanguageModel) -> Any:
    """Return the reference model for the KL term. Call this before the training starts.

    The reference model is the model as it is before training. If the model has LoRA adapters, only the adapters are
    trained, so the model with its adapters switched off is the reference model. In this case, the result is the model
    itself; compute with it only within :func:`without_adapters`. For a model without adapters, the result is a frozen
    copy.
    """
    if vlm.settings.lora_rank:
        return vlm.model
    return copy.deepcopy(vlm.model).requires_grad_(False).eval()


@contextlib.contextmanager
def without_adapters(model: Any) -> Iterator[None]:
    """Switch a model's LoRA adapters off while the body of the ``with`` runs.

    A model without adapters does not change.
    """
    layers = [layer for layer in model.modules() if hasattr(layer, "lora_A")]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
