"""The trainer's one record: a tokenised sequence with its images, and what is known of each of its tokens."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class EncodedImage:
    """An image as the vision tower takes it.

    Attributes:
        key: the same for the same image at the same size, so that a batch looks at each once.
        patches: (patches, numbers of a patch), float32.
        grid: temporal, vertical and horizontal patches; their product is the number of patches.
        tokens: how many image tokens stand for it.
        width: of the upright original in pixels.
        height: of the upright original in pixels.
    """

    key: str
    patches: torch.Tensor
    grid: tuple[int, int, int]
    tokens: int
    width: int
    height: int


@dataclass(frozen=True)
class TurnSpan:
    """The tokens ``start`` to ``end`` (exclusive) of one turn; ``is_ours`` for what the model wrote."""

    start: int
    end: int
    is_ours: bool


@dataclass(frozen=True)
class Sample:
    """One sequence of L tokens.

    Attributes:
        id: the question's.
        group: samples with the same group are compared with each other; a question may stand in one group with two
            prompts, so this is never the prompt's text.
        ids: (L,) int64, image tokens included.
        loss_mask: (L,) bool: this token is predicted, from those before it, and counts.
        is_image: (L,) bool: an image token stands here.
        images: in the order of their tokens.
        turns: in order and without gaps.
        stream: the recipe's name for this kind of response, "" where there is only one.
        sampler_logprobs: (L,) float32, of the tokens as they were sampled; None where the sampler gave none.
        advantages: (L,) float32 per token; None before they are known, and in SFT.
        is_truncated: the response was cut off at its longest.
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
        """How many tokens count."""
        return int(self.loss_mask.sum())
