"""Will it fit? An estimate of a training step's memory before it starts, and a refusal that shows the arithmetic.

Counted are the weights in their own precision, float32 master weights and gradients, the optimiser's two moments (one
for Muon), a chunk of logits, and what the backward pass keeps of each token: with checkpointing one hidden state a
layer, without it some 34 hidden sizes a layer (Korthikanti et al. 2022, arXiv:2205.05198, Eq. 2 without its attention
term, which the kernels used here do not keep) at 16 bits. It is a lower bound: fragmentation comes on top.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from schemas.errors import UserError
from trainer.policy import CHUNK
from trainer.settings import TrainerSettings

_KEPT_BYTES_PER_HIDDEN = 34
GIB = 2**30


class DoesNotFit(UserError):
    """The step needs more memory than there is; the message is the arithmetic."""


@dataclass(frozen=True)
class Estimate:
    """Bytes by what they are for."""

    parts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(size for _, size in self.parts)


def estimate(model: Any, settings: TrainerSettings) -> Estimate:
    """The memory of one training step of a loaded model."""
    weights = list(model.parameters())
    trained = [weight for weight in weights if weight.requires_grad]
    count = sum(weight.numel() for weight in trained)
    copies = sum(4 * weight.numel() for weight in trained if weight.dtype != torch.float32)
    text = model.config.text_config
    word = 4 if settings.model.dtype == "float32" else 2
    hidden = settings.batch.tokens * text.hidden_size * text.num_hidden_layers
    kept = hidden * (word if settings.model.gradient_checkpointing else _KEPT_BYTES_PER_HIDDEN * word // 2)
    reference = sum(w.numel() * w.element_size() for w in weights) if settings.grpo.kl_beta > 0 else 0
    return Estimate(
        (
            ("weights", sum(weight.numel() * weight.element_size() for weight in weights)),
            ("float32 master weights", copies),
            ("gradients", 4 * count),
            ("optimiser moments", (4 if settings.optimiser.muon_lr > 0 else 8) * count),
            ("activations", kept),
            ("a chunk of logits", 3 * 4 * min(CHUNK, settings.batch.tokens) * text.vocab_size),
            ("reference model", reference),
        )
    )


def available_bytes() -> int:
    """The memory of the GPU, or of the machine where there is none."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(0).total_memory
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo does not say how much memory is available")


def refuse_if_too_large(found: Estimate, available: int) -> None:
    """Raise DoesNotFit where the estimate exceeds what is available."""
    if found.total <= available:
        return
    sums = " + ".join(f"{size / GIB:.1f} {name}" for name, size in found.parts if size)
    raise DoesNotFit(
        f"{sums} = {found.total / GIB:.1f} GiB, but {available / GIB:.1f} GiB are there: lower batch.tokens, set "
        "model.gradient_checkpointing, model.freeze_vision or model.lora_rank, or take a smaller model"
    )
