"""The trainer's data: tokenised sequences with their images, sampled answers, and the interface of their samplers.

A rollout holds the drawn tokens, never text that would have to be tokenised again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True)
class EncodedImage:
    """An image, encoded for the vision tower.

    Attributes:
        key: a key that equal images share, so that a batch encodes each image once.
        patches: (patches, values per patch) float32, the image's patches.
        grid: the numbers of temporal, vertical and horizontal patches, whose product is the number of patches.
        tokens: the number of its image tokens.
        width: width of the upright original in pixels.
        height: height of the upright original in pixels.
    """

    key: str
    patches: torch.Tensor
    grid: tuple[int, int, int]
    tokens: int
    width: int
    height: int


@dataclass(frozen=True)
class TurnSpan:
    """The tokens of one turn, from ``start`` to ``end`` (exclusive); ``is_ours`` is whether the assistant wrote the
    turn.
    """

    start: int
    end: int
    is_ours: bool


@dataclass(frozen=True)
class Sample:
    """One sequence of L tokens.

    Attributes:
        id: the id of the question.
        group: the id of the group of responses that this sample belongs to; a group may have two prompts of one
            question, so this is never the prompt's text.
        ids: (L,) int64, the token ids, including image tokens.
        loss_mask: (L,) bool, whether the token is a target: predicted from the tokens before it and part of the loss.
        is_image: (L,) bool, whether the token is an image token.
        images: the images, in the order of their tokens.
        turns: the turns, in order and without gaps.
        stream: the recipe's name for this kind of response; "" if there is only one kind.
        sampler_logprobs: (L,) float32, the sampler's log-probabilities, 0 in the prompt; None if not recorded.
        advantages: (L,) float32; None before they are computed, and in SFT.
        is_truncated: whether the response was cut off at the maximum length.
    """

    id: str
    group: str
    ids: torch.Tensor
    loss_mask: torch.Tensor
    is_image: torch.Tensor
    images: tuple[EncodedImage, ...]
    turns: tuple[TurnSpan, ...]
    stream: str = ""
    sampler_logprobs: torch.Tensor | None = None
    advantages: torch.Tensor | None = None
    is_truncated: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def targets(self) -> int:
        """The number of targets."""
        return int(self.loss_mask.sum())


class SamplerError(RuntimeError):
    """Answers cannot be sampled; the message says why and what to do."""


@dataclass(frozen=True)
class Rollout:
    """One sampled answer.

    Attributes:
        ids: the answer's tokens, including the end token if there is one.
        is_truncated: whether the answer was cut off at ``max_new_tokens``.
        logprobs: each token's log-probability in the distribution from which it was drawn; None if this is the
            trainer's distribution.
    """

    ids: tuple[int, ...]
    is_truncated: bool
    logprobs: tuple[float, ...] | None = None


class Sampler(Protocol):
    """Draws answers from the current policy."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Returns ``n`` answers to each prompt, in order. The same weights and seed give the same answers."""
        ...

    def sync(self) -> None:
        """Load the policy's current weights. Must be called before :meth:`sample` whenever they have changed."""
        ...
