"""Loads the recipe (the Python file of a pipeline) that a command line names: a bundled recipe, or a user's file in any
folder.
"""

import contextlib
import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from groundtrace import pipelines
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.module_search import add_recipe_folder, recipe_folders
from groundtrace.schemas.paths import local_path
from groundtrace.schemas.registry import forget_parts
from groundtrace.schemas.user_modules import StaleModule, check_modules, is_own, remember_modules

if TYPE_CHECKING:
    from groundtrace.stages.plumbing.recipe import Recipe

_BUNDLED = Path(pipelines.__file__).resolve().parent


class PipelineError(UserError):
    """Raised if a pipeline cannot be used, for example because its file is missing or cannot be imported. Also raised
    if one of its stages (steps) failed for too many records.
    """


def load_recipe(name: str) -> "Recipe":
    """Import the recipe (the Python file of a pipeline) that the command line names, and return its description.

    ``name`` is the name or the file of a bundled recipe, or the file of a user's recipe. A user's file may import
    modules beside it and use prompts from a folder ``prompts`` beside it. Raises :class:`PipelineError` if the file is
    not found, cannot be imported, or does not define the variable ``RECIPE``.
    """
    from groundtrace.stages.plumbing.recipe import Recipe  # imports Beam, and a wrong name does not need it

    module = adopt_file(str(recipe_file(name)))
    recipe = getattr(module, "RECIPE", None)
    if not isinstance(recipe, Recipe):
        raise PipelineError(
            f"{name} is not a pipeline: define RECIPE = Recipe(…) in this file, as docs/extend.md shows"
        )
    return recipe


def recipe_file(name: str) -> Path:
    """Return the path of the Python file of a recipe (a pipeline), without symbolic links.

    ``name`` is the file's path, or the name of a bundled recipe. Raises :class:`PipelineError` if there is no such
    recipe.
    """
    path, bundled = local_path(name), bundled_names()
    with contextlib.suppress(OSError):  # such as a name that is too long
        if path.is_file():
            return path.resolve()
    if name in bundled:
        return bundled_file(name)
    known = f"name a bundled pipeline ({', '.join(bundled)})"
    if name.endswith(".py"):
        raise PipelineError(f"there is no file {name!r} in the folder {Path.cwd()}: correct the path, or {known}")
    raise PipelineError(f"there is no pipeline {name!r}: {known}, or a .py file")


def bundled_file(name: str) -> Path:
    """Return the path of the Python file of a bundled recipe (a pipeline) with this name, such as ``grounded_cot``."""
    return _BUNDLED / f"{name}.py"


def bundled_names() -> list[str]:
    """Return the sorted names of the recipes (pipelines) that Groundtrace contains, such as ``grounded_cot``."""
    return sorted(file.stem for file in _BUNDLED.glob("*.py") if not file.stem.startswith("_"))


def is_bundled(file: Path) -> bool:
    """Return whether a file is the Python file of a recipe (pipeline) that Groundtrace contains.

    ``file`` is its path, in which symbolic links must be resolved.
    """
    return file.parent == _BUNDLED


def _is_ours(module: str) -> bool:
    """Return whether a module's name begins with a package of Groundtrace, but lacks ``groundtrace.`` before it.

    For example, a user's file imports ``stages.draw_questions`` instead of ``groundtrace.stages.draw_questions``.
    """
    return importlib.util.find_spec(f"groundtrace.{module.partition('.')[0]}") is not None


@contextlib.contextmanager
def _no_bytecode() -> Iterator[None]:
    """Prevent imports in the body of the ``with`` statement from writing ``__pycache__``."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


_importing = threading.RLock()
"""Held while the recipe of a user is imported: two threads may run recipes with different modules of one name."""


def adopt_file(path: str) -> ModuleType:
    """Import the file of a recipe (a pipeline), and return its module.

    ``path`` is the path of the file. Before the import of a user's file, its folder is added to the import path, and a
    folder ``prompts`` beside the file is added to the prompt folders. Worker processes also call this function, so that
    the recipe's stages (steps) have the same module names in all processes. The import writes no bytecode into the
    user's folder.

    Raises :class:`PipelineError` if the file cannot be imported, or if another module has its name. Raises
    :class:`groundtrace.schemas.user_modules.StaleModule` if Python has imported other code than that of the file and
    of the modules beside it (:func:`groundtrace.schemas.user_modules.check_modules`).
    """
    file = Path(path)
    if is_bundled(file):
        return importlib.import_module(f"groundtrace.pipelines.{file.stem}")
    if file.suffix != ".py":
        raise PipelineError(f"{file}: the name of a pipeline's file must end in .py: rename the file")
    if not file.stem.isidentifier():
        raise PipelineError(
            f"{file}: the name of a pipeline's file must be a valid module name, such as my_pipeline.py: rename the "
            "file"
        )
    if (file.parent / "prompts").is_dir():
        from groundtrace.prompts.loader import add_prompt_folder, forget_prompts  # a wrong name does not need it

        add_prompt_folder(file.parent / "prompts")
        forget_prompts()  # they may have been edited since the last run of this process
    with _importing:
        return _adopted(file)


def _adopted(file: Path) -> ModuleType:
    """Import the file of a user's recipe, and return its module; see :func:`adopt_file`."""
    check_modules(file, file.parent)
    add_recipe_folder(str(file.parent))
    before, known = set(sys.modules), sys.modules.get(file.stem)
    spec = known.__spec__ if known is not None else importlib.util.find_spec(file.stem)
    origin = spec.origin if spec is not None else None
    if origin is None or Path(origin).resolve() != file:
        raise PipelineError(f"{file}: another module is named {file.stem} ({origin}): rename the file")
    try:
        with _no_bytecode():
            module = importlib.import_module(file.stem)
        remember_modules(file, file.parent, before)
        check_modules(file, file.parent)
    except StaleModule:
        sys.modules.pop(file.stem, None)
        raise
    except (Exception, SystemExit) as error:  # anything that the user's code raises; sys.exit(0) is not a finished run
        remember_modules(file, file.parent, before)  # those that the recipe had imported before the error
        sys.modules.pop(file.stem, None)
        raise PipelineError(_fault(file, error)) from error
    return module


def forget_user_code() -> set[str]:
    """Make Python forget the users' recipes, plug-ins and prompts, and the modules that the recipes and plug-ins import
    from their folders.

    The next use imports or reads the present files. Returns the names of the forgotten modules.
    """
    from groundtrace.prompts.loader import forget_prompts

    with _importing:
        forget_prompts({Path(folder) / "prompts" for folder in recipe_folders()})
        return forget_parts()


def _fault(file: Path, error: BaseException) -> str:
    """Return a message of one line on why the recipe ``file`` cannot be imported.

    ``error`` is the error that the import raised. The message names the place of the fault, i.e. a line in the recipe
    or in another file of the recipe's folder (:func:`_place`).
    """
    message = (
        str(error) if isinstance(error, SyntaxError | ImportError | UserError) else f"{type(error).__name__}: {error}"
    )
    at, line = _place(file, error)
    name = "" if at == file else f"{at.name}, "
    where = f" ({name}line {line})" if line and not isinstance(error, SyntaxError) else ""
    remedy = "" if isinstance(error, UserError) else f"; correct {'this file' if at == file else at}"
    if isinstance(error, ModuleNotFoundError):
        is_ours = _is_ours(error.name or "")
        remedy = f"; import groundtrace.{error.name} instead" if is_ours else f"{remedy}, or install the module"
    return f"{file} cannot be imported: {' '.join(message.split())}{where}{remedy}"


def _place(recipe: Path, error: BaseException) -> tuple[Path, int]:
    """Return the file and the line at which the import of a recipe failed; the recipe and 0 if they are unknown.

    ``recipe`` is the recipe's file. For a SyntaxError, the result is the place that the error names. For another error,
    the result is the last place in the error's traceback that is in the recipe or in a file of the recipe's folder.
    """
    if isinstance(error, SyntaxError):
        return Path(error.filename or recipe), error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    found = [(Path(each.filename), each.lineno or 0) for each in frames if is_own(Path(each.filename), recipe.parent)]
    return found[-1] if found else (recipe, 0)
