"""The trainer's data: tokenised sequences with their images, and sampled responses.

A rollout holds the drawn tokens, never text that would have to be tokenised again.
"""

import itertools
from dataclasses import dataclass
from enum import StrEnum

import torch

from groundtrace.rewards.trajectory import Trajectory


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

    @property
    def response_tokens(self) -> int:
        """The number of tokens from the first target on: in a rollout, those of the response so far."""
        return len(self) - int(self.loss_mask.int().argmax()) if self.targets else 0


class Limit(StrEnum):
    """A limit that a response reached; the values are the names of the settings.

    ``TURNS`` and ``TOKENS`` end the response, ``TIME`` loses it; with ``IMAGES`` it goes on without further images.
    """

    TURNS = "max_turns"
    TOKENS = "max_new_tokens"
    IMAGES = "max_images"
    TIME = "max_wait_s"


@dataclass(frozen=True, eq=False)
class Observed:
    """An observation in a rollout: its ``tokens``, which begin at the index ``start`` of the response."""

    start: int
    tokens: Sample

    @property
    def end(self) -> int:
        """The index after its last token."""
        return self.start + len(self.tokens)


@dataclass(frozen=True)
class Rollout:
    """A sampled response: one turn of the policy, or several with an observation behind each but the last.

    Attributes:
        ids: the tokens of the response, including the end token if there is one, and those of observations.
        is_truncated: whether the response was cut off at ``max_new_tokens``.
        logprobs: each token's log-probability in the distribution from which it was drawn, 0 in observations; None if
            this is the trainer's distribution.
        observed: the observations, in order.
        text: the text of the response with its observations; None: that of ``ids``.
        trajectory: how the calls of the response ended; None if the environment does not say.
        lost: the reason why the environment could not go on, "" if it could. A lost response is unscored.
        limits: the limits that the response reached, in the order of :class:`Limit`; () for a turn of a
            sampler.
    """

    ids: tuple[int, ...]
    is_truncated: bool
    logprobs: tuple[float, ...] | None = None
    observed: tuple[Observed, ...] = ()
    text: str | None = None
    trajectory: Trajectory | None = None
    lost: str = ""
    limits: tuple[Limit, ...] = ()

    @property
    def turns(self) -> tuple[tuple[int, int], ...]:
        """The start and end (exclusive) of each turn of the policy in ``ids``."""
        bounds = [0, *itertools.chain.from_iterable((each.start, each.end) for each in self.observed), len(self.ids)]
        return tuple(zip(bounds[::2], bounds[1::2], strict=True))

    @property
    def own_tokens(self) -> int:
        """The number of tokens that the policy wrote."""
        return len(self.ids) - sum(len(each.tokens) for each in self.observed)
