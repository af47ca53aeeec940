"""Checks the files of a model's folder, which another person may have sent, before transformers reads them.

transformers follows links, waits for pipes, and reads weights from each path that an index of weights contains. Texts
such as chat templates become part of the trained model, so private files of the user could leave with the model. The
files of a checkpoint are checked in the same way.
"""

import os
from pathlib import Path

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import UnsafeFile, read_json, refuse_special
from groundtrace.vision.media import is_elsewhere

INDEX = ".index.json"
"""The end of the name of an index: a file that maps the name of each weight to the file that holds the weight."""


class ModelError(UserError):
    """Raised if the model cannot be loaded or trained; the message contains the reason and the remedy."""


def check_model_files(folder: Path) -> None:
    """Check the files in a model's folder, and in the folders below it.

    Raises ModelError if an index of weights names files elsewhere, and the errors of :func:`own_files`.
    """
    for path in own_files(folder):
        if path.name.endswith(INDEX):
            _check_index(path)


def own_files(folder: Path) -> list[Path]:
    """Return the files in a folder of a model or a checkpoint, and in the folders below it.

    Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` for a link that leads out of the folder, a pipe and a
    device. Links of the Hub's cache may lead to its ``blobs``, and ``folder`` itself may be a link.
    """
    found = [Path(parent, name) for parent, folders, files in os.walk(folder) for name in (*folders, *files)]
    for path in found:
        if path.is_symlink() and is_elsewhere(path, folder):
            raise UnsafeFile(
                f"{path} is a link that leads out of {folder}, which may come from a stranger: replace the link by a "
                "copy of the file, or remove it"
            )
        refuse_special(path)
    return [path for path in found if path.is_file()]


def _check_index(path: Path) -> None:
    try:
        index = read_json(path)
        names = index["weight_map"].values()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is not an index of weights ({type(error).__name__}): download it again") from error
    for name in names:
        if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
            raise ModelError(
                f"{path} names the file {name!r:.100} for weights, but only files in its own folder are read: download "
                "the model again, or correct the index"
            )
