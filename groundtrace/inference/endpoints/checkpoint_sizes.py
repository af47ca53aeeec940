"""Limits the memory that the files of a model can fill, before the weights are loaded.

The files of a model may come from another person. The sizes of the model are numbers in its ``config.json``. A file of
a few bytes can state a million layers, or a vocabulary that fills the memory. If ``config.json`` leaves out a part,
such as the language model, transformers takes the sizes of a large model. So each count has a maximum, and the model
that the config describes may have at most :data:`MAX_RATIO` times as many values as the files with the weights. To
count the values in these files, only their headers are read.
"""

import copy
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils.hub import cached_file, get_checkpoint_shard_files

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
_INTEGER_BITS = {"I8": 8, "U8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64}


class TooLarge(ValueError):
    """Raised if the config of a model describes a model that is too large; the message has the reason and a remedy."""


def check_counts(config: Any, file: object) -> None:
    """Check that the counts and the lists in the config of a model are not too large.

    ``config`` is the content of a ``config.json``, and ``file`` names this file in messages. A count is the value of
    one of the keys :data:`COUNTS`, such as the number of layers. Raises TooLarge if a count is not a whole number from
    0 to :data:`MAX_COUNT`, or if a list has more than :data:`MAX_COUNT` items. The value null is accepted for a count.
    """
    for name, value in _values(config):
        if isinstance(value, list) and len(value) > MAX_COUNT:
            raise TooLarge(
                f"{file} has a list of {len(value)} items in {name}, but at most {MAX_COUNT} are allowed: download the "
                "model again"
            )
        if name in COUNTS and value is not None and not (type(value) is int and 0 <= value <= MAX_COUNT):
            raise TooLarge(
                f"{file} has {name} = {value!r:.40}, but it must be a whole number of at most {MAX_COUNT}: download "
                "the model again"
            )


def check_size(outline: Any, weight_files: Iterable[Path | str], file: object) -> None:
    """Check that a model is not much larger than its weights in safetensors files.

    ``outline`` is the model; its weights may be on the meta device (:func:`outlined`). ``file`` names the model's
    config in messages. Raises TooLarge if the model has more than :data:`MAX_RATIO` times as many values as the files,
    and SafetensorError or OSError if one of the files cannot be read.
    """
    held = sum(map(_values_in, weight_files))
    needed = sum(weight.numel() for weight in outline.parameters())
    if needed > MAX_RATIO * held:
        raise TooLarge(
            f"{file} describes a model of {needed} weights, but its weight files hold {held}: download the complete "
            "model again, or correct the sizes in config.json"
        )


def outlined(model_class: Any, config: Any, **arguments: Any) -> Any:
    """Return the model of a transformers config on torch's meta device: its weights have shapes, but no values.

    ``model_class`` is a class of transformers, such as AutoModelForImageTextToText. ``arguments`` are further arguments
    of its ``from_config``. ``config`` is not changed.
    """
    make = getattr(model_class, "from_config", None) or model_class._from_config
    with torch.device("meta"):
        return make(copy.deepcopy(config), **arguments)


def weight_files(model: str, config: Any, revision: str) -> list[str]:
    """Return the safetensors files from which transformers loads the weights of a model; they are downloaded if needed.

    ``model`` is a folder or the id of a model in the Hugging Face Hub. ``config`` is the model's config. The list is
    empty if there are no such files. Raises OSError if the files cannot be downloaded.
    """
    options = {"revision": revision, "_raise_exceptions_for_missing_entries": False}
    for name in (getattr(config, "transformers_weights", None) or SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME):
        file = cached_file(model, name, **options)
        if file is not None and name.endswith(".index.json"):
            return get_checkpoint_shard_files(model, file, revision=revision)[0] or []
        if file is not None:
            return [file]
    return []


def _values_in(file: Path | str) -> int:
    """Return the largest number of weights that a safetensors file can hold.

    The number is computed from the shapes and types in the file's header. An integer may hold several weights of a
    quantised checkpoint, so each bit of an integer is counted as one weight. Any other value is one weight.
    """
    with safe_open(file, "pt") as opened:
        slices = [opened.get_slice(name) for name in opened.keys()]  # noqa: SIM118
        return sum(math.prod(each.get_shape()) * _INTEGER_BITS.get(each.get_dtype(), 1) for each in slices)


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
