"""Computes on plain tensors: the advantages in a group of responses, the clipped policy loss, and the SFT loss.

A target is a token whose prediction is part of the loss. The loss of an optimiser step is divided by the number of
targets in all its micro-batches (DAPO's token-level loss). So the result does not depend on the number of
micro-batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

FLAT = 1e-9
"""The largest difference between two rewards that are treated as equal."""


def advantages(
    rewards: Sequence[float | None], scale: str = "std", unit: float = 1.0, epsilon: float = 0.0
) -> list[float | None]:
    """Return the advantage of each response in a group: A = (R - mean) / s (Argos Eq. 10).

    A group holds the responses to one prompt. ``rewards`` holds the rewards R of these responses; None for an unscored
    response. ``scale`` selects s: with ``std``, s is the group's sample standard deviation plus ``epsilon``; with
    ``none``, s is 1; with ``fixed``, s is ``unit``. Eq. 10 has no ``epsilon``; we add it. Without it, a tiny
    difference between rewards counts as much as a large one: the rewards 0.5 and 0.501 give the same advantages as the
    rewards 0 and 1.

    An unscored response has the advantage None, and is not part of the mean. All advantages are exactly 0 if the
    rewards differ by at most ``FLAT``, or if fewer than two responses are scored.
    """
    scored = [reward for reward in rewards if reward is not None]
    if is_flat(rewards):
        return [None if reward is None else 0.0 for reward in rewards]
    mean = sum(scored) / len(scored)
    deviation = (sum((reward - mean) ** 2 for reward in scored) / (len(scored) - 1)) ** 0.5
    over = {"std": deviation + epsilon, "none": 1.0, "fixed": unit}[scale]
    return [None if reward is None else (reward - mean) / over for reward in rewards]


def is_mixed(outcomes: Sequence[float | None]) -> bool:
    """Return whether a group has both right and wrong answers, so that a training step can learn from it (DAPO).

    A group holds the responses to one prompt. ``outcomes`` holds 1 for each right answer, and another number for each
    wrong one. It holds None for an unscored answer, which is ignored. Do not pass rewards instead: rewards with several
    components differ in nearly every group.
    """
    scored = {outcome == 1 for outcome in outcomes if outcome is not None}
    return len(scored) == 2


def is_flat(rewards: Sequence[float | None]) -> bool:
    """Return whether the rewards of a group (the responses to one prompt) are equal, so that it gives no gradient.

    Rewards are treated as equal if they differ by at most ``FLAT``. None, the reward of an unscored response, is
    ignored. The result is also True if fewer than two responses are scored.
    """
    scored = [reward for reward in rewards if reward is not None]
    return len(scored) < 2 or max(scored) - min(scored) <= FLAT


@dataclass(frozen=True)
class Clipping:
    """Holds the bounds of the clipped policy loss (:func:`policy_loss`).

    The ratio of a token is its present probability, divided by its probability before the training step's first update.
    It is clipped to the range from 1 - ``low`` to 1 + ``high``. ``importance_cap`` is the upper bound of the importance
    weight. This weight corrects for the difference between the probabilities of the model and those of the sampler that
    drew the tokens.
    """

    low: float = 0.2
    high: float = 0.28
    importance_cap: float = 2.0


@dataclass(frozen=True)
class PolicyLoss:
    """Holds the loss of a micro-batch, and two numbers for the metrics. Each field is a tensor with one number.

    A target is a token whose prediction is part of the loss. ``loss`` is the micro-batch's part of the loss of the
    optimiser step. ``clipped`` is the number of targets whose probability ratio was clipped. ``kl`` is the sum of the
    KL estimates of all targets; it is 0 without a reference model.
    """

    loss: torch.Tensor
    clipped: torch.Tensor
    kl: torch.Tensor


def policy_loss(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    sampler: torch.Tensor,
    advantage: torch.Tensor,
    denominator: float,
    clipping: Clipping,
    reference: torch.Tensor | None = None,
    kl_beta: float = 0.0,
) -> PolicyLoss:
    """Return GRPO's loss -1/N · Σ w · min(r·A, clip(r, 1 - low, 1 + high)·A), a sum over the M targets.

    A target is a token whose prediction is part of the loss. All tensors are (M,), with one value for each target.

    - ``logprobs`` are the model's log-probabilities, with a gradient.
    - ``old`` are the model's log-probabilities before the step's first update. r = exp(logprobs - old) is the
      probability ratio.
    - ``sampler`` are the log-probabilities of the sampler that drew the tokens. w = min(exp(old - sampler), cap) is the
      truncated importance weight. Where ``sampler`` is NaN, ``old`` is used instead, so that w is 1.
    - ``advantage`` is A, and ``denominator`` is N.
    - ``clipping`` holds low, high and cap.
    - ``reference`` are the log-probabilities of the reference model. If they are given, the KL term is added: kl_beta/N
      times the sum of exp(d) - d - 1, with d = reference - logprobs.
    - ``kl_beta`` is the weight of the KL term.
    """
    ratio = (logprobs - old).exp()
    bounded = ratio.clamp(1 - clipping.low, 1 + clipping.high)
    weight = (old - sampler).nan_to_num(nan=0.0).exp().clamp(max=clipping.importance_cap).detach()
    gain = weight * torch.minimum(ratio * advantage, bounded * advantage)
    loss = -gain.sum() / denominator
    kl = torch.zeros_like(loss)
    if reference is not None:
        apart = reference - logprobs
        each = apart.exp() - apart - 1
        kl = each.sum().detach()
        loss = loss + kl_beta * each.sum() / denominator
    clipped = ((ratio * advantage > bounded * advantage).sum()).detach()
    return PolicyLoss(loss, clipped, kl)


def sft_loss(logprobs: torch.Tensor, denominator: float) -> torch.Tensor:
    """Return the loss of supervised fine-tuning, -1/N · Σ ``logprobs``.

    A target is a token whose prediction is part of the loss. ``logprobs`` (M,) are the log-probabilities of a
    micro-batch's targets. ``denominator`` is N, the number of targets in all micro-batches of the optimiser step.
    """
    return -logprobs.sum() / denominator


def overlong_penalty(length: int, longest: int, buffer: int) -> float:
    """Return DAPO's soft penalty for a long response, a number from -1 to 0 that is added to the reward.

    ``length`` is the number of tokens of the response, and ``longest`` is the maximum. The penalty is 0 for at most
    ``longest`` minus ``buffer`` tokens, and then falls linearly to -1 at ``longest`` tokens. For example, if
    ``longest`` is 1000 and ``buffer`` is 200, it is 0 at 800 tokens, -0.5 at 900 tokens and -1 at 1000 tokens.
    """
    return -min(1.0, max(0, length - (longest - buffer)) / buffer)


def clip_high_at(step: int, steps: int, start: float, end: float | None) -> float:
    """Return the upper clip bound of a training step, which may change during the training.

    ``step`` is the number of the step, counted from 0, and ``steps`` is the number of all steps. The bound changes
    linearly from ``start`` in the first step to ``end`` in the last step. If ``end`` is None, it is always ``start``.
    """
    return start if end is None or steps < 2 else start + (end - start) * step / (steps - 1)
