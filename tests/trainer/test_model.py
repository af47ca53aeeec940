"""The loaded model: what is trained, what is saved, and the distribution that rollouts are drawn from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from groundtrace.grading.responses.tags import format_points_tag
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.trainer.collate import collate
from groundtrace.trainer.model import ModelError, VisionLanguageModel, is_of_tower, load_model
from groundtrace.trainer.optimiser import Optimiser
from groundtrace.trainer.policy import score
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import ModelSettings, OptimiserSettings

Load = Callable[..., VisionLanguageModel]
Samples = Callable[..., list[Sample]]


def trained(vlm: VisionLanguageModel) -> list[str]:
    return [name for name, weight in vlm.model.named_parameters() if weight.requires_grad]


def test_a_frozen_tower_is_not_trained(load: Load) -> None:
    for family in ("qwen3", "qwen25"):
        assert any(map(is_of_tower, trained(load(family))))
        names = trained(load(family, freeze_vision=True))
        assert not any(map(is_of_tower, names))
        assert any(".visual.merger." in name for name in names), "the projector is still trained"


def test_a_frozen_projector_is_not_trained(load: Load) -> None:
    """Qwen3-VL projects the features of the last layer and of some layers before it."""
    parts = ("visual.merger.", "visual.deepstack_merger_list.")
    names = trained(load(freeze_projector=True))
    assert any(map(is_of_tower, names))
    assert not any(part in name for name in names for part in parts)
    assert all(any(part in name for name in trained(load(freeze_vision=True))) for part in parts)
    assert not any(".visual." in name for name in trained(load(freeze_vision=True, freeze_projector=True)))


@pytest.mark.parametrize("alpha", [16.0, 2.5])
def test_adapters_are_scaled_by_alpha_as_given(load: Load, alpha: float) -> None:
    scalings = {
        layer.scaling["default"]
        for layer in load(lora_rank=4, lora_alpha=alpha).model.modules()
        if hasattr(layer, "lora_A")
    }
    assert scalings == {alpha / 4}


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


LARGE = (640, 480)


@pytest.mark.parametrize("family", ["qwen3", "qwen25"])
def test_large_images_are_shrunk_and_coordinates_follow(
    family: str, load: Load, image: Callable[..., Image.Image], tmp_path: Path
) -> None:
    """The picture that the tower sees is the one by whose size coordinates are written, in the saved model too."""
    plain, bounded = load(family), load(family, max_pixels=128 * 96)
    bounded.save(tmp_path / "model")
    saved = load(family, path=str(tmp_path / "model"))
    large, small = image(*LARGE), image(64, 64)
    assert plain.encode_image(large, "a").tokens > 4 * bounded.encode_image(large, "a").tokens
    assert bounded.encode_image(small, "b").grid == plain.encode_image(small, "b").grid, "small ones stay"
    for vlm in (bounded, saved):
        seen = vlm.encode_image(large, "a")
        assert (seen.width, seen.height) == LARGE, "rewards look at the original"
        patch = vlm.processor.image_processor.patch_size
        width, height = seen.grid[2] * patch, seen.grid[1] * patch
        assert width * height <= 128 * 96
        assert vlm.speech.rule.size(*LARGE) == (width, height)
        corner = format_points_tag("x", [LARGE])
        written = vlm.speech.to_model(corner, [LARGE])
        expected = (width, height) if vlm.speech.frame is CoordinateFrame.QWEN25_RESIZED_PX else (1000, 1000)
        assert written == format_points_tag("x", [expected])
        assert vlm.speech.to_pixels(written, [LARGE]) == corner


def test_a_bound_that_no_image_can_meet(load: Load) -> None:
    with pytest.raises(ModelError, match=r"model\.max_pixels must be at least this model's minimum of \d+ pixels"):
        load(max_pixels=16)


def test_a_bound_above_the_models_own(load: Load) -> None:
    assert load(max_pixels=10**9).processor.image_processor.size == load().processor.image_processor.size
