"""Makes the wheel of a user's own code: a recipe (a pipeline's file) with the modules and prompts beside it, and the
config's plug-ins.

The wheel holds one package, ``groundtrace_recipe_DIGEST``, with the user's files in their original layout. A worker
imports this package. The import loads the recipe and the plug-ins as the command line loaded them on this machine
(:func:`groundtrace.pipelines.running.plan.loading.adopt_file`, :func:`groundtrace.schemas.registry.use_plugins`). So
all modules have the same names on both machines. The folder of the user's files is the last on the import path, so that
a user's ``utils.py`` does not replace another module. Plug-ins of installed packages are not in the wheel: these
packages must be installed on the workers.
"""

import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from groundtrace.pipelines.running.plan.loading import PipelineError, is_bundled
from groundtrace.pipelines.shipping.wheels import digest_of, write_wheel
from groundtrace.schemas.coding import RECORD_MODULES
from groundtrace.schemas.registry import configured_plugins, plugin_folders
from groundtrace.schemas.user_modules import imported_files

MAX_BYTES = 50_000_000
_ADOPTS = '''"""Makes a recipe and plug-ins known to a worker, with the modules and prompts beside them."""

import importlib
import sys
from pathlib import Path

from groundtrace.pipelines.running.plan.loading import adopt_file
from groundtrace.schemas.registry import use_plugins

files = Path(__file__).resolve().parent / "files"
sys.path.append(str(files))
if {name!r}:
    adopt_file(str(files / {name!r}))
use_plugins({plugins!r})
for module in {modules!r}:
    importlib.import_module(module)
'''


def write_recipe_wheel(folder: Path, recipe: Path) -> tuple[Path, str] | None:
    """Write a wheel with the user's code that the workers need: the recipe's folder and the config's plug-ins.

    ``folder`` is an existing folder for the wheel. ``recipe`` is the file of the recipe, which has been loaded. Returns
    the wheel's path and the name of the module that a worker has to import. Returns None for a bundled recipe without
    plug-ins, because then no wheel is needed. Raises :class:`groundtrace.pipelines.running.plan.loading.PipelineError`
    if the files have more than :data:`MAX_BYTES` in all.
    """
    plugins, is_own = configured_plugins(), not is_bundled(recipe)
    if not is_own and not plugins:
        return None
    folders = plugin_folders()
    found = {path.relative_to(root).as_posix(): path for root in sorted(folders) for path in imported_files(root)}
    found |= {path.relative_to(recipe.parent).as_posix(): path for path in _files(recipe.parent)} if is_own else {}
    size = sum(path.stat().st_size for path in found.values())
    if size > MAX_BYTES:
        beside = f"the Python files and prompts in {recipe.parent}" if is_own else ""
        code = " and ".join(filter(None, [beside, "the plug-ins of the config" if plugins else ""]))
        raise PipelineError(
            f"{code} have {size / 1e6:.0f} MB, but at most {MAX_BYTES / 1e6:.0f} MB can be sent to a worker: move what "
            "the run does not need to another folder"
        )
    modules = _record_modules({*folders, *((recipe.parent,) if is_own else ())})
    adopts = _ADOPTS.format(name=recipe.name if is_own else "", plugins=plugins, modules=modules)
    files = {f"files/{name}": path.read_bytes() for name, path in found.items()}
    files["__init__.py"] = adopts.encode()
    package = f"groundtrace_recipe_{digest_of(files)}"
    held = {f"{package}/{name}": content for name, content in files.items()}
    return write_wheel(folder, package, "0", held), package


def belongs_to(module: str, folder: Path) -> bool:
    """Return whether a module has been imported from a file in a folder or in its subfolders.

    ``module`` is the name of the module. ``folder`` is the path of the folder, without symbolic links. The result is
    False for a module that has not been imported.
    """
    origin = getattr(sys.modules.get(module), "__file__", None)
    return origin is not None and Path(origin).resolve().is_relative_to(folder)


def _record_modules(folders: Collection[Path]) -> list[str]:
    """Return the names of the imported modules in ``folders`` that define record classes of the user.

    A record class is a class with the decorator :func:`groundtrace.schemas.coding.record`, whose objects Beam sends
    between processes. A worker must import these modules before it decodes its first record.
    """
    shipped = (module for module in RECORD_MODULES if any(belongs_to(module, folder) for folder in folders))
    return sorted(module for module in shipped if module.partition(".")[0] != "groundtrace")


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files in a recipe's folder that the recipe can import or load as a prompt, except hidden files."""
    yield from sorted(folder.glob("prompts/*.yaml"))
    modules = set(folder.glob("*.py"))
    for package in folder.glob("*/__init__.py"):
        for root, folders, names in os.walk(package.parent):
            folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
            modules.update(Path(root) / name for name in names if not name.startswith(".") and name[-4:] != ".pyc")
    yield from sorted(modules | imported_files(folder))  # also from folders without __init__.py
