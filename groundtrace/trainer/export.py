"""Converts a checkpoint to a plain model folder, which transformers and vLLM can load: ``trainer export``."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import torch

from groundtrace.config.settings import build
from groundtrace.storage.files import new_folder
from groundtrace.trainer.checkpoint import CheckpointError, read_checkpoint
from groundtrace.trainer.model import load_model
from groundtrace.trainer.output_folder import recorded_run
from groundtrace.trainer.settings import ModelSettings

_SECTION = "model."


def export(checkpoint: Path, out: Path, model: str | None = None) -> Path:
    """Write the model of a checkpoint as a plain model folder to ``out``, and return ``out``.

    The folder has the files that transformers and vLLM need: weights, config, processor and generation settings.
    Weights that were not trained are read from the base model ``model`` (a folder or a Hub id). If ``model`` is None,
    the base model must still be at the path ``model.path`` of the training's config, which the checkpoint contains. The
    base model's path is printed to stderr.

    The checkpoint may come from a stranger. So this path is used only if the file ``run.json`` in the training's output
    folder has the same path. This folder is the parent of the folder with the checkpoints.

    Raises CheckpointError if the checkpoint cannot be used, ModelError if the base model cannot be loaded, and
    UserError if ``out`` is not empty or cannot be written.
    """
    with new_folder(out) as folder:
        state = read_checkpoint(checkpoint)
        named = {k.removeprefix(_SECTION): v for k, v in state["identity"].items() if k.startswith(_SECTION)}
        settings = build(ModelSettings, named)
        if model is not None:
            settings = dataclasses.replace(settings, path=model)
        elif not _is_recorded(settings.path, checkpoint.resolve().parent.parent):
            raise CheckpointError(
                f"{checkpoint} names the base model {settings.path!r}, but run.json in its training's output folder "
                "is missing or has another path: to export with this model, whose files then become part of OUT, pass "
                "its path as --model"
            )
        print(f"trainer: the base model is {settings.path!r}", file=sys.stderr)
        vlm = load_model(settings, device="cpu")
        _put(state["optimiser"]["masters"], dict(vlm.model.named_parameters()), checkpoint)
        vlm.save(folder)
    return out


def _is_recorded(path: str, output: Path) -> bool:
    """Return whether the ``run.json`` in a training's output folder has the path of this base model.

    ``path`` is absolute if the base model was a folder (:func:`groundtrace.trainer.identity.identity`). But
    ``run.json`` has the path as the user wrote it. If that path is relative, two kinds of base folders are tried: the
    present working directory, and each folder that contains ``output``.
    """
    recorded = (recorded_run(output) or {}).get("model")
    if not isinstance(recorded, str):
        return False
    return path == recorded or any(Path(path) == (base / recorded).resolve() for base in (Path.cwd(), *output.parents))


@torch.no_grad()
def _put(masters: dict[str, torch.Tensor], weights: dict[str, Any], checkpoint: Path) -> None:
    for name, master in masters.items():
        if name not in weights or weights[name].shape != master.shape:
            raise CheckpointError(
                f"{checkpoint} does not fit its base model, which has no weight {name} with the shape "
                f"{tuple(master.shape)}: restore the original base model"
            )
        weights[name].copy_(master)
