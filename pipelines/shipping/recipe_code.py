"""The wheel of a user's recipe: the file, and the modules and prompts beside it.

It holds one package, ``groundtrace_recipe_DIGEST``, with the user's files in their original layout. Importing it does
on a worker what the command line did here (:func:`groundtrace.pipelines.running.loading.adopt_file`), so that all names
are the same as here. Their folder is the last on the path: their ``utils.py`` does not replace another module.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from groundtrace.pipelines.running.loading import PipelineError, is_bundled
from groundtrace.pipelines.shipping.wheels import digest_of, write_wheel
from groundtrace.schemas.coding import RECORD_MODULES

MAX_BYTES = 50_000_000
_ADOPTS = '''"""Makes a recipe known to a worker, with the modules and prompts beside it."""

import importlib
from pathlib import Path

from groundtrace.pipelines.running.loading import adopt_file

adopt_file(str(Path(__file__).resolve().parent / "files" / {name!r}))
for module in {modules!r}:
    importlib.import_module(module)
'''


def write_recipe_wheel(folder: Path, recipe: Path) -> tuple[Path, str] | None:
    """Write the wheel of the recipe in the file ``recipe``, which has been loaded; None for a bundled one.

    Returns its path, and the module that a worker has to import. Raises
    :class:`groundtrace.pipelines.running.loading.PipelineError` if the files beside the recipe are too large.
    """
    if is_bundled(recipe):
        return None
    found = {path.relative_to(recipe.parent).as_posix(): path for path in _files(recipe.parent)}
    size = sum(path.stat().st_size for path in found.values())
    if size > MAX_BYTES:
        raise PipelineError(
            f"{recipe}: modules of {size / 1e6:.0f} MB stand beside it, and all would be sent to each worker "
            f"(at most {MAX_BYTES / 1e6:.0f} MB): move the recipe into a folder of its own"
        )
    adopts = _ADOPTS.format(name=recipe.name, modules=_record_modules(recipe.parent))
    files = {f"files/{name}": path.read_bytes() for name, path in found.items()}
    files["__init__.py"] = adopts.encode()
    package = f"groundtrace_recipe_{digest_of(files)}"
    held = {f"{package}/{name}": content for name, content in files.items()}
    return write_wheel(folder, package, "0", held), package


def belongs_to(module: str, folder: Path) -> bool:
    """Whether an imported module is in the folder."""
    origin = getattr(sys.modules.get(module), "__file__", None)
    return origin is not None and Path(origin).resolve().is_relative_to(folder)


def _record_modules(folder: Path) -> list[str]:
    """The modules of the folder that declare records: a worker must know them before it decodes its first row."""
    return sorted(module for module in RECORD_MODULES if belongs_to(module, folder))


def _files(folder: Path) -> Iterator[Path]:
    """The files in its folder that a recipe can import, or load as a prompt, without hidden ones."""
    yield from sorted(folder.glob("prompts/*.yaml"))
    modules = set(folder.glob("*.py"))
    for package in folder.glob("*/__init__.py"):
        for root, folders, names in os.walk(package.parent):
            folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
            modules.update(Path(root) / name for name in names if not name.startswith(".") and name[-4:] != ".pyc")
    imported = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    for file in map(Path, filter(None, imported)):  # also from folders without __init__.py
        if file.suffix == ".py" and file.is_relative_to(folder) and "site-packages" not in file.parts:
            modules.add(file)
    yield from sorted(modules)
