"""Numbers in the config of a model from a stranger that would make a model of any size."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from groundtrace.inference.model_files import ModelError
from groundtrace.trainer.model import load_model
from groundtrace.trainer.model_sizes import outlined
from groundtrace.trainer.outline import outline_of
from groundtrace.trainer.settings import ModelSettings


@pytest.fixture(params=["qwen3", "qwen25"])
def model(request: pytest.FixtureRequest, folders: Mapping[str, Path], tmp_path: Path) -> Path:
    """A copy of a model of each family."""
    return shutil.copytree(folders[request.param], tmp_path / "model")


def load(settings: ModelSettings) -> Any:
    return load_model(settings, device="cpu")


def change(model: Path, section: str, **values: Any) -> None:
    """Change values in a section of the config; "" is the whole."""
    config = json.loads((model / "config.json").read_text("utf-8"))
    config["text_config"].pop("layer_types", None)  # has an item for each layer
    (config[section] if section else config).update(values)
    (model / "config.json").write_text(json.dumps(config), "utf-8")


@pytest.mark.parametrize("opened", [load, outline_of])
@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        ("text_config", {"num_hidden_layers": 10**6}, "has num_hidden_layers = 1000000, but it must be a whole number"),
        ("text_config", {"num_hidden_layers": 1001}, "has num_hidden_layers = 1001, but it must be a whole number"),
        ("text_config", {"num_hidden_layers": "x"}, "has num_hidden_layers = 'x', but it must be a whole number"),
        ("text_config", {"num_hidden_layers": 1e9}, "has num_hidden_layers = 1000000000.0, but"),
        ("vision_config", {"depth": 10**6}, "has depth = 1000000, but it must be a whole number of at most 1000"),
        ("", {"num_hidden_layers": 10**9}, "has num_hidden_layers = 1000000000, but it must be a whole number"),
        ("", {"num_labels": 10**9}, "has num_labels = 1000000000, but it must be a whole number of at most 1000"),
        ("vision_config", {"deepstack_visual_indexes": [0] * 1001}, "has a list of 1001 items in deepstack_visual_"),
    ],
)
def test_a_count_without_bound(
    opened: Callable[[ModelSettings], Any], section: str, values: dict[str, Any], said: str, model: Path
) -> None:
    change(model, section, **values)
    with pytest.raises(ModelError) as refused:
        opened(ModelSettings(str(model)))
    assert str(refused.value).startswith(f"{model / 'config.json'} {said}")


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("text_config", {"vocab_size": 12 * 10**6}),
        ("text_config", {"num_hidden_layers": 50}),
        ("text_config", {"intermediate_size": 10**7}),
        ("vision_config", {"depth": 50}),
        ("vision_config", {"out_hidden_size": 10**7}),
    ],
)
def test_a_model_that_is_larger_than_its_files(section: str, values: dict[str, Any], model: Path) -> None:
    change(model, section, **values)
    with pytest.raises(ModelError) as refused:
        load(ModelSettings(str(model)))
    assert str(refused.value).startswith(f"{model / 'config.json'} describes a model of ")
    assert str(refused.value).endswith(": download the complete model again, or correct the sizes in config.json"), (
        "the files are read by their headers"
    )
    outline_of(ModelSettings(str(model)))  # an estimate takes no memory, whatever the size


def test_a_table_of_positions_that_is_larger_than_the_files(folders: Mapping[str, Path], tmp_path: Path) -> None:
    model = shutil.copytree(folders["qwen3"], tmp_path / "model")
    change(model, "vision_config", num_position_embeddings=10**7)
    with pytest.raises(ModelError, match=r"describes a model of [0-9]+ weights, but its weight files hold "):
        load(ModelSettings(str(model)))


@pytest.mark.parametrize("text", ["[]", "5", "{", "[" * 100_000])
def test_a_config_that_is_not_an_object(text: str, model: Path) -> None:
    (model / "config.json").write_text(text, "utf-8")
    with pytest.raises(ModelError, match=r"cannot load .*: config\.json is not a JSON object \(.*\): download it"):
        load(ModelSettings(str(model)))


def test_tied_embeddings_and_missing_weights(model: Path) -> None:
    """Output embeddings need not be in the files, and a model that lacks some weights gets the message about them."""
    change(model, "", tie_word_embeddings=True)
    change(model, "text_config", tie_word_embeddings=True)
    file = model / "model.safetensors"
    weights = load_file(file)
    kept = {name: weight for name, weight in weights.items() if not name.startswith("lm_head")}
    save_file(kept, file, {"format": "pt"})
    load(ModelSettings(str(model), dtype="float32"))
    kept.pop(next(name for name in kept if name.endswith("q_proj.weight")))
    save_file(kept, file, {"format": "pt"})
    with pytest.raises(ModelError, match="lacks 1 weights, such as "):
        load(ModelSettings(str(model), dtype="float32"))


def test_an_outline_draws_no_random_number(folders: Mapping[str, Path]) -> None:
    """So a check of the size does not change a training."""
    config = load(ModelSettings(str(folders["qwen3"]), dtype="float32")).model.config
    before = torch.get_rng_state()
    assert all(weight.is_meta for weight in outlined(config).parameters())
    assert torch.equal(before, torch.get_rng_state())
