"""Sampled answers, and what a sampler is.

A rollout is kept as the tokens that were drawn, never as text that is tokenised again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from groundtrace.trainer.sample import Sample


class SamplerError(RuntimeError):
    """Answers cannot be sampled; the message says why and what to do."""


@dataclass(frozen=True)
class Rollout:
    """One sampled answer.

    Attributes:
        ids: its tokens, the one that ends it included where there is one.
        is_truncated: it was cut off at ``max_new_tokens``.
        logprobs: of each token under the distribution it was drawn from; None: taken to be the trainer's own.
    """

    ids: tuple[int, ...]
    is_truncated: bool
    logprobs: tuple[float, ...] | None = None


class Sampler(Protocol):
    """Draws answers from the current policy."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """``n`` answers to each prompt, in order. The same weights and seed give the same answers."""
        ...

    def sync(self) -> None:
        """Take over the policy's weights as they are now. Called before :meth:`sample` whenever they have changed."""
        ...
