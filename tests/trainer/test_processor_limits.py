"""Sizes in the image processor of a model from a stranger."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.model_files import ModelError
from groundtrace.trainer.model import load_model
from groundtrace.trainer.settings import ModelSettings


@pytest.fixture
def model(folders: Mapping[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(folders["qwen3"], tmp_path / "model")


def change(model: Path, values: dict[str, Any]) -> None:
    path = model / "processor_config.json"
    config = json.loads(path.read_text("utf-8"))
    config["image_processor"].update(values)
    path.write_text(json.dumps(config), "utf-8")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"size": {"shortest_edge": 4 * 10**8, "longest_edge": 10**10}}, "size.shortest_edge = 400000000 in "),
        ({"size": {"shortest_edge": 1024, "longest_edge": 10**10}}, "size.longest_edge = 10000000000 in "),
        ({"size": {"shortest_edge": 0, "longest_edge": 4096}}, "size.shortest_edge = 0 in "),
        ({"patch_size": 10**6}, "patch_size = 1000000 in "),
        ({"merge_size": 10**6}, "merge_size = 1000000 in "),
        ({"temporal_patch_size": 10**6}, "temporal_patch_size = 1000000 in "),
    ],
)
def test_a_size_without_bound(values: dict[str, Any], said: str, model: Path) -> None:
    change(model, values)
    with pytest.raises(ModelError) as refused:
        load_model(ModelSettings(str(model), dtype="float32"), device="cpu")
    assert str(refused.value).startswith(
        f"{model} has {said}processor_config.json or preprocessor_config.json, but it must be a whole number from 1 to "
    )
    assert str(refused.value).endswith(": correct it, or download the model again")


def test_an_image_processor_of_another_model(model: Path) -> None:
    """Its sizes have other names, and so other limits."""
    change(model, {"image_processor_type": "CLIPImageProcessor", "size": {"height": 10**6, "width": 10**6}})
    said = "has the image processor of another kind of model: this processor does not cut images into patches"
    with pytest.raises(ModelError, match=said):
        load_model(ModelSettings(str(model), dtype="float32"), device="cpu")
