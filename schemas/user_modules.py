"""Keeps track of the modules that were imported from a user's folders: a recipe, the modules beside it, and plug-ins.

Python imports a module once in each process. In a notebook, the user may change a file after its import, or use two
recipes with different modules of one name. Python would then run other code than that of the file. So a run is refused
until the user calls ``groundtrace.reload()``, which makes Python forget these modules (:func:`forget_modules`).

A user's file is given as a pair of paths without symbolic links: the file, and the folder from which it is imported.
The modules that a file uses are found by the import statements in its source. A module that is imported in another way,
such as by ``importlib``, and a module from another folder are not checked.
"""

import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from groundtrace.schemas.errors import UserError

_PYC_HEADER_BYTES = 16


@dataclass(frozen=True)
class _Imported:
    """Describes a module when it was imported: the module, its spec, its file, and the SHA-256 of the file.

    ``digest`` is "" if the file had changed between the import and the time at which it was hashed. ``spec`` shows
    whether the module was reloaded since, because a reload replaces the spec of a module.
    """

    module: ModuleType
    spec: object
    file: Path
    digest: str


_imports: dict[str, _Imported] = {}
"""The modules of users that this process has imported, by name."""
_checked: set[tuple[Path, Path]] = set()
"""The files that were checked or imported in this process, each with the folder from which it is imported."""


class StaleModule(UserError):
    """Raised if Python would run other code than that of a user's file, because of an earlier import."""


def imported_files(folder: Path) -> set[Path]:
    """Return the files in a folder from which modules were imported.

    Files of Groundtrace and of installed packages are left out. The script that Python executes is left out, too, since
    it is not imported. ``folder`` is the path of the folder, without symbolic links.
    """
    ours = ("groundtrace", "__main__")
    others = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] not in ours]
    files = [Path(file) for module in others if isinstance(file := getattr(module, "__file__", None), str)]
    # the folder of a file may be a link, and the file itself a link to another folder
    inside = [file.parent.resolve() / file.name for file in files if file.suffix == ".py"]
    return {file for file in inside if is_own(file, folder)}


def used_files(file: Path, folder: Path) -> set[Path]:
    """Return the path of a user's Python file, and the paths of all files in ``folder`` that this file needs.

    A file needs the files that it imports, the files that these files import, and so on. The import statements in the
    sources give these files, so the result does not depend on the other modules that the process has imported.
    """
    return set(_used(file, folder))


def _used(file: Path, folder: Path) -> dict[Path, set[str]]:
    """Return a mapping from each file of :func:`used_files` to the full names that the file imports, such as ``a.b``.

    Modules of Groundtrace are left out, since the folder may be a checkout of Groundtrace and then has their files.
    """
    found, left = dict[Path, set[str]](), [file]
    while left:
        one = left.pop()
        if one not in found:
            found[one] = {name for name in _names_imported(one, folder) if name.partition(".")[0] != "groundtrace"}
            left += [each for name in found[one] for each in _files_of(name, folder)]
    return found


def _names_imported(file: Path, folder: Path) -> Iterator[str]:
    """Yield the full names that a file imports, such as ``a.b``; for ``from a import b``, both ``a`` and ``a.b``.

    For ``from a import *``, all modules of the package ``a`` are yielded. Nothing is yielded for a file that is missing
    or is not Python.
    """
    package = [*file.relative_to(folder).parts[:-1]]
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            for each in node.names:
                parts = folder.joinpath(*base.split(".")).glob("*.py") if each.name == "*" else ()
                yield from (f"{base}.{name}".removeprefix(".") for name in (each.name, *(part.stem for part in parts)))


def _files_of(name: str, folder: Path) -> list[Path]:
    """Return the files in a folder that Python executes if it imports the module ``name``.

    For the module ``a.b``, these are the file of the package ``a`` (its ``__init__.py``) and the file of ``a.b``. Files
    that do not exist are left out.
    """
    parts = [part for part in name.split(".") if part]
    found = list[Path]()
    for count in range(len(parts)):
        place = folder.joinpath(*parts[: count + 1])
        try:
            found += [each for each in (place / "__init__.py", place.with_suffix(".py")) if each.is_file()][:1]
        except OSError:  # a name that is too long for a file
            break
    return found


def _name_of(file: Path, folder: Path) -> str:
    """Return the name under which a file is imported from a folder."""
    parts = file.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module: object) -> Path | None:
    """Return the path of a module's file, without symbolic links; None if the module has no file."""
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None


def is_installed(file: Path) -> bool:
    """Return whether a file belongs to an installed package."""
    return "site-packages" in file.parts or "dist-packages" in file.parts


def is_own(file: Path, folder: Path) -> bool:
    """Return whether a file is in a folder of a user, and does not belong to a package installed there."""
    return file.is_relative_to(folder) and not is_installed(file)


def remember_modules(file: Path, folder: Path, before: Collection[str] = ()) -> None:
    """Store digests of the modules that a user's file uses, so that :func:`check_modules` can detect later changes.

    ``folder`` is the folder from which ``file`` is imported. The time at which the modules in ``before`` (their names)
    were imported is unknown, so their files may have changed since. Such a module counts as changed if its file differs
    from the file that Python compiled, according to the module's bytecode file. All other modules have just been
    imported, and their files are taken as unchanged.
    """
    _checked.add((file, folder))
    for used in used_files(file, folder):
        name = _name_of(used, folder)
        module = sys.modules.get(name)
        if module is not None and file_of(module) == used.resolve() and not _is_remembered(name, module):
            is_changed = name in before and _is_newer_than_compiled(module, used)
            _imports[name] = _Imported(module, module.__spec__, used, "" if is_changed else _digest(used))


def remember_failed(name: str, before: Collection[str]) -> None:
    """Store digests of the modules that a user's module had imported before its own import failed.

    ``name`` is the name of the user's module, and ``before`` are the names of the modules that were imported before it.
    See :func:`remember_modules`.
    """
    for file, folder in files_of_module(name):
        remember_modules(file, folder, before)


def files_of_module(name: str, places: Sequence[str] | None = None) -> set[tuple[Path, Path]]:
    """Return the files of a user that Python executes if it imports a module, each with the folder of the import.

    ``name`` is the name of the module, such as ``a.b``. ``places`` are the folders in which the module is searched;
    None for the import path. Nothing is imported. The result is empty for a module that is not found, and for one of
    Groundtrace, of Python or of an installed package.
    """
    top = name.partition(".")[0]
    spec = importlib.machinery.PathFinder.find_spec(top, places)
    if spec is None or top == "groundtrace" or top in sys.stdlib_module_names:
        return set()
    folders = {Path(place).parent.resolve() for place in spec.submodule_search_locations or [spec.origin] if place}
    found = {(file, folder) for folder in folders for file in _files_of(name, folder)}
    return {(file, folder) for file, folder in found if not is_installed(file)}


def check_modules(file: Path, folder: Path) -> None:
    """Raise StaleModule if Python has imported other code than that of a user's file and of the files that it uses.

    ``folder`` is the folder from which ``file`` is imported. There are three cases:

    - One of the files has changed or is gone since Python imported its module.
    - A changed module was imported again, but a module that imports the changed module was not imported again.
    - A module with the name of one of the files was imported from another folder.
    """
    _checked.add((file, folder))
    used = _used(file, folder)
    for each in used:
        name = _name_of(each, folder)
        module, users = sys.modules.get(name), [other for other, names in used.items() if name in names]
        if module is not None and file_of(module) != each.resolve():
            _refuse_other(name, module, each)
        elif _is_changed(name, module, each, folder, users):
            raise StaleModule(
                f"{each} has changed since Python imported it, so its old code would run: call gt.reload() (or start "
                "Python again), then repeat this call"
            )
    for name in set().union(*used.values()):
        gone = file_of(sys.modules.get(name))
        if gone is not None and is_own(gone, folder) and not gone.exists():
            raise StaleModule(
                f"{gone} is missing, but Python imported it before, so its old code would run: restore the file, or "
                "call gt.reload() (or start Python again), then repeat this call"
            )


def _refuse_other(name: str, module: ModuleType, file: Path) -> None:
    """Raise StaleModule if ``module``, which has the name of a user's file, is the module of another user's file.

    A module of Python or of an installed package is accepted, because it comes first on the import path.
    """
    other = file_of(module)
    if name.partition(".")[0] in sys.stdlib_module_names or (other is not None and is_installed(other)):
        return
    raise StaleModule(
        f"{file} cannot be imported, because {other or f'another module {name}'}, which has the same name, was "
        "imported before: call gt.reload() (or start Python again) and repeat this call, or rename one of the two files"
    )


def forget_modules() -> set[str]:
    """Make Python forget the modules of users' files, so that the next import executes the present files.

    Returns the names of the forgotten modules. These are the modules of all files that this process has passed to
    :func:`remember_modules` or :func:`check_modules`, and the modules that these files import from their folders.
    Modules of Groundtrace, of Python and of installed packages are kept. The bytecode files of the forgotten modules
    are deleted, because Python also uses the bytecode of a file that has changed within the same second and has kept
    its size. Objects that were made from the old code keep this code.
    """
    names = set(_imports)
    for file, folder in _checked:
        used = _used(file, folder)
        names |= {_name_of(each, folder) for each in used}
        imported = ((name, file_of(sys.modules.get(name))) for name in set().union(*used.values()))
        names |= {name for name, found in imported if found is not None and is_own(found, folder)}
    own = {name for name in names if _is_of_user(name)}
    # a package without __init__.py keeps the folders in which it was found first
    tops = {top for name in own if (top := name.partition(".")[0]) in sys.modules and file_of(sys.modules[top]) is None}
    own |= {top for top in tops if not any(name.startswith(f"{top}.") and _is_of_package(name) for name in sys.modules)}
    # a submodule that stays would not become an attribute of the package that is imported again
    below = {name for name in list(sys.modules) if any(name.startswith(f"{top}.") for top in own) and _is_python(name)}
    own |= {name for name in below if not _is_of_package(name)}
    for name in own:
        _forget(name)
    _imports.clear()
    _checked.clear()
    importlib.invalidate_caches()
    return own


def _is_of_user(name: str) -> bool:
    """Return whether the module with this name is imported, and is not one of Groundtrace, Python or a package."""
    file, top = file_of(sys.modules.get(name)), name.partition(".")[0]
    is_ours = top in ("groundtrace", "__main__") or top in sys.stdlib_module_names
    return file is not None and not is_ours and not is_installed(file)


def _is_of_package(name: str) -> bool:
    """Return whether the imported module with this name belongs to an installed package."""
    file = file_of(sys.modules.get(name))
    return file is not None and is_installed(file)


def _is_python(name: str) -> bool:
    """Return whether the imported module with this name is a Python file or a folder of modules.

    Other modules, such as compiled ones, may refuse a second import.
    """
    file = file_of(sys.modules[name])
    return file is None or file.suffix == ".py"


def _forget(name: str) -> None:
    """Remove the module with this name from the modules that Python has imported, and delete its bytecode file."""
    module = sys.modules.pop(name)
    parent, _, attribute = name.rpartition(".")
    # `from parent import module` takes the attribute before it imports
    if parent in sys.modules and getattr(sys.modules[parent], attribute, None) is module:
        delattr(sys.modules[parent], attribute)
    if isinstance(cached := getattr(getattr(module, "__spec__", None), "cached", None), str):
        with contextlib.suppress(OSError):
            Path(cached).unlink()


def _is_changed(name: str, module: ModuleType | None, file: Path, folder: Path, users: Collection[Path]) -> bool:
    """Return whether Python would run old code of a user's file.

    ``name`` is the name of the file's module, and ``folder`` the folder from which it is imported. ``module`` is the
    present module; None if no module of the file is imported. ``users`` are the files that import the module. The
    result is True in each of these cases:

    - :func:`remember_modules` has stored the present module, and the file has changed since.
    - The present module was not stored, and the file has changed since Python compiled it.
    - The file has changed, and its module was imported again or will be imported again. But the module of one of
      ``users`` was not imported again, and still uses the old module.
    """
    held = _imports.get(name)
    if held is not None and held.file != file:
        held = None
    if module is not None and _is_remembered(name, module):
        return held is None or _digest(file) != held.digest
    if module is not None and _is_newer_than_compiled(module, file):
        return True
    if held is None or _digest(file) == held.digest:
        return False
    names = [_name_of(user, folder) for user in users]
    return any((user := sys.modules.get(each)) is not None and _is_remembered(each, user) for each in names)


def _is_remembered(name: str, module: ModuleType) -> bool:
    held = _imports.get(name)
    return held is not None and held.module is module and held.spec is module.__spec__


def _is_newer_than_compiled(module: ModuleType, file: Path) -> bool:
    """Return whether a file has changed since Python compiled its module.

    The module's bytecode file holds the time of the last change and the size that the file had then. Both are compared
    with the present values. The result is False if the bytecode file is missing, is of another Python version or does
    not hold these values, and if Python cannot or must not write the bytecode file.
    """
    cached = getattr(module.__spec__, "cached", None)
    if sys.dont_write_bytecode or not isinstance(cached, str) or not os.access(cached, os.W_OK):
        return False
    try:
        head, found = Path(cached).read_bytes()[:_PYC_HEADER_BYTES], file.stat()
    except OSError:
        return False
    magic, flags, *numbers = head[:4], *(int.from_bytes(head[at : at + 4], "little") for at in (4, 8, 12))
    is_dated = magic == importlib.util.MAGIC_NUMBER and flags == 0
    return is_dated and numbers != [int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF]


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "missing"
