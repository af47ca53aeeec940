"""Checkpoints of a chat model that came from somebody else, or were damaged: loaded, or refused in one line."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from transformers import AutoModelForImageTextToText

from groundtrace.grading.messages import TextPart
from groundtrace.inference.endpoint import open_endpoint
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
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


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (with_file("config.json", "[]"), "TypeError: "),
        (with_file("tokenizer.json", '{"a": 1}'), "KeyError: "),
        (changed(dtype="banana"), "AttributeError: "),
    ],
)
def test_a_file_with_unexpected_values(folder: Path, damage: Callable[[Path], None], expected: str) -> None:
    damage(folder)
    with pytest.raises(CallError) as refused:
        checked(folder)
    start = f"the model {folder} cannot be loaded (check its files, or download it again): {expected}"
    assert (refused.value.failure, refused.value.message[: len(start)]) == (Failure.BAD_REQUEST, start)
    assert "\n" not in str(refused.value)


def index_outside(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    index = {"metadata": {}, "weight_map": {"lm_head.weight": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def pipe(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")


def link_outside(folder: Path) -> None:
    (folder.parent / "private.txt").write_text("private", "utf-8")
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / "chat_template.jinja").symlink_to(folder.parent / "private.txt")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (index_outside, r"names '\.\./elsewhere\.safetensors' as a file of weights, but it may name only files in the"),
        (pipe, r"config\.json is not a regular file, but a pipe"),
        (link_outside, r"chat_template\.jinja is a link that leads out of "),
        (with_file("tokenizer_config.json", '{"vocab": "/etc/passwd"}'), "has the key 'vocab', whose value may be "),
    ],
)
def test_a_file_that_leads_out_of_the_folder(folder: Path, damage: Callable[[Path], None], expected: str) -> None:
    damage(folder)
    with pytest.raises(CallError, match=expected):
        checked(folder)


@pytest.mark.parametrize("name", ["/no/such/folder", "no/such/folder", "x" * 5000, "a\0b"])
def test_a_folder_that_does_not_exist(name: str) -> None:
    with pytest.raises(
        CallError, match="cannot be loaded: it is neither a folder nor the id of a model in the Hugging"
    ):
        checked(name)


@pytest.mark.parametrize(
    "template", ["{% for x in %}", "{{ raise_exception('no') }}", "{{ ''.__class__.__mro__ }}", "{{ 1 // 0 }}"]
)
def test_a_chat_template_that_cannot_be_rendered(folder: Path, template: str) -> None:
    with_file("chat_template.jinja", template)(folder)
    with pytest.raises(CallError) as refused:
        checked(folder)
    start = f"the chat template of {folder} cannot render the prompt trial (correct the template, or use another model"
    assert (refused.value.failure, refused.value.message[: len(start)]) == (Failure.BAD_REQUEST, start)
    assert "\n" not in str(refused.value)


def test_a_prompt_that_the_template_refuses_does_not_fail_the_others(folder: Path) -> None:
    template = (folder / "chat_template.jinja").read_text("utf-8")
    refusal = "{% if messages[0].role == 'system' %}{{ raise_exception('no system message') }}{% endif %}"
    with_file("chat_template.jinja", refusal + template)(folder)

    async def main() -> list[Any]:
        endpoint = open_endpoint(EndpointSettings("transformers_chat", str(folder)), MediaStore("a", "b"), 1)
        shown = [RenderedPrompt("a.v1", "0" * 64, system, (TextPart("Go on."),), None, ()) for system in ("", "x", "")]
        calls = [endpoint.generate(Request(each, Sampling(1, max_tokens=2), (0,))) for each in shown]
        try:
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await endpoint.close()

    first, refused, last = asyncio.run(main())
    assert isinstance(first, Reply) and isinstance(last, Reply)
    assert str(refused).endswith("(correct the template, or use another model): no system message")


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
