"""Converts a checkpoint to a plain model folder, which transformers and vLLM can load.

The command ``trainer export`` uses this module.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import torch

from groundtrace.config.settings import build
from groundtrace.schemas.errors import UserError
from groundtrace.storage.files import new_folder
from groundtrace.trainer.checkpoint import CheckpointError, read_checkpoint
from groundtrace.trainer.model import load_model
from groundtrace.trainer.output_folder import recorded_run
from groundtrace.trainer.settings import ModelSettings

_SECTION = "model."


def export(checkpoint: Path, out: Path, model: str | None = None) -> Path:
    """Write the model of a checkpoint as a plain model folder to ``out``, and return ``out``.

    The folder has the files that transformers and vLLM need: weights, config, processor and generation settings.
    Weights that were not trained are read from the base model ``model`` (a folder or a Hub id). The base model's path
    is printed to stderr.

    If ``model`` is None, the base model is the ``model.path`` of the training's config, which the checkpoint contains.
    But a stranger may have made the checkpoint, and the training's output folder (the parent of the folder with the
    checkpoints). The stranger could have set ``model.path`` to a private folder of the user. So ``model.path`` is used
    only in two cases:

    - It is a path inside the output folder.
    - It is a Hub id, and the file ``run.json`` in the output folder names the same id.

    Raises CheckpointError if the checkpoint or its ``model.path`` cannot be used, ModelError if the base model cannot
    be loaded, and UserError if ``out`` is not empty or cannot be written.
    """
    with new_folder(out) as folder:
        state = read_checkpoint(checkpoint)
        settings = _model_settings(checkpoint, state["identity"])
        masters = _masters(checkpoint, state["optimiser"].get("masters"), settings)
        if model is not None:
            settings = dataclasses.replace(settings, path=model)
        elif not _may_be_read(settings.path, checkpoint.resolve().parent.parent):
            raise CheckpointError(
                f"{checkpoint} names the base model {settings.path!r}, whose files the export would copy to the output "
                "folder. If another person made the checkpoint, these may be private files of yours: if this base "
                "model is the right one, pass it as --model"
            )
        print(f"trainer: the base model is {settings.path!r}", file=sys.stderr)
        vlm = load_model(settings, device="cpu")
        _put(masters, dict(vlm.model.named_parameters()), checkpoint)
        vlm.save(folder)
    return out


def _model_settings(checkpoint: Path, identity: dict[str, Any]) -> ModelSettings:
    """Return the settings of the model that was trained. They are read from ``identity``.

    ``identity`` is a part of the checkpoint; it describes the data and the settings of the training. ``checkpoint`` is
    the checkpoint's path, for messages. Raises CheckpointError if the settings of the model are not valid.
    """
    named = {str(k).removeprefix(_SECTION): v for k, v in identity.items() if str(k).startswith(_SECTION)}
    try:
        return build(ModelSettings, named, "model")
    except (UserError, TypeError, ValueError, RecursionError) as error:  # values that no config can have
        raise CheckpointError(
            f"{checkpoint} has wrong settings of the model: {' '.join(str(error).split())[:200]}: choose another "
            "checkpoint"
        ) from error


def _may_be_read(path: str, output: Path) -> bool:
    """Return whether the base model ``path`` may be read, although only a checkpoint names it, and not the user.

    ``output`` is the training's output folder, without links in its path. The base model may be read in two cases: it
    is in this folder, or it is a Hub id that ``run.json`` in this folder has, too.
    """
    try:
        if Path(path).is_absolute():
            return Path(path).resolve().is_relative_to(output)
        return not Path(path).exists() and path == (recorded_run(output) or {}).get("model")
    except (OSError, ValueError, RuntimeError):  # no path at all, such as one with a zero byte or a cycle of links
        return False


def _masters(checkpoint: Path, found: Any, settings: ModelSettings) -> dict[str, torch.Tensor]:
    """Return the trained weights of a checkpoint, after a check of their types and of the LoRA rank.

    ``found`` is the entry of the checkpoint with these weights. ``settings`` also come from the checkpoint. Their LoRA
    rank determines the size of the adapters that are added to the base model, so a false rank could fill the memory.
    Therefore this rank must be equal to the rank of the adapters in ``found``. These adapters were read from the
    checkpoint's files, so they cannot be larger than the files. Raises CheckpointError if the two ranks differ, or if
    ``found`` is not a dict of tensors.
    """
    if not (isinstance(found, dict) and all(isinstance(master, torch.Tensor) for master in found.values())):
        raise CheckpointError(
            f"{checkpoint} has no trained weights, because its entry optimiser.masters holds no tensors: choose "
            "another checkpoint"
        )
    ranks = {master.shape[0] for name, master in found.items() if ".lora_A." in str(name) and master.ndim}
    if ranks != ({settings.lora_rank} if settings.lora_rank else set()):
        raise CheckpointError(
            f"{checkpoint} has model.lora_rank = {settings.lora_rank}, but its weights have adapters of the ranks "
            f"{sorted(ranks)}: choose another checkpoint"
        )
    return found


@torch.no_grad()
def _put(masters: dict[str, torch.Tensor], weights: dict[str, Any], checkpoint: Path) -> None:
    for name, master in masters.items():
        if name not in weights or weights[name].shape != master.shape:
            raise CheckpointError(
                f"{checkpoint} does not fit the base model, which has no weight {name} with the shape "
                f"{tuple(master.shape)}: pass --model with the base model from which this training started"
            )
        weights[name].copy_(master)
