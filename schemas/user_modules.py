"""Keeps track of the modules that were imported from a user's folders: a recipe, the modules beside it, and plug-ins.

Python imports a module once in each process. In a notebook, the user may change a file after its import, or use two
recipes with different modules of one name. Python would then run other code than that of the file.
"""

import ast
import contextlib
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from groundtrace.schemas.errors import UserError

_digests: dict[str, tuple[ModuleType, Path, str]] = {}
"""Each module of a user, by its name, with its file and the SHA-256 of the file when it was imported."""


class StaleModule(UserError):
    """Raised if Python would run other code than that of a user's file, because of an earlier import."""


def imported_files(folder: Path) -> set[Path]:
    """Return the files in a folder from which modules were imported, except Groundtrace's and installed packages'.

    ``folder`` is the path of the folder, without symbolic links.
    """
    return {file for _, _, file in _imported(folder)}


def used_files(file: Path, folder: Path) -> set[Path]:
    """Return a Python file of a user, and the files of a folder that it imports, directly or through each other.

    The files are found by the import statements in their source, so the result does not depend on what else the
    process has imported. ``file`` is the path of the file, and ``folder`` is the folder from which its module is
    imported, both without symbolic links.
    """
    found, left = set[Path](), [file]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += [each for name in _names_imported(one, folder) for each in _files_of(name, folder)]
    return found


def _names_imported(file: Path, folder: Path) -> Iterator[str]:
    """Yield the full names that a file imports, such as ``a.b``; for ``from a import b``, both ``a`` and ``a.b``.

    Nothing is yielded for a file that is not Python.
    """
    package = [*file.relative_to(folder).parts[:-1]]
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{each.name}".removeprefix(".") for each in node.names))


def _files_of(name: str, folder: Path) -> list[Path]:
    """Return the files in a folder that Python executes to import a module: also those of the packages around it."""
    parts = [part for part in name.split(".") if part]
    places = [folder.joinpath(*parts[: count + 1]) for count in range(len(parts))]
    files = [file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))]
    return [file for file in files if file.is_file()]


def is_installed(file: Path) -> bool:
    """Return whether a file belongs to an installed package."""
    return "site-packages" in file.parts or "dist-packages" in file.parts


def is_own(file: Path, folder: Path) -> bool:
    """Return whether a file is in a folder of a user, and does not belong to a package installed there."""
    return file.is_relative_to(folder) and not is_installed(file)


def remember_modules(file: Path, folder: Path) -> None:
    """Store digests of a recipe's or plug-in's file and of the files that it imports (:func:`used_files`), so that
    :func:`check_modules` can detect later changes.

    Other modules of the folder, such as a script that calls Groundtrace, may change.
    """
    used = used_files(file, folder)
    for name, module, imported in _imported(folder):
        if imported in used and (name not in _digests or _digests[name][0] is not module):
            _digests[name] = (module, imported, _digest(imported))


def check_modules() -> None:
    """Raise StaleModule if a file of a user has changed since a module was imported from it."""
    for name, (module, file, digest) in _digests.items():
        if sys.modules.get(name) is module and file.is_file() and _digest(file) != digest:
            raise StaleModule(
                f"{file} has changed since Python imported it, so its old code would run: start Python again (in a "
                "notebook, restart the kernel)"
            )


@contextlib.contextmanager
def modules_of(folder: Path) -> Iterator[None]:
    """Import the modules beside a recipe from the recipe's folder, inside the ``with`` block.

    An earlier recipe may have imported a module with the same name from its own folder. Raises StaleModule if the block
    imports the module with this name from ``folder``, because a process can use only one of the two.
    """
    beside = {file.stem for file in folder.glob("*.py")} | {file.parent.name for file in folder.glob("*/__init__.py")}
    taken = {name for name in beside if name in _digests and not is_own(_digests[name][1], folder)}
    others = {name: sys.modules.pop(name) for name in taken if name in sys.modules}
    try:
        yield
        for name, other in others.items():
            if name in sys.modules:
                raise StaleModule(
                    f"{sys.modules[name].__file__} cannot be imported, because {other.__file__}, which has the same "
                    "name, was imported before: start Python again, or rename one of the two files"
                )
    finally:
        sys.modules.update(others)


def _imported(folder: Path) -> list[tuple[str, ModuleType, Path]]:
    """Return the name, the module and the file of each module that was imported from a folder or its subfolders.

    The script that Python executes is left out, since it is not imported.
    """
    ours = ("groundtrace", "__main__")
    others = [(name, module) for name, module in list(sys.modules.items()) if name.partition(".")[0] not in ours]
    files = [(name, module, Path(file)) for name, module in others if (file := getattr(module, "__file__", None))]
    return [each for each in files if each[2].suffix == ".py" and is_own(each[2], folder)]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
