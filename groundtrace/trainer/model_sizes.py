"""Limits the memory that the files of a model can make the trainer use, before the weights are loaded.

The files of a model may come from another person. The sizes of the model are numbers in its ``config.json``. A file of
a few bytes can state a million layers, or a vocabulary that fills the memory. So each count has a maximum, and the
model that the config describes may have at most :data:`MAX_RATIO` times as many values as the files with the weights.
To count the values in these files, only their headers are read.
"""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForImageTextToText

from groundtrace.schemas.safe_files import read_json
from groundtrace.trainer.model_files import ModelError

CONFIG = "config.json"
COUNTS = ("num_hidden_layers", "depth", "num_labels")
"""Keys of the config whose value is a count: transformers makes this number of objects, such as layers.

transformers does this even if the files with the weights are small.
"""
MAX_COUNT = 1000
"""The maximum number of layers, and of items in a list of the config. The largest models have about 100 layers."""
MAX_RATIO = 2
"""The maximum ratio of the number of values in a model to the number of values in the files with its weights.

The ratio may be a little above 1, because tied embeddings or some weights may be missing in the files.
"""


def check_counts(folder: Path) -> None:
    """Check that the counts and the lists in the ``config.json`` of a model's folder are not too large.

    A count is the value of one of the keys :data:`COUNTS`, such as the number of layers. Raises ModelError if a count
    is not a whole number from 0 to :data:`MAX_COUNT`, if a list has more than :data:`MAX_COUNT` items, or if the file
    is not a JSON object. The value null is accepted for a count. A missing file is accepted, too: transformers raises
    an error for it.
    """
    path = folder / CONFIG
    if not path.exists():
        return
    try:
        config = read_json(path)
        found = list(_values(config))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(folder, type(error).__name__) from error
    if not isinstance(config, dict):
        raise _unreadable(folder, type(config).__name__)
    for name, value in found:
        if isinstance(value, list) and len(value) > MAX_COUNT:
            raise ModelError(
                f"{path} has a list of {len(value)} items in {name}, but at most {MAX_COUNT} are allowed: download the "
                "model again"
            )
        if name in COUNTS and value is not None and not (type(value) is int and 0 <= value <= MAX_COUNT):
            raise ModelError(
                f"{path} has {name} = {value!r:.40}, but it must be a whole number of at most {MAX_COUNT}: download "
                "the model again"
            )


def check_size(config: Any, folder: Path) -> None:
    """Check that the model of a config is not much larger than its weights in the ``*.safetensors`` files of a folder.

    ``config`` is the transformers config. Raises ModelError if the model has more than :data:`MAX_RATIO` times as many
    values as the files, and SafetensorError or OSError if one of the files cannot be read. A folder without such files
    is accepted: transformers raises an error for it.
    """
    files = sorted(folder.rglob("*.safetensors"))
    if not files:
        return
    held = sum(map(_values_in, files))
    needed = sum(weight.numel() for weight in outlined(config).parameters())
    if needed > MAX_RATIO * held:
        raise ModelError(
            f"{folder / CONFIG} describes a model of {needed} weights, but its weight files hold {held}: download the "
            f"complete model again, or correct the sizes in {CONFIG}"
        )


def outlined(config: Any, dtype: torch.dtype | None = None) -> Any:
    """Return the model of a transformers config on torch's meta device: its weights have shapes, but no values.

    ``dtype`` is the type of the weights; None means the type that the config names. ``config`` is not changed.
    """
    auto: Any = AutoModelForImageTextToText
    with torch.device("meta"):
        return auto.from_config(copy.deepcopy(config), dtype=dtype, attn_implementation="sdpa")


def _values_in(file: Path) -> int:
    """Return the number of values in the tensors of a safetensors file, by its header."""
    with safe_open(file, "pt") as opened:
        return sum(math.prod(opened.get_slice(name).get_shape()) for name in opened.keys())  # noqa: SIM118


def _values(config: Any, name: str = "the file") -> Iterator[tuple[str, Any]]:
    """Yield a JSON value, and all values inside it at all depths, as pairs (key, value).

    ``config`` is the JSON value, and ``name`` is used as its key. An item of a list has the same key as the list. For
    example, ``{"depth": 2, "sizes": [3]}`` with the name ``file`` gives four pairs:
    ``("file", {"depth": 2, "sizes": [3]})``, ``("depth", 2)``, ``("sizes", [3])`` and ``("sizes", 3)``.
    """
    yield name, config
    if isinstance(config, dict):
        for key, value in config.items():
            yield from _values(value, key)
    elif isinstance(config, list):
        for value in config:
            yield from _values(value, name)


def _unreadable(folder: Path, reason: str) -> ModelError:
    return ModelError(f"cannot load {folder}: {CONFIG} is not a JSON object ({reason}): download it again")
