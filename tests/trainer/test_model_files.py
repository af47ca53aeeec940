"""Files of a model's folder that a stranger has sent: links, pipes, and an index of weights that names other files."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.model_files import ModelError, check_model_files
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.trainer.model import load_model
from groundtrace.trainer.outline import outline_of
from groundtrace.trainer.settings import ModelSettings

from .runs import Command

INDEX = "model.safetensors.index.json"


@pytest.fixture
def model(folders: Mapping[str, Path], tmp_path: Path) -> Path:
    """A copy of a model, beside a private file and a private folder."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key.txt").write_text("secret", "utf-8")
    shutil.copytree(folders["qwen3"], tmp_path / "sent/model")
    (tmp_path / "sent/model/additional_chat_templates").mkdir()
    return tmp_path / "sent/model"


def load(settings: ModelSettings) -> Any:
    return load_model(settings, device="cpu")


@pytest.mark.parametrize("opened", [load, outline_of])
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("additional_chat_templates/note.jinja", "../../../private/key.txt"),
        ("additional_chat_templates/folder", "../../../private"),
        ("chat_template.jinja", "../../private/key.txt"),
        ("config.json", "/dev/zero"),
        ("other.json", "../../private/missing"),
        ("folder", "../model-2"),
    ],
)
def test_a_link_that_leaves_the_folder(
    opened: Callable[[ModelSettings], Any], name: str, target: str, model: Path
) -> None:
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(target)
    (model.parent / "named").symlink_to("model")
    for folder in (model, model.parent / "named"):
        with pytest.raises(UnsafeFile) as refused:
            opened(ModelSettings(str(folder)))
        assert str(refused.value) == (
            f"{folder / name} is a link that leads out of {folder}, so a private file could become part of the output: "
            "replace the link by a copy of the file, or remove the link"
        )


@pytest.mark.parametrize(
    ("name", "target"), [("tokenizer.model", "config.json"), ("folder", "additional_chat_templates"), ("loop", "loop")]
)
def test_a_link_inside_the_folder(name: str, target: str, model: Path) -> None:
    (model / name).symlink_to(target)
    check_model_files(model)
    load(ModelSettings(str(model), dtype="float32"))


def test_a_snapshot_of_the_hub(model: Path, tmp_path: Path) -> None:
    """Its files are links to the blobs; a folder is none, and blobs lead nowhere else."""
    cached = tmp_path / "cache/models--a--b"
    snapshot = cached / "snapshots/0123"
    snapshot.mkdir(parents=True)
    (cached / "blobs").mkdir()
    for path in (path for path in model.iterdir() if path.is_file()):
        path.rename(cached / "blobs" / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    load(ModelSettings(str(snapshot), dtype="float32"))
    for target in ("blobs", "blobs/folder", "blobs/key"):
        (cached / "blobs/folder").mkdir(exist_ok=True)
        (cached / "blobs/key").unlink(missing_ok=True)
        (cached / "blobs/key").symlink_to(tmp_path / "private/key.txt")
        (snapshot / "more").unlink(missing_ok=True)
        (snapshot / "more").symlink_to(f"../../{target}")
        with pytest.raises(UnsafeFile, match="more is a link that leads out"):
            check_model_files(snapshot)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "additional_chat_templates/a.jinja", INDEX])
def test_a_pipe(name: str, model: Path) -> None:
    (model / name).unlink(missing_ok=True)
    os.mkfifo(model / name)
    with pytest.raises(UnsafeFile, match=rf"{name} is not a regular file, but a pipe: move it away"):
        load(ModelSettings(str(model)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *(
            (
                json.dumps({"metadata": {}, "weight_map": {"a": "one.safetensors", "b": name}}),
                f"names {name!r}",
            )
            for name in ("../../x.safetensors", "/x.safetensors", "in/x.safetensors", "..", ".", "", 3)
        ),
        ("{", "is not an index of weights (JSONDecodeError): download it again"),
        ("[]", "is not an index of weights (TypeError)"),
        ("{}", "is not an index of weights (KeyError)"),
        ('{"weight_map": []}', "is not an index of weights (AttributeError)"),
        ("[" * 100_000, "is not an index of weights (ValueError)"),
    ],
)
@pytest.mark.parametrize("name", [INDEX, "additional_chat_templates/other.safetensors.index.json"])
def test_an_index_that_names_other_files(content: str, said: str, name: str, model: Path) -> None:
    (model / name).write_text(content, "utf-8")
    with pytest.raises(ModelError) as refused:
        load(ModelSettings(str(model)))
    assert str(refused.value).startswith(f"{model / name} {said}")


@pytest.mark.parametrize(
    ("name", "added", "said"),
    [
        (
            "tokenizer_config.json",
            {"vocab": "/home/me/key"},
            "has the key 'vocab', whose value may be the path of a private file, which would be read: remove this key",
        ),
        ("tokenizer_config.json", {"init_inputs": ["/home/me/key"]}, "has the key 'init_inputs'"),
        ("processor_config.json", {"audio_tokenizer": {"audio_tokenizer_class": "X"}}, "has the key 'audio_tokenizer'"),
        ("tokenizer_config.json", {"fast_tokenizer_files": ["../tokenizer.4.0.json"]}, "names '../tokenizer"),
        ("tokenizer_config.json", [], "is not a JSON object (AttributeError): download it again"),
    ],
)
def test_settings_of_the_tokenizer_that_name_other_files(name: str, added: Any, said: str, model: Path) -> None:
    found = json.loads((model / name).read_text("utf-8")) if (model / name).exists() else {}
    (model / name).write_text(json.dumps(found | added if isinstance(added, dict) else added), "utf-8")
    with pytest.raises(ModelError) as refused:
        load(ModelSettings(str(model)))
    assert str(refused.value).startswith(f"{model / name} {said}")


@pytest.mark.parametrize("opened", [load, outline_of])
def test_an_adapter_that_transformers_would_apply(opened: Callable[[ModelSettings], Any], model: Path) -> None:
    """Its layers can be a pattern that matches without end, and its rank any number."""
    (model / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 1, "target_modules": ["q_proj"]}', "utf-8")
    with pytest.raises(ModelError) as refused:
        opened(ModelSettings(str(model)))
    assert str(refused.value) == (
        f"{model / 'adapter_config.json'} is an adapter, but model.path must be a whole model: merge the adapter into "
        "the model first, or remove this file"
    )
    (model / "adapter").mkdir()
    (model / "adapter_config.json").rename(model / "adapter/adapter_config.json")  # transformers does not look there
    opened(ModelSettings(str(model), dtype="float32"))


def test_the_index_of_a_model_in_several_files(model: Path) -> None:
    load(ModelSettings(str(model), dtype="float32")).model.save_pretrained(model, max_shard_size="100KB")
    assert len({*json.loads((model / INDEX).read_text("utf-8"))["weight_map"].values()}) > 1
    load(ModelSettings(str(model), dtype="float32"))


@pytest.mark.parametrize("command", ["sft", "eval"])
def test_a_command_reads_no_private_file(command: str, run: Command, sft_data: Path, model: Path) -> None:
    (model / "additional_chat_templates/note.jinja").symlink_to("../../../private/key.txt")
    ran = run(command, sft_data, f"model.path={model}")
    ran.check_refused(2, "additional_chat_templates/note.jinja is a link that leads out of")
    assert not (ran.output / "model").exists()
