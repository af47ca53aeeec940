"""Finds the modules of users' plug-ins: on Python's import path, beside a recipe (file of a pipeline), in the current
folder, and beside a user's config.
"""

import functools
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

from groundtrace.schemas.loop_step import folders_beside
from groundtrace.schemas.safe_files import UnsafeFile, read_json

_MARKERS = {
    "input.json": {"input", "fingerprint"},
    "run.json": {"config_sha256"},
    "questions/split.json": {"train", "held", "groups"},
}
"""The files by which the folders of runs, trainings and loops are recognized, each with keys that its object has.

A run writes ``input.json`` first, a published run and a training have ``run.json``, and a loop has ``split.json``.
Other programs write files with these names, but not with these keys.
"""
_config_folders: list[Path] = []
"""The folder of the config that was read last, then those of the configs that it extends (:func:`search_beside`)."""
_in_run: list[tuple[Path, Path]] = []
"""Those folders of these configs that are not searched, each with the folder of the run that is the reason."""
_searched: list[str] = []
"""The folders of configs that are on the import path because a module was found only there, the latest first."""
_recipes: list[str] = []
"""The folders of the recipes of users that are on the import path, the latest first."""
_present: list[str] = []
"""The folder of the recipe for which the last config was read; empty if no user's recipe was imported for it."""
_waiting: list[str] = []
"""The folder of the recipe that was imported last, until the next config is read."""
_current: list[str] = []
"""The current folder, if it is on the import path because a module was found only there."""


def search_beside(config: Path | None) -> None:
    """Let :func:`extend_path` also search modules in the folder of a config that the user named.

    ``config`` is the path of the config, or of one that it extends; None before the user's next config is read, so that
    the folders of earlier configs are not searched any more. The folder of a run and its subfolders are never searched,
    because somebody else may have made them. If a config in such a folder extends other configs, the folders of these
    configs are not searched either.
    """
    if config is None:
        _config_folders.clear()
        _in_run.clear()
        _present[:] = _waiting
        _waiting.clear()
        return
    folder = config.parent.resolve()
    run = _in_run[0][1] if _in_run else _run_around(folder)
    if run is None:
        _config_folders.append(folder)
    else:
        _in_run.append((folder, run))


def add_recipe_folder(folder: str) -> None:
    """Add the folder of a recipe (file of a pipeline) to the import path.

    The folder is put before the folders of other recipes, and behind all other folders.

    So a module beside the recipe cannot take the place of one of Groundtrace or of an installed package. A folder that
    Python or the user has put on the import path, such as the folder of a script, keeps its place.
    """
    importlib.invalidate_caches()
    _waiting[:] = [folder]
    if folder in sys.path and folder not in _recipes:
        return
    if folder in sys.path:
        sys.path.remove(folder)
    others = [sys.path.index(each) for each in _recipes if each in sys.path]
    sys.path.insert(min(others, default=len(sys.path)), folder)
    _recipes[:] = [folder, *(each for each in _recipes if each != folder)]


def recipe_folders() -> tuple[str, ...]:
    """Return the folders of the users' recipes (files of pipelines) that were imported in this process."""
    return tuple(_recipes)


def searched_folders() -> tuple[str, ...]:
    """Return the folders of configs from which modules of plug-ins are imported in this process."""
    return tuple(_searched)


def config_folders() -> tuple[str, ...]:
    """Return the folders in which modules of plug-ins are searched because of the config that was read last."""
    return tuple(map(str, _config_folders))


def current_folder() -> tuple[str, ...]:
    """Return the current folder, in which modules of plug-ins are searched; () if it is in the folder of a run.

    Somebody else may have made the folder of a run, so nothing is imported from it.
    """
    here = Path.cwd()
    return () if _run_around(here) is not None else (str(here),)


def unsearched_folder(top: str) -> tuple[Path, Path] | None:
    """Return a folder in which the module ``top`` is not searched, and the folder of the run that is the reason.

    The result is a folder that holds the module, if there is one: the current folder, or the folder of a config. If
    none of them holds the module, the result is the folder of the config, or None if this folder is searched.
    """
    here = Path.cwd()
    run = _run_around(here)
    places = [*_in_run, *([(here, run)] if run is not None else ())]
    holding = [each for each in places if importlib.machinery.PathFinder.find_spec(top, [str(each[0])])]
    return next(iter([*holding, *([] if folders_beside() else _in_run)]), None)


def extend_path(top: str) -> None:
    """Make a module importable if it is only in the current folder or in the folder of a config.

    ``top`` is the name of the module, or of its outermost package. If Python would not find it otherwise, this folder
    is added to the import path. The folders of configs stay behind all others. A folder with the name ``top`` but
    without ``__init__.py`` may hold only data, so the search continues behind it, as Python's own search does.
    """
    importlib.invalidate_caches()
    sys.path[:] = _own_path()
    for here in current_folder():
        if here not in sys.path and (_current or not _is_file(importlib.util.find_spec(top))):
            sys.path.append(here)
            _current[:] = [here]
    if not _is_file(importlib.util.find_spec(top)) and (beside := folder_beside(top)):
        _searched[:] = [beside, *(each for each in _searched if each != beside)]
    sys.path += _searched


def forget_folders() -> None:
    """Remove the folders that :func:`extend_path` and :func:`add_recipe_folder` have added to the import path."""
    sys.path[:] = [each for each in _own_path() if each not in _recipes]
    _recipes.clear()
    _searched.clear()
    _current.clear()


def folder_beside(top: str) -> str:
    """Return the first folder of a config that holds the module ``top``; "" if there is none.

    The folders of the user's present config, and of the configs that it extends, are searched first. If this command is
    a step of ``beam loop`` (a whole training), the folders of the configs of the loop are searched next. If one folder
    holds a Python file of the module, and an earlier one only a folder without ``__init__.py`` (which may hold only
    data), the folder with the file is returned.
    """
    folders = map(str, (*_config_folders, *folders_beside()))
    specs = {each: importlib.machinery.PathFinder.find_spec(top, [each]) for each in folders}
    found = sorted((each for each in specs if specs[each]), key=lambda each: not _is_file(specs[each]))
    return next(iter(found), "")


def folders_of(top: str) -> tuple[str, ...]:
    """Return the folders in which the module ``top`` would now be found; () if it would not be found.

    These places are searched in this order, as by :func:`extend_path`:

    1. Python's import path;
    2. the folder of the present recipe (file of a pipeline);
    3. the current folder;
    4. the folder of the present config;
    5. in a step of ``beam loop``, the folders of the loop's configs.

    A package without ``__init__.py`` may be in several folders. The returned paths have no symbolic links.
    """
    own = [each for each in _own_path() if each not in _recipes]
    places = [*own, *_present, *current_folder(), *map(str, (*_config_folders, *folders_beside()))]
    spec = importlib.machinery.PathFinder.find_spec(top, places)
    if spec is None:
        return ()
    if spec.origin is None:
        return tuple(str(Path(each).resolve().parent) for each in spec.submodule_search_locations or ())
    file = Path(spec.origin).resolve()
    return (str(file.parents[1] if file.name == "__init__.py" else file.parent),)


def _is_file(spec: importlib.machinery.ModuleSpec | None) -> bool:
    """Return whether a module was found that is more than a folder without ``__init__.py``."""
    return spec is not None and spec.origin is not None


def _run_around(folder: Path) -> Path | None:
    """Return the folder of a run, training or loop in which ``folder`` is, or which it is; None if there is none."""
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if _is_of_run(each)), None)


def _is_of_run(folder: Path) -> bool:
    """Return whether ``folder`` is the output folder of a run, a training or a loop (:data:`_MARKERS`)."""
    for name in _MARKERS:
        try:
            state = (folder / name).stat()
        except OSError:
            continue
        if _is_marker(folder, name, (state.st_ino, state.st_size, state.st_mtime_ns)):
            return True
    return False


@functools.lru_cache(maxsize=64)
def _is_marker(folder: Path, name: str, _state: tuple[int, int, int]) -> bool:
    """Return whether the file ``name`` in ``folder`` is one by which Groundtrace marks its output folders.

    ``_state`` has the inode, the size and the time of the last change of the file. The result is kept for this state,
    because each search for a module asks again, and a user's own ``input.json`` may be a large file.
    """
    try:
        return read_json(folder / name).keys() >= _MARKERS[name]
    except (OSError, ValueError, AttributeError, UnsafeFile):
        return False


def _own_path() -> list[str]:
    """Return the import path without the folders that :func:`extend_path` has added."""
    return [each for each in sys.path if each not in _searched and each not in _current]
