"""Finds the modules of users' plug-ins: on Python's import path, in the current folder, and beside a user's config."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_config_folders: list[Path] = []
"""The folder of the config that was read last, then those of the configs that it extends (:func:`search_beside`)."""
_searched: list[str] = []
"""The folders of configs that are on the import path because a module was found only there, the latest first."""


def search_beside(config: Path | None) -> None:
    """Let :func:`extend_path` also search modules in the folder of a config that the user named.

    ``config`` is the path of the config, or of one that it extends; None before the user's next config is read, so that
    the folders of earlier configs are not searched any more. The folder of a run is never searched, because somebody
    else may have made it.
    """
    if config is None:
        _config_folders.clear()
    elif not (config.parent / "run.json").exists():
        _config_folders.append(config.parent.resolve())


def searched_folders() -> tuple[str, ...]:
    """Return the folders of configs from which modules of plug-ins are imported in this process."""
    return tuple(_searched)


def extend_path(top: str) -> None:
    """Add the current folder to the import path, or the folder of a config, if a module is not found without it.

    ``top`` is the name of the module, or of its outermost package. The folders of configs stay behind all others.
    """
    importlib.invalidate_caches()
    sys.path[:] = [each for each in sys.path if each not in _searched]
    if str(Path.cwd()) not in sys.path and importlib.util.find_spec(top) is None:
        sys.path.append(str(Path.cwd()))
    if importlib.util.find_spec(top) is None and (beside := folder_beside(top)):
        _searched[:] = [beside, *(each for each in _searched if each != beside)]
    sys.path += _searched


def folder_beside(top: str) -> str:
    """Return the first folder of :data:`_config_folders` that holds the module ``top``; "" if there is none."""
    folders = map(str, _config_folders)
    return next((each for each in folders if importlib.machinery.PathFinder.find_spec(top, [each])), "")
