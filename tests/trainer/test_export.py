"""A model folder from a checkpoint: the one that a training leaves, of any step and any way of training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor

from .runs import Command


@pytest.fixture
def data(tmp_path: Path, row: Callable[..., Any], write_shards: Callable[..., Path]) -> Path:
    return write_shards(tmp_path / "run", [row(id=f"s{number}") for number in range(3)])


HOW = {
    "whole": (),
    "bfloat16": ("model.dtype=bfloat16",),
    "frozen": ("model.freeze_vision=true",),
    "adapters": ("model.lora_rank=4", "optimiser.lr=0.01"),
}


@pytest.mark.parametrize("sets", HOW.values(), ids=HOW)
def test_the_last_checkpoint_is_the_trained_model(sets: tuple[str, ...], run: Command, data: Path) -> None:
    """File by file, and an earlier one is another model that loads as well."""
    done = run("sft", data, "log.save_every=1", *sets)
    assert done.code == 0, done.err
    last, first = (run.home / name for name in ("last", "first"))
    for step, out in ((2, last), (1, first)):
        ran = run.words(["export", str(done.output / "checkpoints" / f"step-{step:06d}"), str(out)], out)
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
    run.words(words, done.output).check_refused(2, f"{done.output} is there already: choose another OUT")
    gone = ["export", str(tmp_path / "gone"), str(tmp_path / "new")]
    run.words(gone, tmp_path).check_refused(2, "gone cannot be read")
    assert not (tmp_path / "new").exists()
