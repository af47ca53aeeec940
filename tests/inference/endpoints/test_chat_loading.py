"""Checkpoints of a chat model that came from somebody else, or were damaged: loaded, or refused in one line."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from transformers import AutoModelForImageTextToText

from groundtrace.inference.endpoint import open_endpoint
from groundtrace.inference.errors import CallError
from groundtrace.inference.settings import EndpointSettings
from groundtrace.vision.media import MediaStore

from ...vllm import tiny_qwen3vl


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("chat") / "qwen3"
    tiny_qwen3vl.write_model(out)
    return out


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of a tiny Qwen3-VL."""
    return shutil.copytree(made, tmp_path / "model")


def checked(model: Path | str) -> str:
    """What the check of an endpoint returns."""

    async def main() -> str:
        endpoint = open_endpoint(EndpointSettings("transformers_chat", str(model)), MediaStore("a", "b"), 1)
        try:
            return await endpoint.check()
        finally:
            await endpoint.close()

    return asyncio.run(main())


def changed(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        (folder / "config.json").write_text(json.dumps(config | values), "utf-8")

    return change


def with_file(name: str, text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(text, "utf-8")

    return write


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (changed(text_config=None), "config.json of MODEL describes a model of "),
        (
            with_file("config.json", '{"num_hidden_layers": 1000000000}'),
            "config.json of MODEL has num_hidden_layers = ",
        ),
    ],
)
def test_a_model_that_would_fill_the_memory(folder: Path, damage: Callable[[Path], None], expected: str) -> None:
    damage(folder)
    with pytest.raises(CallError) as refused:
        checked(folder)
    assert refused.value.message.startswith(expected.replace("MODEL", str(folder)))


def sharded_and_tied(folder: Path) -> None:
    """Weights in many files, without those of the output, which are those of the embeddings."""
    changed(tie_word_embeddings=True)(folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    changed(text_config=config["text_config"] | {"tie_word_embeddings": True})(folder)
    model: Any = AutoModelForImageTextToText.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 3


@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_model_of_the_hub(folder: Path, is_sharded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the Hub's cache holds it, without a network."""
    if is_sharded:
        sharded_and_tied(folder)
    assert checked(folder) == f"answers with {folder} in this process"
    kept = tmp_path / "hub" / "models--someone--tiny"
    shutil.copytree(folder, kept / "snapshots" / ("0" * 40))
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0" * 40, "utf-8")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert checked("someone/tiny") == "answers with someone/tiny in this process"
    changed(text_config=None)(kept / "snapshots" / ("0" * 40))
    with pytest.raises(CallError, match=r"config\.json of someone/tiny describes a model of "):
        checked("someone/tiny")
