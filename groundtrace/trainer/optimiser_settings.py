"""Defines the settings of an optimiser, for the config sections ``sft.optimiser`` and ``grpo.optimiser``."""

import math
from typing import Annotated, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat

from groundtrace.config.settings import Share, settings

_ROUNDING = 1e-9
"""If a product such as 0.1 · 30 exceeds a whole number by at most this value, the excess is treated as a rounding
error of float64."""


@settings
class OptimiserSettings:
    """Holds the settings of the optimiser.

    By default, AdamW trains all weights. If ``muon_lr`` is above 0, Muon trains the matrices of the hidden layers, and
    AdamW trains the other weights.
    """

    lr: Annotated[PositiveFloat, "the learning rate of AdamW"] = 1e-5
    muon_lr: Annotated[NonNegativeFloat, "the learning rate of Muon (0: AdamW alone)"] = 0.0
    beta1: Annotated[float, "AdamW's decay of the mean of gradients"] = 0.9
    beta2: Annotated[float, "AdamW's decay of the mean of their squares"] = 0.999
    weight_decay: Annotated[
        float, "the weight decay of both optimisers, on matrices and larger weights: not on biases and norms"
    ] = 0.0
    warmup_steps: Annotated[NonNegativeInt, "the number of steps over which the learning rate rises"] = 0
    warmup_ratio: Annotated[
        Share, "the same as a share of all steps, rounded up to whole steps; set this or warmup_steps"
    ] = 0.0
    schedule: Annotated[
        Literal["constant", "cosine", "linear"],
        "the learning rate after the warm-up: constant, or falling along a half cosine or a line",
    ] = "constant"
    final_share: Annotated[Share, "the learning rate of the last step, as a share of the full one"] = 0.0
    max_grad_norm: Annotated[PositiveFloat, "gradients with a larger norm are scaled down to this norm"] = 1.0

    def __post_init__(self) -> None:
        if self.warmup_steps and self.warmup_ratio:
            raise ValueError(f"warmup_ratio must be 0 if warmup_steps is set, got {self.warmup_ratio}")

    def warmup_of(self, steps: int) -> int:
        """Return the number of warm-up steps, in which the learning rate rises, for a training of ``steps`` steps."""
        return self.warmup_steps or math.ceil(self.warmup_ratio * steps - _ROUNDING)
