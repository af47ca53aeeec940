"""Checks the files of a model's folder, which another person may have sent, before transformers reads them.

Without these checks, transformers could read private files of the user, or wait forever:

- transformers follows links. For example, a chat template could be a link to a private file. The content of the private
  file would then be copied into the trained model, like every chat template.
- transformers waits for data from pipes.
- transformers reads weights from each path in an index of weights (a file that lists the files with the weights).
- transformers reads further files or models, because some keys in the settings of the tokenizer and of the processor
  have paths as values.

The files of a checkpoint (a saved state of a training) are checked only for links, pipes and devices
(:func:`own_files`).
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import UnsafeFile, is_elsewhere, read_json, refuse_special

INDEX = ".index.json"
"""The end of the name of an index: a file that maps the name of each weight to the file that holds the weight."""
LIBRARY_SETTINGS = ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json")
"""The files in which transformers finds the arguments of the tokenizer and of the processor."""
ADAPTER = "adapter_config.json"
"""The name of a file that a model's folder must not have.

If the folder has it, transformers makes the adapters that the file describes, of any size, and applies them to the
model, although the trainer does not request this.
"""
PATH_KEYS = ("vocab", "merges", "init_inputs", "gguf_file", "audio_tokenizer")
"""Keys that are refused in the files :data:`LIBRARY_SETTINGS`.

The value of such a key can be the path of any file or model, which transformers then reads. The models of the trainer's
families do not have these keys. Other keys for paths, such as ``vocab_file``, are accepted, because transformers
replaces their values.
"""


class ModelError(UserError):
    """Raised if the model cannot be loaded or trained; the message contains the reason and the remedy."""


@contextlib.contextmanager
def reading(model: str, content: str) -> Iterator[None]:
    """Convert errors in the body of the ``with``, which reads files of a model, to ModelError.

    Errors of all types are converted, except for UserError. The reason is that the files may come from a stranger: if a
    file has values of unexpected types, transformers may raise an error of any type. ``model`` is the model's folder or
    id, and ``content`` is the name of the files in the error message.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise ModelError(
            f"cannot load {model}: {' '.join(str(error).split())[:300]} ({type(error).__name__} in {content}): check "
            "model.path and the files of the model"
        ) from error


def check_model_files(folder: Path) -> None:
    """Check the files in a model's folder, and in the folders below it.

    The checked files are each index of weights, and the settings of the tokenizer and of the processor. Raises
    ModelError in these cases:

    - A checked file cannot be read.
    - A checked file names a file outside its own folder, or has a value for one of the keys :data:`PATH_KEYS`.
    - ``folder`` itself has the file :data:`ADAPTER`, which describes an adapter such as LoRA.

    Also raises the errors of :func:`own_files`, which checks all files.
    """
    for path in own_files(folder):
        if path.name == ADAPTER and path.parent == folder:
            raise ModelError(
                f"{path} is an adapter, but model.path must be a whole model: merge the adapter into the model first, "
                "or remove this file"
            )
        if path.name.endswith(INDEX):
            _check_index(path)
        elif path.name in LIBRARY_SETTINGS:
            _check_settings(path)


def own_files(folder: Path) -> list[Path]:
    """Return the files in a folder of a model or a checkpoint, and in the folders below it.

    Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if one of the files is a pipe, a device, or a link that
    leads out of ``folder``. There are two exceptions: ``folder`` itself may be a link, and in the cache of the Hugging
    Face Hub, a link may lead to the folder ``blobs`` of the model.
    """
    found = [Path(parent, name) for parent, folders, files in os.walk(folder) for name in (*folders, *files)]
    for path in found:
        if path.is_symlink() and is_elsewhere(path, folder):
            raise UnsafeFile(
                f"{path} is a link that leads out of {folder}, so a private file could become part of the output: "
                "replace the link by a copy of the file, or remove the link"
            )
        refuse_special(path)
    return [path for path in found if path.is_file()]


def _check_index(path: Path) -> None:
    try:
        names = read_json(path)["weight_map"].values()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is not an index of weights ({type(error).__name__}): download it again") from error
    _check_names(path, names, "weights")


def _check_settings(path: Path) -> None:
    try:
        settings = read_json(path)
        named = [key for key in PATH_KEYS if settings.get(key) not in (None, "", [])]
        tokenizers = list(settings.get("fast_tokenizer_files") or ())
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is not a JSON object ({type(error).__name__}): download it again") from error
    if named:
        raise ModelError(
            f"{path} has the key {named[0]!r}, whose value may be the path of a private file, which would be read: "
            "remove this key, and save the tokenizer as tokenizer.json in the same folder"
        )
    _check_names(path, tokenizers, "the tokenizer")


def _check_names(path: Path, names: Iterable[Any], content: str) -> None:
    """Raise ModelError for the first of ``names`` that is not a plain file name, i.e. a file name without a folder.

    The file ``path`` contains these names. ``content`` is what the named files hold, such as "weights", for the
    message.
    """
    for name in names:
        if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
            raise ModelError(
                f"{path} names {name!r:.100} as a file of {content}, but it may name only files in the same folder: "
                f"correct {path.name}, or download the model again"
            )
