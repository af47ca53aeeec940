"""The reference of the KL term: a frozen copy, or the policy with its adapters off."""

from collections.abc import Callable

import pytest
import torch

from groundtrace.trainer.collate import collate
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.optimiser import Optimiser
from groundtrace.trainer.optimiser_settings import OptimiserSettings
from groundtrace.trainer.policy import score
from groundtrace.trainer.reference import reference_of, without_adapters
from groundtrace.trainer.sample import Sample

Load = Callable[..., VisionLanguageModel]
Samples = Callable[..., list[Sample]]


def test_a_copy_does_not_follow_the_policy(load: Load) -> None:
    vlm = load()
    reference = reference_of(vlm)
    assert reference is not vlm.model
    assert not any(weight.requires_grad for weight in reference.parameters())


@pytest.mark.parametrize("checkpointing", [False, True])
def test_adapters_switched_off_are_the_model_before_training(load: Load, samples: Samples, checkpointing: bool) -> None:
    """The gradient of a policy whose reference is scored between its forward and backward pass is unchanged."""
    vlm = load(lora_rank=2, gradient_checkpointing=checkpointing)
    assert reference_of(vlm) is vlm.model
    batch = collate(vlm, samples(vlm))
    untrained = score(vlm, batch).logprobs.detach()
    optimiser = Optimiser(vlm.model, OptimiserSettings(lr=1e-2), 3)
    (-score(vlm, batch).logprobs.mean()).backward()
    optimiser.step(0)
    (-score(vlm, batch).logprobs.mean()).backward()
    expected = {name: weight.grad.clone() for name, weight in optimiser.masters.items() if weight.grad is not None}
    vlm.model.zero_grad()
    policy = score(vlm, batch).logprobs
    with torch.no_grad(), without_adapters(vlm.model):
        reference = score(vlm, batch).logprobs
    torch.testing.assert_close(reference, untrained, rtol=0, atol=0)
    assert not torch.allclose(policy.detach(), untrained, atol=1e-3)
    (-policy.mean()).backward()
    assert expected
    for name, grad in expected.items():
        torch.testing.assert_close(optimiser.masters[name].grad, grad)


def test_adapters_are_on_again_after_an_error(load: Load) -> None:
    vlm = load(lora_rank=2)
    trained = [name for name, weight in vlm.model.named_parameters() if weight.requires_grad]
    with pytest.raises(ZeroDivisionError), without_adapters(vlm.model):
        raise ZeroDivisionError
    assert [name for name, weight in vlm.model.named_parameters() if weight.requires_grad] == trained
