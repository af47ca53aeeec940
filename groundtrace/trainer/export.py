"""Exports a checkpoint as a plain model folder that transformers and vLLM can load."""

from pathlib import Path
from typing import Any

import torch

from groundtrace.config.settings import build
from groundtrace.schemas.errors import UserError
from groundtrace.trainer.checkpoint import CheckpointError, read_checkpoint
from groundtrace.trainer.model import load_model
from groundtrace.trainer.settings import ModelSettings

_SECTION = "model."


def export(checkpoint: Path, out: Path) -> Path:
    """Write the model of a step to ``out`` and return that folder: the same files as at the end of a training.

    Untrained weights come from the model that the training began with, which must still exist. Raises CheckpointError,
    ModelError, and UserError if ``out`` is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already: choose another OUT")
    state = read_checkpoint(checkpoint)
    named = {k.removeprefix(_SECTION): v for k, v in state["identity"].items() if k.startswith(_SECTION)}
    vlm = load_model(build(ModelSettings, named), device="cpu")
    _put(state["optimiser"]["masters"], dict(vlm.model.named_parameters()), checkpoint)
    vlm.save(out)
    return out


@torch.no_grad()
def _put(masters: dict[str, torch.Tensor], weights: dict[str, Any], checkpoint: Path) -> None:
    for name, master in masters.items():
        if name not in weights or weights[name].shape != master.shape:
            raise CheckpointError(f"{checkpoint} trains {name}, which the model that it began with does not have")
        weights[name].copy_(master)
