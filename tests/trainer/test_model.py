"""The loaded model: what is trained, what is saved, and the distribution that rollouts are drawn from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trainer.collate import collate
from trainer.model import VisionLanguageModel, load_model
from trainer.optimiser import Optimiser
from trainer.policy import score
from trainer.sample import Sample
from trainer.settings import ModelSettings, OptimiserSettings

Load = Callable[..., VisionLanguageModel]
Samples = Callable[..., list[Sample]]


def trained(vlm: VisionLanguageModel) -> list[str]:
    return [name for name, weight in vlm.model.named_parameters() if weight.requires_grad]


def test_a_frozen_tower_is_not_trained(load: Load) -> None:
    names = trained(load(freeze_vision=True))
    assert names and not any(".visual." in name for name in names)
    assert any(".visual." in name for name in trained(load()))


def test_adapters_alone_are_trained_and_reach_the_language_model_only(load: Load) -> None:
    names = trained(load(lora_rank=2))
    assert names and all(".lora_" in name and "language_model" in name for name in names)


def test_saved_adapters_are_in_the_weights_and_nothing_drifts(load: Load, samples: Samples, tmp_path: Path) -> None:
    vlm = load(lora_rank=2)
    batch = collate(vlm, samples(vlm))
    optimiser = Optimiser(vlm.model, OptimiserSettings(lr=1e-2), 2)
    untrained = score(vlm, batch).logprobs.detach()
    for step in range(2):
        (-score(vlm, batch).logprobs.mean()).backward()
        optimiser.step(step)
    before = {name: value.clone() for name, value in vlm.model.state_dict().items()}
    scores = score(vlm, batch).logprobs.detach()
    vlm.save(tmp_path / "model")
    after = vlm.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    plain = load_model(ModelSettings(str(tmp_path / "model"), dtype="float32"), device="cpu")
    assert not any("lora" in name for name in plain.model.state_dict())
    found = score(plain, batch).logprobs.detach()
    assert torch.allclose(found, scores, atol=1e-5)
    assert not torch.allclose(found, untrained, atol=1e-3)


def test_tokens_that_are_never_drawn_have_no_share(load: Load, samples: Samples) -> None:
    """ln p - ln(1 - share of the others), by hand; the entropy is that of what is left."""
    vlm = load()
    batch = collate(vlm, samples(vlm))
    never = (3, 5, 7)
    kept = [target not in never for target in batch.targets.tolist()]
    hidden: list[torch.Tensor] = []
    handle = vlm.model.lm_head.register_forward_hook(lambda _, __, out: hidden.append(out.detach()))
    plain, without = score(vlm, batch), score(vlm, batch, never=never)
    handle.remove()
    logprobs = hidden[0].float().log_softmax(dim=1)
    rest = (1 - logprobs[:, list(never)].exp().sum(dim=1)).log()
    assert torch.allclose(without.logprobs[kept], (plain.logprobs - rest)[kept], atol=1e-5)
    left = (logprobs - rest[:, None])[:, [token for token in range(logprobs.shape[1]) if token not in never]]
    assert torch.allclose(without.entropy, -(left.exp() * left).sum(dim=1), atol=1e-4)


def test_never_ids_are_the_banned_ones_that_end_nothing(load: Load) -> None:
    vlm = load()
    assert vlm.never_ids == vlm.banned_ids
    assert replace(vlm, end_ids=(*vlm.end_ids, vlm.banned_ids[0])).never_ids == vlm.banned_ids[1:]


@pytest.mark.parametrize("family", ["qwen3", "qwen25"])
def test_a_saved_model_is_the_same_model(family: str, load: Load, samples: Samples, tmp_path: Path) -> None:
    vlm = load(family)
    vlm.save(tmp_path / "model")
    again = load_model(ModelSettings(str(tmp_path / "model"), dtype="float32"), device="cpu")
    batch = collate(vlm, samples(vlm))
    assert torch.equal(score(vlm, batch).logprobs, score(again, batch).logprobs)
    assert again.end_ids == vlm.end_ids and again.speech == vlm.speech
