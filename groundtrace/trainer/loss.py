"""The training losses on plain tensors: advantages of a group, the clipped policy loss, the SFT loss.

An optimiser step has one denominator, the number of targets in all its micro-batches (DAPO's token-level loss), so that
the result does not depend on the number of micro-batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

FLAT = 1e-9
"""Rewards that differ by no more than this are equal."""


def advantages(
    rewards: Sequence[float | None], scale: str = "std", unit: float = 1.0, epsilon: float = 0.0
) -> list[float | None]:
    """Return A = (R - mean) / s for the responses of one group (Argos Eq. 10).

    ``scale`` is ``std`` (s is the group's sample deviation plus ``epsilon``), ``none`` (s = 1) or ``fixed`` (s =
    ``unit``). Deviation: Eq. 10 has no ``epsilon``, so that it gives tiny reward differences the same advantages as
    right and wrong answers. An unscored response (None) has no advantage and does not count in the mean. A flat group,
    whose largest and smallest reward differ by no more than rounding, gives exactly 0; so does a group with fewer than
    two scored responses.
    """
    scored = [reward for reward in rewards if reward is not None]
    if is_flat(rewards):
        return [None if reward is None else 0.0 for reward in rewards]
    mean = sum(scored) / len(scored)
    deviation = (sum((reward - mean) ** 2 for reward in scored) / (len(scored) - 1)) ** 0.5
    over = {"std": deviation + epsilon, "none": 1.0, "fixed": unit}[scale]
    return [None if reward is None else (reward - mean) / over for reward in rewards]


def is_mixed(outcomes: Sequence[float | None]) -> bool:
    """Whether a group's raw outcomes are neither all right nor all wrong, so that a step can learn from it (DAPO).

    The test uses the outcome instead of the shaped reward, because shaped rewards differ in nearly every group.
    """
    scored = {outcome == 1 for outcome in outcomes if outcome is not None}
    return len(scored) == 2


def is_flat(rewards: Sequence[float | None]) -> bool:
    """Whether the scored rewards of a group differ by no more than rounding, so that it gives no gradient."""
    scored = [reward for reward in rewards if reward is not None]
    return len(scored) < 2 or max(scored) - min(scored) <= FLAT


@dataclass(frozen=True)
class Clipping:
    """The bounds of the probability ratio, 1 - low … 1 + high, and the cap of the importance weight."""

    low: float = 0.2
    high: float = 0.28
    importance_cap: float = 2.0


@dataclass(frozen=True)
class PolicyLoss:
    """A micro-batch's contribution to the step's loss, and sums over its targets for the metrics."""

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
    """Return -1/N · sum of w · min(r·A, clip(r, 1 - low, 1 + high)·A), over the targets; all tensors are (M,).

    r = exp(logprobs - old). ``old`` are the trainer's log-probabilities before the step's first update; ``sampler`` are
    the log-probabilities of the sampler that drew the tokens (NaN: the same as ``old``). w = min(exp(old - sampler),
    cap) is the truncated importance weight. N is ``denominator``. With ``reference``, ``kl_beta`` times the KL estimate
    exp(ref - logp) - (ref - logp) - 1 is added.
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
    """Return -1/N · sum of the targets' log-probabilities; N is ``denominator``, the step's number of targets."""
    return -logprobs.sum() / denominator


def overlong_penalty(length: int, longest: int, buffer: int) -> float:
    """Return DAPO's soft punishment: 0 up to ``longest - buffer`` tokens, then a value that falls linearly to -1 at
    ``longest``.
    """
    return -min(1.0, max(0, length - (longest - buffer)) / buffer)


def clip_high_at(step: int, steps: int, start: float, end: float | None) -> float:
    """Return the upper clip bound at a step (from 0), linear from ``start`` to ``end`` (None: constant)."""
    return start if end is None or steps < 2 else start + (end - start) * step / (steps - 1)
