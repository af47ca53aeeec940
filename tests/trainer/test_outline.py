"""Models without values: as large as the real ones, and without a download."""

from pathlib import Path

import pytest
import torch

from groundtrace.trainer.model import ModelError, VisionLanguageModel
from groundtrace.trainer.outline import outline_of
from groundtrace.trainer.settings import ModelSettings


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", 8_292_166_656),
        ("Qwen/Qwen2.5-VL-3B-Instruct", 3_754_622_976),
        ("Qwen/Qwen3-VL-2B-Instruct", 2_127_532_032),
        ("Qwen/Qwen3-VL-4B-Instruct", 4_437_815_808),
        ("Qwen/Qwen3-VL-8B-Instruct", 8_767_123_696),
        ("Qwen/Qwen3-VL-32B-Instruct", 33_357_390_064),
    ],
)
def test_bundled_sizes(name: str, weights: int) -> None:
    """The numbers of weights in the safetensors files on the Hub."""
    model = outline_of(ModelSettings(name))
    assert sum(weight.numel() for weight in model.parameters()) == weights
    assert {weight.device.type for weight in model.parameters()} == {"meta"}


def test_a_folder_is_as_the_loaded_model(vlm: VisionLanguageModel) -> None:
    model = outline_of(vlm.settings)
    expected = {name: (weight.shape, weight.dtype) for name, weight in vlm.model.named_parameters()}
    assert {name: (weight.shape, weight.dtype) for name, weight in model.named_parameters()} == expected


def test_adapters_and_frozen_parts(folders: dict[str, Path]) -> None:
    path = str(folders["qwen3"])
    adapted = outline_of(ModelSettings(path, lora_rank=4))
    trained = {name for name, weight in adapted.named_parameters() if weight.requires_grad}
    assert trained == {name for name, _ in adapted.named_parameters() if ".lora_" in name} != set()
    frozen = outline_of(ModelSettings(path, freeze_vision=True))
    assert not any(weight.requires_grad for weight in frozen.model.visual.blocks.parameters())
    assert {weight.dtype for weight in frozen.parameters()} == {torch.bfloat16}


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load the config of"):
        outline_of(ModelSettings(str(tmp_path)))
