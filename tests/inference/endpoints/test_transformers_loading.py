"""Checkpoints that cannot be loaded, and machines without the libraries: one line that says what is wrong."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig

from groundtrace.config.extras import MissingExtra
from groundtrace.inference.endpoints.transformers_models import TransformersEndpoint
from groundtrace.inference.errors import CallError, Failure
from groundtrace.schemas.records import MediaRef

from ..tiny_vision_models import checkpoint
from ..vision_calls import noise, one_by_one, request, segment, use

BOXES = ([10.0, 10.0, 100.5, 100.0],)


@pytest.fixture
def picture(medium) -> MediaRef:
    return medium(noise())


def change(folder: Path, **values: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | values), "utf-8")


def without_config(folder: Path) -> None:
    shutil.rmtree(folder)


def another_class(folder: Path) -> None:
    BertConfig().save_pretrained(folder)


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def without_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["no_memory_embedding"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def of_another_shape(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["no_memory_embedding"] = torch.zeros(1, 1, 7)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def of_many_layers(folder: Path) -> None:
    change(folder, vision_config={"backbone_config": {"num_hidden_layers": 10**9}})


def larger_than_its_weights(folder: Path) -> None:
    change(folder, vision_config=None)


def with_an_adapter(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "a/b"}', "utf-8")


def of_a_list(folder: Path) -> None:
    (folder / "config.json").write_text("[]", "utf-8")


def cut_short(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def without_processor(folder: Path) -> None:
    (folder / "processor_config.json").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            without_config,
            "bad_request: .* cannot be loaded: it is neither a folder nor the id of a model in the Hugging",
        ),
        (another_class, "bad_request: .* has the type 'bert': use a model of the type grounding-dino, owlv2"),
        (pickled, "bad_request: .* cannot be loaded .*safetensors"),
        (without_a_weight, "bad_request: .* lacks 1 weights of a Sam2Model, such as no_memory_embedding"),
        (of_another_shape, "bad_request: .* cannot be loaded"),
        (of_many_layers, "bad_request: config.json of .* has num_hidden_layers = 1000000000, but it must be a whole"),
        (
            larger_than_its_weights,
            "bad_request: config.json of .* describes a model of .* weights, but its ",
        ),
        (with_an_adapter, r"bad_request: .* has an adapter \(adapter_config.json\): merge it into its model"),
        (of_a_list, r"bad_request: .* cannot be loaded \(check its files, or download it again\): "),
        (cut_short, "bad_request: .* is damaged"),
        (without_processor, "bad_request: .* cannot be loaded"),
    ],
)
def test_a_checkpoint_that_cannot_be_loaded(tmp_path, picture, damage, said) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(checkpoint("sam2"), folder)
    damage(folder)

    async def work(endpoint: TransformersEndpoint) -> None:
        for call in (endpoint.check(), endpoint.generate(request(segment(BOXES, picture)))):
            with pytest.raises(CallError, match=said) as caught:
                await call
            assert "\n" not in str(caught.value)
            shutil.copytree(checkpoint("sam2"), folder, dirs_exist_ok=True)  # what failed once is not tried again

    use(tmp_path, folder, work)


@pytest.mark.parametrize("library", ["torch", "torchvision", "transformers"])
def test_without_the_libraries_the_error_says_what_to_install(tmp_path, picture, monkeypatch, library) -> None:
    folder = checkpoint("sam2")
    monkeypatch.setitem(sys.modules, library, None)
    said = "an endpoint of the kind transformers needs the extra vision: pip install 'groundtrace[vision]'"
    with pytest.raises(MissingExtra, match=re.escape(f"{said} (the module {library} is not installed)")):
        use(tmp_path, folder, lambda endpoint: one_by_one(endpoint, [segment(BOXES, picture)]))


def test_a_library_that_cannot_be_imported(tmp_path, picture, monkeypatch) -> None:
    folder = checkpoint("sam2")
    monkeypatch.setattr("groundtrace.inference.endpoint.check_extras", lambda _: None)  # it is there, but damaged
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CallError, match=r"unsupported: .* transformers, which cannot be imported") as caught:
        use(tmp_path, folder, lambda endpoint: one_by_one(endpoint, [segment(BOXES, picture)]))
    assert caught.value.failure is Failure.UNSUPPORTED
