"""Limits the memory that the files of a model can make the trainer use, before the weights are loaded.

The limits are those of :mod:`groundtrace.inference.endpoints.checkpoint_sizes`, which explains them.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText

from groundtrace.inference.endpoints import checkpoint_sizes
from groundtrace.inference.endpoints.checkpoint_sizes import TooLarge
from groundtrace.inference.model_files import ModelError
from groundtrace.schemas.safe_files import read_json

CONFIG = "config.json"


def check_counts(folder: Path) -> None:
    """Check that the counts (such as that of the layers) and the lists in a model's ``config.json`` are not too large.

    Raises ModelError if :func:`groundtrace.inference.endpoints.checkpoint_sizes.check_counts` raises an error, or if
    the file is not a JSON object. A missing file is accepted: transformers raises an error for it.
    """
    path = folder / CONFIG
    if not path.exists():
        return
    try:
        config = read_json(path)
        checkpoint_sizes.check_counts(config, path)
    except TooLarge as error:
        raise ModelError(str(error)) from error
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(folder, type(error).__name__) from error
    if not isinstance(config, dict):
        raise _unreadable(folder, type(config).__name__)


def check_size(config: Any, folder: Path) -> None:
    """Check that the model of a config is not much larger than its weights in the ``*.safetensors`` files of a folder.

    ``config`` is the transformers config. Raises ModelError if the model is too large for the files
    (:func:`groundtrace.inference.endpoints.checkpoint_sizes.check_size`), and SafetensorError or OSError if one of the
    files cannot be read. A folder without such files is accepted: transformers raises an error for it.
    """
    files = sorted(folder.rglob("*.safetensors"))
    if not files:
        return
    try:
        checkpoint_sizes.check_size(outlined(config), files, folder / CONFIG)
    except TooLarge as error:
        raise ModelError(str(error)) from error


def outlined(config: Any, dtype: torch.dtype | None = None) -> Any:
    """Return the model of a transformers config on torch's meta device: its weights have shapes, but no values.

    ``dtype`` is the type of the weights; None means the type that the config names. ``config`` is not changed.
    """
    auto: Any = AutoModelForImageTextToText
    return checkpoint_sizes.outlined(auto, config, dtype=dtype, attn_implementation="sdpa")


def _unreadable(folder: Path, reason: str) -> ModelError:
    return ModelError(f"cannot load {folder}: {CONFIG} is not a JSON object ({reason}): download it again")
