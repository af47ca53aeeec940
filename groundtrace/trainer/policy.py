"""Computes the log-probabilities of a batch's targets. This is the forward pass of SFT and GRPO.

A target is a token whose prediction is part of the loss. Logits are computed in float32, only for targets, and for at
most :data:`CHUNK` targets at a time. The logits are not kept in memory for the backward pass, because the logits of a
whole row would be the largest tensor. Instead, the backward pass computes them again. The vision tower encodes each
distinct image once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from groundtrace.trainer import attention
from groundtrace.trainer.collate import Batch, DistinctImages
from groundtrace.trainer.model import VisionLanguageModel, set_attention
from groundtrace.trainer.sharding import as_forward

CHUNK = 2048
"""The number of targets whose logits are in memory at the same time: 1.2 GB for a vocabulary of 152,000 tokens."""
_IMPOSSIBLE = -1e30  # finite, so that 0 times it is 0 in the entropy


@dataclass(frozen=True)
class Scores:
    """Holds two tensors (M,) float32 about the M targets of a batch (tokens whose prediction is part of the loss).

    ``logprobs`` are the log-probabilities of the targets. ``entropy`` holds the entropies of the distributions from
    which the targets are predicted.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor


def score(vlm: VisionLanguageModel, batch: Batch, temperature: float = 1.0, never: Sequence[int] = ()) -> Scores:
    """Return the log-probabilities of the batch's targets, and the entropies of the distributions that predict them.

    A target is a token whose prediction is part of the loss. ``batch`` must be on the model's device. ``temperature``
    is the sampling temperature, by which the logits are divided. ``never`` are the ids of the tokens that the sampler
    must not draw. Their probability is set to 0, as in sampling. The entropies have no gradient.
    """
    set_attention(vlm.model, attention.NAME)
    return Scores(*as_forward(vlm.model, lambda: _scored(vlm, batch, temperature, never)))


def _scored(
    vlm: VisionLanguageModel, batch: Batch, temperature: float, never: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = vlm.model.model(
        input_ids=batch.ids[None],
        position_ids=batch.positions[:, None],
        mm_encoder_outputs=image_features(vlm, batch),
        use_cache=False,
        cu_seq_lens_q=batch.ends,
        cu_seq_lens_k=batch.ends,
        max_length_q=batch.longest,
        max_length_k=batch.longest,
    ).last_hidden_state[0, batch.before]
    head = vlm.model.get_output_embeddings()
    parts = []
    for rows, targets in zip(hidden.split(CHUNK), batch.targets.split(CHUNK), strict=True):
        if torch.is_grad_enabled():
            parts.append(checkpoint(_of_chunk, head, rows, targets, temperature, never, use_reentrant=False))
        else:
            parts.append(_of_chunk(head, rows, targets, temperature, never))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _of_chunk(
    head: torch.nn.Module, rows: torch.Tensor, targets: torch.Tensor, temperature: float, never: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = head(rows).float() / temperature
    if never:
        logits = logits.index_fill(1, torch.tensor(never, device=logits.device), _IMPOSSIBLE)
    total = logits.logsumexp(dim=1)
    with torch.no_grad():
        entropy = total - (logits.softmax(dim=1) * logits).sum(dim=1)
    return logits.gather(1, targets[:, None])[:, 0] - total, entropy


def image_features(vlm: VisionLanguageModel, images: Batch | DistinctImages) -> dict[str, Any] | None:
    """Return the vision tower's features of the images, as the model's forward pass needs them.

    The result is None if there are no images. The features are computed once for each distinct image, and returned in
    the order of the image tokens. The model's attention must be :data:`groundtrace.trainer.attention.NAME`.
    """
    if images.patches is None:
        return None
    seen = vlm.model.model.get_image_features(images.patches, images.grids, return_dict=True)
    seen.pooler_output = tuple(seen.pooler_output[index] for index in images.shown)
    if getattr(seen, "deepstack_features", None):
        seen.deepstack_features = [tuple(layer[index] for index in images.shown) for layer in seen.deepstack_features]
    return {"image": seen}
