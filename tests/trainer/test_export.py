"""A checkpoint as a model's folder: the trained model, and the base model that a stranger's checkpoint names."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor

from groundtrace.trainer.checkpoint import STATE

from .runs import Command, Ran

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path: Path, row: Callable[..., Any], write_shards: Callable[..., Path]) -> Path:
    return write_shards(tmp_path / "run", [row(id=f"s{number}") for number in range(3)])


HOW = {
    "whole": (),
    "bfloat16": ("model.dtype=bfloat16",),
    "frozen": ("model.freeze_vision=true",),
    "adapters": ("model.lora_rank=4", "sft.optimiser.lr=0.01"),
}


@pytest.mark.parametrize("sets", HOW.values(), ids=HOW)
def test_the_last_checkpoint_is_the_trained_model(sets: tuple[str, ...], run: Command, data: Path) -> None:
    """File by file, and an earlier one is another model that loads as well."""
    done = run("sft", data, "log.save_every=1", *sets)
    assert done.code == 0, done.err
    last, first = (run.home / name for name in ("last", "first"))
    for step, out in ((2, last), (1, first)):
        words = ["export", str(done.output / "checkpoints" / f"step-{step:06d}"), str(out), "--model", str(run.model)]
        ran = run.words(words, out)
        assert (ran.code, ran.out.strip()) == (0, str(out)), ran.err
    names = sorted(path.name for path in (done.output / "model").iterdir())
    assert sorted(path.name for path in last.iterdir()) == names
    assert all((last / name).read_bytes() == (done.output / "model" / name).read_bytes() for name in names)
    weights, earlier = load_file(last / "model.safetensors"), load_file(first / "model.safetensors")
    assert weights.keys() == earlier.keys()
    assert any(not torch.equal(weights[name], earlier[name]) for name in weights)
    auto: Any = AutoModelForImageTextToText
    _, report = auto.from_pretrained(first, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    AutoProcessor.from_pretrained(first)


def test_what_cannot_be_exported(run: Command, data: Path, tmp_path: Path) -> None:
    done = run("sft", data)
    step = done.output / "checkpoints" / "step-000002"
    words = ["export", str(step), str(done.output)]
    run.words(words, done.output).check_refused(2, f"{done.output} already exists: choose another folder as OUT")
    gone = ["export", str(tmp_path / "gone"), str(tmp_path / "new")]
    run.words(gone, tmp_path).check_refused(2, "gone cannot be read")
    assert not (tmp_path / "new").exists()


@pytest.fixture
def trained(run: Command, data: Path) -> Ran:
    done = run("sft", data, "sft.steps=1")
    assert done.code == 0, done.err
    return done


NEITHER = (
    "whose files the export would copy to the output folder. If another person made the checkpoint, these may be "
    "private files of yours: if this base model is the right one, pass it as --model"
)


@pytest.mark.parametrize("place", ["home", "elsewhere", "output", "step"])
def test_a_base_model_in_a_folder_elsewhere(
    place: str, run: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing proves who wrote the output folder. So one's own folder has to be named, in whatever folder one is."""
    (tmp_path / "base").symlink_to(run.model)
    monkeypatch.chdir(tmp_path)
    done = run("sft", data, "sft.steps=1", "model.path=base")
    assert done.code == 0, done.err
    step = done.output / "checkpoints/step-000001"
    folders = {"home": tmp_path, "elsewhere": tmp_path / "elsewhere", "output": done.output, "step": step}
    folders[place].mkdir(exist_ok=True)
    monkeypatch.chdir(folders[place])
    words = ["export", "." if place == "step" else str(step), str(tmp_path / "new")]
    run.words(words, tmp_path).check_refused(2, f"names the base model {str(run.model.resolve())!r}, {NEITHER}")
    ran = run.words([*words, "--model", str(run.model)], tmp_path)
    assert (ran.code, ran.err) == (0, f"trainer: the base model is {str(run.model)!r}\n")


def test_a_base_model_in_the_output_folder(trained: Ran, run: Command, tmp_path: Path) -> None:
    """It was sent with the checkpoint, so it is nothing private. A link in the folder may lead to something private."""
    base, step = trained.output / "base", trained.output / "checkpoints/step-000001"
    shutil.copytree(run.model, base)
    (trained.output / "link").symlink_to(run.model)
    for name in ("link", "../out/link", "../elsewhere"):
        _sent(step, f"{trained.output}/{name}")
        run.words(["export", str(step), str(tmp_path / "new")], tmp_path).check_refused(2, NEITHER)
    _sent(step, str(base))
    ran = run.words(["export", str(step), str(tmp_path / "new")], tmp_path)
    assert (ran.code, ran.err) == (0, f"trainer: the base model is {str(base)!r}\n")


@pytest.mark.parametrize(("recorded", "is_folder", "is_read"), [
    ("some/model", False, True), ("some/other", False, False), (["some/model"], False, False),
    ("some/model", True, False),
])  # fmt: skip
def test_a_base_model_of_the_hub(
    recorded: object, is_folder: bool, is_read: bool, trained: Ran, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``run.json`` has the same id, and there is no folder of this name here."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(run.home)
    if is_folder:
        shutil.copytree(run.model, run.home / "some/model")
    step = trained.output / "checkpoints/step-000001"
    _sent(step, "some/model")
    (trained.output / "run.json").write_text(json.dumps({"command": "sft", "model": recorded}), "utf-8")
    ran = run.words(["export", str(step), str(run.home / "new")], run.home)
    assert ran.code == 2
    assert ("cannot load some/model: " in ran.err) == is_read, ran.err
    assert (NEITHER in ran.err) == (not is_read)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("masters", 5, "has no trained weights, because its entry optimiser.masters holds no tensors: choose"),
        ("masters", {"a": 5}, "has no trained weights, because its entry optimiser.masters holds no tensors: choose"),
        ("model.path", ["x"], "has wrong settings of the model: model.path"),
        ("model.path", {"x": {3}}, "has wrong settings of the model: "),
        ("model.dtype", "cuda", "has wrong settings of the model: model.dtype"),
        ("model.lora_rank", 10**9, "has model.lora_rank = 1000000000, but its weights have adapters of the ranks []"),
    ],
)
def test_values_that_no_trainer_wrote(
    key: str, value: Any, said: str, trained: Ran, run: Command, tmp_path: Path
) -> None:
    step = trained.output / "checkpoints/step-000001"
    state = torch.load(step / STATE, weights_only=True)
    state["optimiser" if key == "masters" else "identity"][key] = value
    torch.save(state, step / STATE)
    words = ["export", str(step), str(tmp_path / "new"), "--model", str(run.model)]
    run.words(words, tmp_path).check_refused(2, f"step-000001 {said}")
    assert not (tmp_path / "new").exists()


def _sent(step: Path, path: str) -> None:
    """Let a checkpoint name another base model."""
    state = torch.load(step / STATE, weights_only=True)
    state["identity"]["model.path"] = path
    torch.save(state, step / STATE)


@pytest.mark.parametrize("recorded", ["theirs", "private", None, 3, "missing", "damaged"])
def test_a_checkpoint_that_names_a_model_elsewhere(
    recorded: object, trained: Ran, run: Command, tmp_path: Path
) -> None:
    """It is read only with --model, even if run.json has the same path, because a stranger can send both."""
    private, step = tmp_path / "private", trained.output / "checkpoints/step-000001"
    shutil.copytree(run.model, private)
    _sent(step, str(private))
    texts = {"missing": None, "damaged": "{"}
    named = str(private) if recorded == "private" else recorded
    text = texts.get(str(recorded), json.dumps({"command": "sft", "model": named}))
    (trained.output / "run.json").unlink() if text is None else (trained.output / "run.json").write_text(text, "utf-8")
    words = ["export", str(step), str(tmp_path / "new")]
    run.words(words, tmp_path).check_refused(
        2,
        f"step-000001 names the base model {str(private)!r}, {NEITHER}",
    )
    assert not (tmp_path / "new").exists()
    ran = run.words([*words, "--model", str(private)], tmp_path)
    assert (ran.code, ran.err) == (0, f"trainer: the base model is {str(private)!r}\n")


def test_a_base_model_that_was_moved(trained: Ran, run: Command, tmp_path: Path) -> None:
    step = trained.output / "checkpoints/step-000001"
    _sent(step, str(tmp_path / "gone"))
    run.words(["export", str(step), str(tmp_path / "new"), "--model", str(tmp_path / "none")], tmp_path)
    assert not (tmp_path / "new").exists()
    ran = run.words(["export", str(step), str(tmp_path / "new"), "--model", str(run.model)], tmp_path)
    assert ran.code == 0, ran.err
    trained_weights = load_file(trained.output / "model/model.safetensors")
    exported = load_file(tmp_path / "new/model.safetensors")
    assert all(torch.equal(exported[name], weight) for name, weight in trained_weights.items())
