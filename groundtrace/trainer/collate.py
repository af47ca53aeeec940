"""Packing samples into one row, and choosing which go together.

There is no padding, so no token is ever mistaken for padding. Each sequence keeps its own positions and sees only
itself. An image that several samples show, as those of a group do, is in the batch once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch

from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Sample


@dataclass(frozen=True)
class Batch:
    """n samples as one row of T tokens, with M targets.

    Attributes:
        ids: (T,) int64.
        positions: (4, T) int64: the place in its own sequence, then time, height and width. Without the first row the
            models would take the row for one sequence.
        ends: (n + 1,) int32, where sequences begin and end.
        is_image: (T,) bool.
        before: (M,) int64, the places whose next token is a target.
        targets: (M,) int64, the targets' ids.
        owner: (M,) int64, the sample of each target.
        advantages: (M,) float32; 1 where the samples have none.
        sampler_logprobs: (M,) float32; NaN where the sampler gave none.
        patches: (P, numbers of a patch) float32 of the U different images; None without any.
        grids: (U, 3) int64.
        shown: indices into the U images, in the order of the image tokens.
        longest: the length of the longest sequence.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    ends: torch.Tensor
    is_image: torch.Tensor
    before: torch.Tensor
    targets: torch.Tensor
    owner: torch.Tensor
    advantages: torch.Tensor
    sampler_logprobs: torch.Tensor
    patches: torch.Tensor | None
    grids: torch.Tensor | None
    shown: tuple[int, ...]
    longest: int

    def to(self, device: torch.device) -> "Batch":
        """The batch with its tensors there."""
        tensors = {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), torch.Tensor)}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


def collate(vlm: VisionLanguageModel, samples: Sequence[Sample]) -> Batch:
    """The samples as one batch, in their order. Raises ValueError where one begins with a target."""
    if any(bool(sample.loss_mask[0]) for sample in samples):
        raise ValueError("the first token of a sample has nothing before it to be predicted from")
    lengths = torch.tensor([len(sample) for sample in samples])
    mask = torch.cat([sample.loss_mask for sample in samples])
    ids = torch.cat([sample.ids for sample in samples])
    places = torch.cat([torch.arange(len(sample)) for sample in samples])
    rotary = torch.cat([vlm.positions(s.ids, s.is_image, s.images) for s in samples], dim=1)
    at = mask.nonzero()[:, 0]
    images = {image.key: image for sample in samples for image in sample.images}
    place_of = {key: index for index, key in enumerate(images)}
    return Batch(
        ids,
        torch.cat([places[None], rotary]),
        torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int(),
        torch.cat([sample.is_image for sample in samples]),
        at - 1,
        ids[at],
        torch.repeat_interleave(torch.arange(len(samples)), lengths)[at],
        _per_token([sample.advantages for sample in samples], lengths, 1.0)[at],
        _per_token([sample.sampler_logprobs for sample in samples], lengths, float("nan"))[at],
        torch.cat([image.patches for image in images.values()]) if images else None,
        torch.tensor([image.grid for image in images.values()]) if images else None,
        tuple(place_of[image.key] for sample in samples for image in sample.images),
        int(lengths.max()),
    )


def _per_token(values: Sequence[torch.Tensor | None], lengths: torch.Tensor, default: float) -> torch.Tensor:
    """(T,) float32 of what each sample has for its tokens."""
    rows = zip(values, lengths.tolist(), strict=True)
    return torch.cat([torch.full((length,), default) if value is None else value for value, length in rows])


def micro_batches(samples: Sequence[Sample], tokens: int) -> list[list[Sample]]:
    """The samples in batches of at most ``tokens`` tokens (or of one sample), longest first.

    Sorted by length, so that those of a batch are alike and the largest batch comes first: if memory is too small, that
    shows at once. Ties keep their order.
    """
    batches: list[list[Sample]] = []
    room = 0
    for sample in sorted(samples, key=len, reverse=True):
        if len(sample) > room:
            batches.append([])
            room = tokens
        batches[-1].append(sample)
        room -= len(sample)
    return batches
