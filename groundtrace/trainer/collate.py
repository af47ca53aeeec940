"""Packs several samples into one row of tokens, and divides the samples of a step into micro-batches.

The row has no padding, so no token is mistaken for padding. Each sample keeps its own positions and attends only to
itself. If several samples have the same image, such as the responses to one question, the batch holds the image once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch

from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Sample


@dataclass(frozen=True)
class DistinctImages:
    """Holds the images of several samples; an image that several samples share is held once.

    Attributes:
        patches: (P, values per patch) float32, the patches of the U distinct images; None without images.
        grids: (U, 3) int64, for each distinct image, its numbers of patches in time, height and width; None without
            images.
        shown: for each image of the samples, in the order of their image tokens, its index among the U distinct images.
            For example, (0, 1, 0) means that the first and third image are the same.
    """

    patches: torch.Tensor | None
    grids: torch.Tensor | None
    shown: tuple[int, ...]

    def to(self, device: torch.device) -> "DistinctImages":
        """Return a copy whose tensors are on this device."""
        if self.patches is None or self.grids is None:
            return self
        return replace(self, patches=self.patches.to(device), grids=self.grids.to(device))


def distinct_images(samples: Sequence[Sample]) -> DistinctImages:
    """Return the images of the samples without duplicates, in the order in which they first occur.

    Images are treated as equal if their keys (:attr:`groundtrace.trainer.sample.EncodedImage.key`) are equal.
    """
    images = {image.key: image for sample in samples for image in sample.images}
    place_of = {key: index for index, key in enumerate(images)}
    return DistinctImages(
        torch.cat([image.patches for image in images.values()]) if images else None,
        torch.tensor([image.grid for image in images.values()]) if images else None,
        tuple(place_of[image.key] for sample in samples for image in sample.images),
    )


@dataclass(frozen=True)
class Batch:
    """Holds a batch: n samples (sequences) in one row of T tokens, with M targets (tokens that count in the loss).

    Attributes:
        ids: (T,) int64, the token ids.
        positions: (4, T) int64, four numbers for each token: its index in its sequence, then its rotary positions in
            time, height and width. Without the index, the models would treat the row as one sequence.
        ends: (n + 1,) int32, the boundaries of the sequences, e.g. [0, 3, 7] for two sequences of 3 and 4 tokens.
        is_image: (T,) bool, whether the token is an image token.
        before: (M,) int64, the indices of the tokens before the targets, from which the targets are predicted.
        targets: (M,) int64, the targets' token ids.
        owner: (M,) int64, the index of the sample to which each target belongs.
        advantages: (M,) float32, the targets' advantages; 1 if the sample has no advantages.
        sampler_logprobs: (M,) float32, the targets' log-probabilities by the sampler that drew them; NaN if they are
            unknown.
        patches: (P, values per patch) float32, the patches of the U distinct images of the samples; None without
            images.
        grids: (U, 3) int64, for each distinct image, its numbers of patches in time, height and width; None without
            images.
        shown: for each image of the samples, in the order of their image tokens, its index among the U images.
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
        """Return a copy of the batch whose tensors are on this device."""
        tensors = {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), torch.Tensor)}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


def collate(vlm: VisionLanguageModel, samples: Sequence[Sample]) -> Batch:
    """Return the samples (tokenised conversations) as one batch: a single row of tokens, in the order of the samples.

    ``vlm`` is the model, which computes the rotary positions of the tokens. Raises ValueError if the loss includes the
    prediction of a sample's first token, since no earlier token predicts it.
    """
    if any(bool(sample.loss_mask[0]) for sample in samples):
        raise ValueError(
            "the first token of a sample is a target of the loss, but no earlier token can predict it: mask this token"
        )
    lengths = torch.tensor([len(sample) for sample in samples])
    mask = torch.cat([sample.loss_mask for sample in samples])
    ids = torch.cat([sample.ids for sample in samples])
    places = torch.cat([torch.arange(len(sample)) for sample in samples])
    rotary = torch.cat([vlm.positions(s.ids, s.is_image, s.images) for s in samples], dim=1)
    at = mask.nonzero()[:, 0]
    images = distinct_images(samples)
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
        images.patches,
        images.grids,
        images.shown,
        int(lengths.max()),
    )


def _per_token(values: Sequence[torch.Tensor | None], lengths: torch.Tensor, default: float) -> torch.Tensor:
    """Return the values of all samples, one value per token, joined into one tensor, (T,) float32.

    T is the number of tokens of all samples together, and ``lengths`` holds the number of tokens of each sample. If a
    sample has None instead of values, each of its tokens gets the value ``default``.
    """
    rows = zip(values, lengths.tolist(), strict=True)
    return torch.cat([torch.full((length,), default) if value is None else value for value, length in rows])


def micro_batches(samples: Sequence[Sample], tokens: int) -> list[list[Sample]]:
    """Divide samples (tokenised conversations) into micro-batches, each for one forward pass; return the micro-batches.

    ``tokens`` is the maximum number of tokens of a micro-batch. A sample that is longer has its own micro-batch. The
    samples are sorted from long to short. So the samples of a micro-batch have similar lengths, and too little memory
    is noticed at the first micro-batch. Samples of equal length keep their order.
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
