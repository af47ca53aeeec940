"""Master weights, schedules, what Muon takes, and the state that a resumed run needs."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from groundtrace.trainer.optimiser import NotFinite, Optimiser
from groundtrace.trainer.settings import OptimiserSettings


class Net(nn.Module):
    """The kinds of weights that a language model has."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = {"embed_tokens": (6, 4), "hidden": (4, 4), "patch": (4, 3, 2), "lm_head": (6, 4)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape, generator=generator).to(dtype)))
        self.norm = nn.Parameter(torch.ones(4, dtype=dtype))


def _optimiser(model: nn.Module, steps: int = 10, **settings: Any) -> Optimiser:
    return Optimiser(model, OptimiserSettings(**settings), steps)


def _push(model: nn.Module, seed: int = 0) -> None:
    """A loss whose gradients depend on the weights."""
    generator = torch.Generator().manual_seed(seed)
    loss = sum(
        (weight.float() * torch.randn(weight.shape, generator=generator)).sin().sum() for weight in model.parameters()
    )
    loss.backward()


SMALL = 2**-13 * 2**-7
"""About a ten-thousandth of the last bit of a bfloat16 weight of 1, and a number that float32 adds to it exactly."""


@pytest.mark.slow
def test_small_updates_of_bf16_weights_are_not_lost() -> None:
    weight = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    model = nn.ParameterList([weight])
    optimiser = _optimiser(model, lr=SMALL, beta1=0.0, beta2=0.0)
    for step in range(5000):
        (-weight.sum()).backward()  # Adam without momenta moves by lr against the gradient's sign
        optimiser.step(step)
        if step == 999:  # an eighth of the last bit: held by the master, not yet by the weight
            assert optimiser.masters["0"].tolist() == [1 + 1000 * SMALL] * 3
            assert weight.tolist() == [1.0] * 3
    assert weight.tolist() == [1 + 2**-7] * 3


def test_without_masters_they_are_lost() -> None:
    """What makes the test above one that could fail: torch's AdamW on the bfloat16 weight itself never moves it."""
    weight = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    adam = torch.optim.AdamW([weight], lr=SMALL, betas=(0.0, 0.0), weight_decay=0.0)
    for _ in range(5000):
        weight.grad = torch.full_like(weight, -1)
        adam.step()
    assert weight.tolist() == [1.0] * 3


def test_bf16_gradients_are_added_up_in_float32() -> None:
    """1 + 256 * 2^-9 = 1.5 needs more bits than bfloat16 has: it would stay at 1."""
    weight = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    optimiser = _optimiser(nn.ParameterList([weight]), max_grad_norm=100.0)
    weight.sum().backward()
    for _ in range(256):
        (weight * 2**-9).sum().backward()
    assert weight.grad is None
    assert optimiser.step(0) == 1.5


def test_float32_weights_are_their_own_masters() -> None:
    model = Net()
    assert all(
        optimised is weight
        for optimised, weight in zip(_optimiser(model).masters.values(), model.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("settings", "steps", "expected"),
    [
        ({}, 4, [1, 1, 1, 1]),
        ({"warmup_steps": 4}, 6, [0.25, 0.5, 0.75, 1, 1, 1]),
        ({"schedule": "linear"}, 4, [1, 0.75, 0.5, 0.25]),
        ({"schedule": "linear", "warmup_steps": 2, "final_share": 0.5}, 6, [0.5, 1, 1, 0.875, 0.75, 0.625]),
        ({"schedule": "cosine"}, 4, [1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2]),
        ({"schedule": "cosine", "final_share": 0.2}, 2, [1, 0.6]),
        ({"warmup_ratio": 0.5}, 4, [0.5, 1, 1, 1]),
        ({"warmup_ratio": 0.3}, 4, [0.5, 1, 1, 1]),
        ({"warmup_ratio": 0.5, "schedule": "linear"}, 4, [0.5, 1, 1, 0.5]),
    ],
)
def test_rate(settings: dict[str, Any], steps: int, expected: list[float]) -> None:
    optimiser = _optimiser(Net(), steps, **settings)
    assert [optimiser.rate(step) for step in range(steps)] == pytest.approx(expected)


def test_the_rate_scales_the_step() -> None:
    """Adam's first step is lr against the sign; half way through a linear warm-up of two it is half of that."""
    weight = nn.Parameter(torch.ones(2))
    optimiser = _optimiser(nn.ParameterList([weight]), lr=0.1, warmup_steps=2)
    weight.sum().backward()
    optimiser.step(0)
    assert weight.tolist() == pytest.approx([0.95, 0.95])


def test_muon_takes_hidden_matrices_only() -> None:
    optimiser = _optimiser(Net(), muon_lr=0.02)
    muon, adam = optimiser._optimisers
    assert isinstance(muon, torch.optim.Muon)
    names = {id(weight): name for name, weight in optimiser.masters.items()}
    taken = [{names[id(w)] for group in one.param_groups for w in group["params"]} for one in (muon, adam)]
    assert taken == [{"hidden"}, {"embed_tokens", "lm_head", "patch", "norm"}]


def test_without_muon_adamw_takes_all() -> None:
    (adam,) = _optimiser(Net())._optimisers
    assert sum(len(group["params"]) for group in adam.param_groups) == 5


@pytest.mark.parametrize(("ratio", "steps", "expected"), [(0.05, 266, 14), (0.1, 30, 3), (0.0, 10, 0), (1.0, 10, 10)])
def test_a_warmup_ratio_is_rounded_up_to_whole_steps(ratio: float, steps: int, expected: int) -> None:
    """0.1 · 30 is more than 3 in float64, and is 3 steps all the same."""
    assert OptimiserSettings(warmup_ratio=ratio).warmup_of(steps) == expected


def test_a_warmup_has_one_length() -> None:
    with pytest.raises(ValueError, match=r"warmup_ratio must be 0 if warmup_steps is set, got 0\.1"):
        OptimiserSettings(warmup_steps=3, warmup_ratio=0.1)


@pytest.mark.parametrize("muon_lr", [0.0, 0.02])
def test_norms_and_biases_do_not_decay(muon_lr: float) -> None:
    """Weights without a gradient move by the decay alone: AdamW multiplies by 1 - lr · decay, Muon by its own rate."""
    model = Net()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimiser = _optimiser(model, lr=0.1, muon_lr=muon_lr, weight_decay=0.5)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step(0)
    for name, weight in model.named_parameters():
        rate = muon_lr if muon_lr and name == "hidden" else 0.1
        kept = 1.0 if name == "norm" else 1 - rate * 0.5
        torch.testing.assert_close(weight.detach(), before[name] * kept)


def test_the_norm_is_bounded_and_told_as_it_was() -> None:
    weight = nn.Parameter(torch.zeros(2))
    optimiser = _optimiser(nn.ParameterList([weight]), max_grad_norm=0.5)
    (weight * torch.tensor([3.0, 4.0])).sum().backward()
    assert optimiser.step(0) == pytest.approx(5.0)
    assert weight.grad is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gradient_that_is_not_finite_changes_nothing(dtype: torch.dtype, bad: float) -> None:
    model = Net(dtype)
    optimiser = _optimiser(model, lr=0.1, muon_lr=0.02)
    _push(model)
    optimiser.step(0)
    before, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimiser.state_dict())
    (model.hidden.float() * bad).sum().backward()
    with pytest.raises(NotFinite, match="norm"):
        optimiser.step(1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    torch.testing.assert_close(optimiser.state_dict(), state, rtol=0, atol=0)
    _push(model, seed=1)
    assert optimiser.step(1) < 100, "the bad gradient is gone"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_state_goes_round(dtype: torch.dtype) -> None:
    def run(model: Net, optimiser: Optimiser, steps: range) -> None:
        for step in steps:
            _push(model, seed=step)
            optimiser.step(step)

    settings = {"lr": 0.01, "muon_lr": 0.02, "schedule": "cosine", "weight_decay": 0.1}
    whole = Net(dtype)
    optimiser = _optimiser(whole, **settings)
    run(whole, optimiser, range(5))
    kept = copy.deepcopy(optimiser.state_dict())
    run(whole, optimiser, range(5, 10))

    resumed = Net(dtype)
    again = _optimiser(resumed, **settings)
    again.load_state_dict(kept)
    run(resumed, again, range(5, 10))
    assert all(torch.equal(value, whole.state_dict()[name]) for name, value in resumed.state_dict().items())
    assert all(torch.equal(value, optimiser.masters[name]) for name, value in again.masters.items())


def test_a_state_of_other_weights_is_refused() -> None:
    state = _optimiser(Net()).state_dict()
    other = Net()
    other.norm.requires_grad_(False)
    with pytest.raises(ValueError, match="does not hold the weights that this config trains"):
        _optimiser(other).load_state_dict(state)


def test_a_model_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(ValueError, match="no weights to train"):
        _optimiser(Net().requires_grad_(False))
