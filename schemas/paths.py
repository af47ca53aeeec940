"""Converts the paths that users write on a command line: it expands ``~`` (the home folder) and follows symbolic
links.
"""

import os
from pathlib import Path


def local_path(name: str) -> Path:
    """Return ``name``, a path from a command line, as a Path. A ``~`` at its beginning is expanded to the home folder,
    if the shell has not done so.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError:  # an unknown user: an ordinary name
        return Path(name)


def real_path(name: str) -> Path:
    """Return the path ``name`` with a leading ``~`` expanded and all symbolic links resolved.

    Links that form a cycle are not resolved. Reading or writing such a path fails later.
    """
    return Path(os.path.realpath(local_path(name)))  # Path.resolve raises RuntimeError for them


def is_pipe(name: str) -> bool:
    """Return whether the path ``name`` is a pipe or a terminal, e.g. the shell's ``<(…)``. Such a file can be read only
    once.
    """
    path = local_path(name)
    try:
        return path.is_fifo() or path.is_char_device()
    except OSError:  # such as a name that is too long
        return False
