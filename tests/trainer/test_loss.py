"""The arithmetic of training against numbers worked out by hand."""

import math

import pytest
import torch

from groundtrace.trainer.loss import (
    Clipping,
    advantages,
    clip_high_at,
    is_mixed,
    overlong_penalty,
    policy_loss,
    sft_loss,
)

HALF = 0.5**0.5
NAN = float("nan")


@pytest.mark.parametrize(
    ("rewards", "scale", "unit", "expected"),
    [
        # Mean 1/2, sample deviation sqrt(1/2).
        ([1.0, 0.0], "std", 1.0, [HALF, -HALF]),
        # Mean 1/4; squares 9/16 + 3 * 1/16 = 3/4; over 3 is 1/4; deviation 1/2.
        ([1.0, 0.0, 0.0, 0.0], "std", 1.0, [1.5, -0.5, -0.5, -0.5]),
        ([1.0, 0.0, 0.0, 0.0], "none", 1.0, [0.75, -0.25, -0.25, -0.25]),
        ([1.0, 0.0, 0.0, 0.0], "fixed", 0.5, [1.5, -0.5, -0.5, -0.5]),
        ([2.0, 4.0, 6.0], "std", 1.0, [-1.0, 0.0, 1.0]),
        # An unscored response is in no mean.
        ([1.0, None, 0.0], "std", 1.0, [HALF, None, -HALF]),
        ([3.0, None, 1.0, None], "none", 1.0, [1.0, None, -1.0, None]),
        # Nothing to compare with.
        ([None, 1.0], "std", 1.0, [None, 0.0]),
        ([None, None], "std", 1.0, [None, None]),
        ([], "std", 1.0, []),
    ],
)
def test_advantages(rewards: list[float | None], scale: str, unit: float, expected: list[float | None]) -> None:
    found = advantages(rewards, scale, unit)
    assert [value is None for value in found] == [value is None for value in expected]
    assert [v for v in found if v is not None] == pytest.approx([v for v in expected if v is not None])


@pytest.mark.parametrize("scale", ["std", "none", "fixed"])
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1 / 3, 0.7])
def test_a_flat_group_is_exactly_zero(reward: float, scale: str) -> None:
    """Three times 0.1 has a mean that is not 0.1; its deviation is not 0 either."""
    assert advantages([reward] * 3, scale, 0.5) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([1.0, 0.0], True),
        ([1.0, 1.0], False),
        ([0.0, 0.0], False),
        ([1.0, None], False),
        ([1.0, None, 0.0], True),
        ([None, None], False),
        ([0.5, 0.0], False),  # neither is right
        ([1.0, 0.5], True),
    ],
)
def test_is_mixed(outcomes: list[float | None], expected: bool) -> None:
    assert is_mixed(outcomes) is expected


@pytest.mark.parametrize(
    ("ratio", "advantage", "gain", "slope"),
    [
        # Within the bounds: r * A, and its derivative by log p is r * A as well.
        (1.0, 2.0, 2.0, 2.0),
        (1.1, 2.0, 2.2, 2.2),
        (0.9, -2.0, -1.8, -1.8),
        # Beyond the upper bound a gain is held at 1.28 * A; a loss is not.
        (2.0, 2.0, 2.56, 0.0),
        (2.0, -2.0, -4.0, -4.0),
        # Beyond the lower bound a loss is held at 0.8 * A; a gain is not.
        (0.5, -2.0, -1.6, 0.0),
        (0.5, 2.0, 1.0, 1.0),
        (3.0, 0.0, 0.0, 0.0),
    ],
)
def test_policy_loss_of_one_token(ratio: float, advantage: float, gain: float, slope: float) -> None:
    old = torch.tensor([-1.5])
    logprobs = (old + math.log(ratio)).requires_grad_()
    found = policy_loss(logprobs, old, torch.tensor([NAN]), torch.tensor([advantage]), 4.0, Clipping(0.2, 0.28))
    found.loss.backward()
    assert found.loss.item() == pytest.approx(-gain / 4, abs=1e-6)
    assert logprobs.grad is not None
    assert logprobs.grad.item() == pytest.approx(-slope / 4, abs=1e-6)
    assert int(found.clipped) == int(slope == 0 and advantage != 0)


def test_policy_loss_adds_tokens_and_divides_once() -> None:
    """Gains 1.28, -2 and 0.5 over N = 8, which counts targets of other micro-batches too."""
    old = torch.tensor([-1.0, -2.0, -3.0])
    logprobs = old + torch.tensor([2.0, 2.0, 0.5]).log()
    found = policy_loss(logprobs, old, torch.full((3,), NAN), torch.tensor([1.0, -1.0, 1.0]), 8.0, Clipping())
    assert found.loss.item() == pytest.approx(-(1.28 - 2 + 0.5) / 8, abs=1e-6)
    assert int(found.clipped) == 1


@pytest.mark.parametrize(
    ("old_over_sampler", "cap", "weight"),
    [(1.0, 2.0, 1.0), (1.5, 2.0, 1.5), (5.0, 2.0, 2.0), (0.1, 2.0, 0.1), (5.0, 10.0, 5.0), (NAN, 2.0, 1.0)],
)
def test_importance_weight(old_over_sampler: float, cap: float, weight: float) -> None:
    old = torch.tensor([-2.0])
    logprobs = (old + math.log(1.1)).requires_grad_()
    sampler = old - math.log(old_over_sampler)
    found = policy_loss(logprobs, old, sampler, torch.tensor([1.0]), 1.0, Clipping(importance_cap=cap))
    found.loss.backward()
    assert found.loss.item() == pytest.approx(-1.1 * weight, rel=1e-5)
    assert logprobs.grad is not None
    assert logprobs.grad.item() == pytest.approx(-1.1 * weight, rel=1e-5)


def test_divergence_from_the_reference() -> None:
    """With ref - logp = log 2 the estimate is 2 - log 2 - 1, and its derivative by logp is 1 - 2."""
    logprobs = torch.tensor([-2.0], requires_grad=True)
    reference = logprobs.detach() + math.log(2)
    old, unknown, none = logprobs.detach(), torch.tensor([NAN]), torch.tensor([0.0])
    found = policy_loss(logprobs, old, unknown, none, 2.0, Clipping(), reference, 0.04)
    found.loss.backward()
    assert found.kl.item() == pytest.approx(1 - math.log(2), abs=1e-6)
    assert found.loss.item() == pytest.approx(0.04 * (1 - math.log(2)) / 2, abs=1e-7)
    assert logprobs.grad is not None
    assert logprobs.grad.item() == pytest.approx(0.04 * -1 / 2, abs=1e-7)


def test_sft_loss() -> None:
    assert sft_loss(torch.tensor([-1.0, -2.0, -0.5]), 7.0).item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("length", "longest", "buffer", "expected"),
    [
        (0, 100, 20, 0),
        (80, 100, 20, 0),
        (81, 100, 20, -0.05),
        (90, 100, 20, -0.5),
        (100, 100, 20, -1),
        (130, 100, 20, -1),
    ],
)
def test_overlong_penalty(length: int, longest: int, buffer: int, expected: float) -> None:
    assert overlong_penalty(length, longest, buffer) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "steps", "end", "expected"),
    [
        (0, 11, None, 0.2),
        (7, 11, None, 0.2),
        (0, 11, 0.3, 0.2),
        (5, 11, 0.3, 0.25),
        (10, 11, 0.3, 0.3),
        (0, 1, 0.3, 0.2),
    ],
)
def test_clip_high_at(step: int, steps: int, end: float | None, expected: float) -> None:
    assert clip_high_at(step, steps, 0.2, end) == pytest.approx(expected)


def test_epsilon_keeps_a_trifle_small() -> None:
    """Rewards that hardly differ have small advantages; right and wrong keep theirs."""
    assert advantages([0.5, 0.5 + 1e-6], epsilon=1e-4)[1] == pytest.approx(5e-7 / (1e-4 + 1e-6 / 2**0.5))
    assert advantages([0.0, 1.0], epsilon=1e-4)[1] == pytest.approx(0.7071, abs=2e-4)
