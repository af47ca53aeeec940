"""The interface of samplers, and their output.

A rollout holds the drawn tokens, never text that would have to be tokenised again.
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
        ids: its tokens, including the end token if there is one.
        is_truncated: whether it was cut off at ``max_new_tokens``.
        logprobs: each token's log-probability in the distribution it was drawn from; None means the trainer's own.
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
        """Load the policy's current weights. Must be called before :meth:`sample` whenever they have changed."""
        ...
