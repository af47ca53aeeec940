"""Muon in float32 is torch's Muon but for the rounding of bfloat16."""

import pytest
import torch

from groundtrace.trainer.muon import Float32Muon


@pytest.mark.parametrize("shape", [(8, 24), (24, 8), (16, 16)])
def test_it_updates_as_torch_does(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    start = torch.randn(shape)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimisers = [
        make([weight], lr=0.1, weight_decay=0.01) for make, weight in ((Float32Muon, ours), (torch.optim.Muon, theirs))
    ]
    for _ in range(3):
        gradient = torch.randn(shape)
        for weight, optimiser in zip((ours, theirs), optimisers, strict=True):
            weight.grad = gradient.clone()
            optimiser.step()
    assert torch.allclose(ours, theirs, atol=0.01)
    assert not torch.allclose(ours, start, atol=0.05)
    state = [optimiser.state_dict()["state"][0] for optimiser in optimisers]
    assert state[0].keys() == state[1].keys()
    assert torch.allclose(state[0]["momentum_buffer"], state[1]["momentum_buffer"])
