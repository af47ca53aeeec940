"""Defines the data of the trainer: tokenised conversations with their images, and sampled responses.

A sampled response (rollout) keeps the tokens that were drawn, so that its text is never tokenised again.
"""

import itertools
from dataclasses import dataclass, replace
from enum import StrEnum

import torch

from groundtrace.rewards.trajectory import Trajectory


@dataclass(frozen=True)
class EncodedImage:
    """Holds an image, encoded for the vision tower.

    Attributes:
        key: a text that is equal for equal images, so that the vision tower encodes each image of a batch once.
        patches: (patches, values per patch) float32, the image's patches.
        grid: the numbers of patches in time, height and width. Their product is the number of patches.
        tokens: the number of image tokens that the image has in a sequence.
        width: the width of the original image in pixels, after its rotation to upright.
        height: the height of the original image in pixels, after its rotation to upright.
    """

    key: str
    patches: torch.Tensor
    grid: tuple[int, int, int]
    tokens: int
    width: int
    height: int


@dataclass(frozen=True)
class TurnSpan:
    """Holds the token range of one turn in a tokenised conversation: from index ``start`` to index ``end`` (exclusive).

    ``is_ours`` is True if the assistant wrote the turn.
    """

    start: int
    end: int
    is_ours: bool


@dataclass(frozen=True)
class Sample:
    """Holds one tokenised conversation, a sequence of L tokens.

    Attributes:
        id: the id of the question.
        group: the name of the group of responses to which this sample belongs. In GRPO, it consists of the step, the
            index of the group in the step, and the id of the row. So two prompts of one question have different groups.
        ids: (L,) int64, the token ids, including image tokens.
        loss_mask: (L,) bool, whether the token is a target: its prediction from the tokens before it is part of the
            loss.
        is_image: (L,) bool, whether the token is an image token.
        images: the images, in the order of their tokens.
        turns: the token ranges of the turns, in order and without gaps.
        stream: the name of the form of response that the prompt requests, such as ``textual``; "" if there is only one
            form.
        sampler_logprobs: (L,) float32, the log-probabilities of the tokens by the sampler that drew them. They are 0 in
            the prompt. The field is None if the sampler does not report them.
        advantages: (L,) float32, the tokens' advantages; None before they are computed, and in SFT.
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
        """Return the number of targets: tokens whose prediction is part of the loss."""
        return int(self.loss_mask.sum())

    @property
    def response_tokens(self) -> int:
        """Return the number of tokens from the first token that counts in the loss to the end; 0 if no token counts.

        A sample is a prompt with its response, or only a prompt. The result is:

        - for a prompt with its response, the number of tokens of the response;
        - for the prompt of the first turn, 0, because no token counts;
        - for the prompt of a later turn, which contains the earlier turns of the response, the number of tokens that
          the response already has.
        """
        return len(self) - int(self.loss_mask.int().argmax()) if self.targets else 0


class Limit(StrEnum):
    """Lists the limits that a response can reach. Each value is the name of the setting that defines the limit.

    A response ends when it reaches ``TURNS`` or ``TOKENS``. A response that reaches ``TIME`` is lost: it gets no score.
    A response that reaches ``IMAGES`` continues without further images.
    """

    TURNS = "max_turns"
    TOKENS = "max_new_tokens"
    IMAGES = "max_images"
    TIME = "max_wait_s"


@dataclass(frozen=True, eq=False)
class Observed:
    """Holds an observation (a tool's result or another answer of the environment) in a response.

    ``tokens`` is the observation as tokens. ``start`` is the index of its first token in the response.
    """

    start: int
    tokens: Sample

    @property
    def end(self) -> int:
        """Return the index of the first token after this observation (a tool's result), among the response's tokens."""
        return self.start + len(self.tokens)


@dataclass(frozen=True)
class Rollout:
    """Holds a sampled response: one turn of the policy (the model in training), or several turns with observations.

    An observation is the answer of an environment to a turn, such as a tool's result.

    Attributes:
        ids: the token ids of the response. They include the end token, if any, and the tokens of observations.
        is_truncated: whether the response was cut off at ``rollout.max_new_tokens``.
        logprobs: the log-probability of each token in the distribution from which it was drawn. It is 0 for tokens of
            observations. The field is None if the sampler does not report log-probabilities.
        observed: the observations, in order.
        text: the text of the response with the text of its observations. A sampler, which returns single turns, leaves
            the field None; the text is then decoded from ``ids``.
        trajectory: the results of the response's tool calls; None if the environment does not return them.
        lost: the reason why the environment could not continue; "" if it could. A lost response gets no score.
        limits: the limits that the response reached, in the order of :class:`Limit`. A sampler, which returns single
            turns, leaves the field empty; the field is set when a whole response is put together from its turns.
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
        """Return where each turn of the policy (the model in training) is in ``ids``, as pairs (start, end).

        A turn has the tokens from index ``start`` to index ``end`` (exclusive).
        """
        bounds = [0, *itertools.chain.from_iterable((each.start, each.end) for each in self.observed), len(self.ids)]
        return tuple(zip(bounds[::2], bounds[1::2], strict=True))

    def without_images(self) -> "Rollout":
        """Return a copy of the response without the images of its observations (results of tools).

        This smaller copy is sent to the other ranks (the processes of the other GPUs).
        """
        kept = (Observed(each.start, replace(each.tokens, images=())) for each in self.observed)
        return replace(self, observed=tuple(kept))

    @property
    def own_tokens(self) -> int:
        """Return the number of tokens that the model itself wrote, without those of observations (results of tools)."""
        return len(self.ids) - sum(len(each.tokens) for each in self.observed)
