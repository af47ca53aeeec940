"""Computes the training losses on plain tensors: advantages of a group, the clipped policy loss, and the SFT loss.

An optimiser step has one denominator, the number of targets in all its micro-batches (DAPO's token-level loss), so that
the result does not depend on the number of micro-batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

FLAT = 1e-9
"""The largest difference of two rewards that are treated as equal."""


def advantages(
    rewards: Sequence[float | None], scale: str = "std", unit: float = 1.0, epsilon: float = 0.0
) -> list[float | None]:
    """Return the advantages A = (R - mean) / s of the responses of one group (Argos Eq. 10); R are the ``rewards``.

    ``scale`` selects s. With ``std``, s is the group's sample standard deviation plus ``epsilon``. With ``none``, s is
    1. With ``fixed``, s is ``unit``. Eq. 10 has no ``epsilon``. We add it, because without it tiny differences between
    rewards give advantages as large as a difference between right and wrong answers.

    An unscored response (None) has the advantage None, and is not part of the mean. All advantages are exactly 0 if the
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
    """Return whether a group has both right and wrong outcomes, so that a step can learn from it (DAPO).

    Unscored outcomes (None) are ignored. Pass outcomes and not shaped rewards, because shaped rewards differ in nearly
    every group.
    """
    scored = {outcome == 1 for outcome in outcomes if outcome is not None}
    return len(scored) == 2


def is_flat(rewards: Sequence[float | None]) -> bool:
    """Return whether the scored rewards of a group differ by at most ``FLAT``.

    Such a group gives no gradient.
    """
    scored = [reward for reward in rewards if reward is not None]
    return len(scored) < 2 or max(scored) - min(scored) <= FLAT


@dataclass(frozen=True)
class Clipping:
    """Holds the bounds of the clipped policy loss.

    The probability ratio is clipped to the range from 1 - ``low`` to 1 + ``high``. ``importance_cap`` is the upper
    bound of the importance weight.
    """

    low: float = 0.2
    high: float = 0.28
    importance_cap: float = 2.0


@dataclass(frozen=True)
class PolicyLoss:
    """Holds the loss of a micro-batch, and two numbers for the metrics.

    ``loss`` is the micro-batch's part of the step's loss. ``clipped`` is the number of clipped targets. ``kl`` is the
    sum of the KL estimates of all targets; 0 without a reference model.
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
    """Return the loss -1/N · sum of w · min(r·A, clip(r, 1 - low, 1 + high)·A) over the M targets.

    All tensors are (M,). N is ``denominator``, and A is ``advantage``. r = exp(logprobs - old) is the probability
    ratio; ``old`` are the trainer's log-probabilities before the step's first update. w = min(exp(old - sampler), cap)
    is the truncated importance weight; ``sampler`` are the log-probabilities of the sampler that drew the tokens. If a
    value of ``sampler`` is NaN, the value of ``old`` is used. If ``reference`` (the reference model's
    log-probabilities) is given, the KL term is added. It is kl_beta/N · the sum of exp(d) - d - 1 with d = reference -
    logprobs.
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
    """Return the loss -1/N · sum of the targets' log-probabilities.

    N is ``denominator``, the number of targets of the optimiser step.
    """
    return -logprobs.sum() / denominator


def overlong_penalty(length: int, longest: int, buffer: int) -> float:
    """Return DAPO's soft penalty for a response of ``length`` tokens.

    It is 0 up to ``longest - buffer`` tokens, and then falls linearly to -1 at ``longest`` tokens.
    """
    return -min(1.0, max(0, length - (longest - buffer)) / buffer)


def clip_high_at(step: int, steps: int, start: float, end: float | None) -> float:
    """Return the upper clip bound at a step, counted from 0.

    It changes linearly from ``start`` to ``end`` over ``steps`` steps; if ``end`` is None, it is constant.
    """
    return start if end is None or steps < 2 else start + (end - start) * step / (steps - 1)
