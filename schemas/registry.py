"""Finds the exchangeable parts of this project by name. Parts are, for example, scorers (code that checks a response),
answer types and input formats. Each kind of part has its own registry.

A registry maps a name to a path ``module:NAME``. The value at this path is imported when the name is looked up. Parts
from outside this repository (plug-ins) are found in the same way. One of two things gives a plug-in its name:

- a config: ``[plugins] scorers.brevity = "my_module:BREVITY"``;
- an installed package: an entry point ``scorers.brevity = "my_module:BREVITY"`` in the group :data:`GROUP`.

A config may also contain ``module:NAME`` instead of the name of a part. A path in a record, a row or a reply is never
imported.
"""

import difflib
import functools
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.module_search import (
    extend_path,
    folders_of,
    forget_folders,
    searched_folders,
    unsearched_folder,
)
from groundtrace.schemas.user_modules import (
    StaleModule,
    check_modules,
    file_of,
    forget_modules,
    is_installed,
    remember_failed,
    remember_modules,
)

T = TypeVar("T")
GROUP = "groundtrace.plugins"
"""The group of entry points through which an installed package adds parts, such as scorers (:data:`KINDS`)."""
KINDS = (
    "answer_types",
    "endpoint_kinds",
    "environments",
    "exports",
    "families",
    "formats",
    "reward_recipes",
    "scorers",
    "shapes",
)
"""The names of the kinds of parts, which are exchangeable pieces of this project, such as scorers.

The section ``[plugins]`` of a config and the entry points of installed packages use these names.
"""


class RegistryError(UserError, ValueError):
    """Raised if a part, such as a scorer, cannot be found, imported or used.

    The message is the end of a sentence, such as "must be one of …". The caller puts the config key in front of it.
    """


@dataclass(frozen=True)
class Plugin:
    """Describes a part from outside this repository (a plug-in), such as a user's own scorer.

    ``path`` is where the part is defined, as ``module:NAME``. ``origin`` is the config or package that names the part,
    for messages. ``is_of_config`` states whether a config names the part.
    """

    path: str
    origin: str
    is_of_config: bool = False

    def __str__(self) -> str:
        return f"{self.path} (from {self.origin})"


_configured: dict[str, dict[str, Plugin]] = {}
"""The plug-ins that :func:`use_plugins` has registered in this process, e.g. from a config, by kind and name."""
_allowed_by: list[str] = []
"""The arguments of those calls of :func:`installed_code_only` whose ``with`` body still runs.

If the list is empty, code of users may be loaded. Otherwise such code is refused, and the last argument is the end of
the error message.
"""
_registries: "list[Registry[Any]]" = []
"""The registries in the modules that this process has imported."""


class Registry(Generic[T]):
    """Maps names to the parts of one kind, such as all scorers.

    Iteration yields names and imports nothing. The names of this repository's parts come first, then those of installed
    packages, then those that a config names.
    """

    def __init__(self, kind: str, what: str, of: str, ours: Mapping[str, str | T], *, classes: bool = False) -> None:
        """Create the registry of one kind of part, such as scorers (code that checks a response).

        Args:
            kind: the name of the kind, one of the :data:`KINDS`.
            what: the word for one part in messages, such as ``scorer``.
            of: the type of the parts as ``module:Class``; it is imported only to check a part.
            ours: the parts of this repository by name: ``module:NAME``, or the value itself if no import is needed.
            classes: whether a part is a subclass of that type, instead of an instance of it.
        """
        self.kind, self.what, self.ours = kind, what, ours
        self._of, self._classes = of, classes
        _registries.append(self)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.ours, *_installed().get(self.kind, ()), *_configured.get(self.kind, ()))))

    def __contains__(self, name: object) -> bool:
        return name in self.ours or name in _installed().get(self.kind, ()) or name in _configured.get(self.kind, ())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def plugins(self) -> tuple[str, ...]:
        """Return the names of the plug-ins in this registry. A plug-in is a part (e.g. a scorer) from outside this
        repository.
        """
        return tuple(name for name in self if name not in self.ours)

    def __getitem__(self, name: str) -> T:
        """Return the part with this name, which is imported at the first use.

        Raises RegistryError if there is no such part, if two parts have the name, or if the part cannot be used.
        """
        if name not in self:
            raise RegistryError(self._unknown(name, "must be one of {known}, got {name}"))
        found = self._source(name)
        if not isinstance(found, str):
            return found
        try:
            made = self._loaded(found)
        except RegistryError as error:
            package = next((f" (from {each.origin})" for each in self._installed_as(name)), "")
            raise RegistryError(f"{error}{package}") from error
        if (own := getattr(made, "name", name)) != name:
            raise RegistryError(
                f"the {self.what} {found} has the name {own!r}, so it cannot be used as {name!r}: use the name {own!r}"
            )
        return made

    def named(self, name: str) -> T:
        """Import and return the part (e.g. a scorer) with this ``name``. The name is in the registry, or is a path
        ``module:NAME`` to a part that has no name there.

        Raises RegistryError if the part does not exist or cannot be used.
        """
        self.check(name)
        return self[name] if name in self else self._loaded(name)

    def check(self, name: str) -> None:
        """Check the name of a part (e.g. a scorer) without importing the part. Raises RegistryError if ``name`` is not
        in the registry and does not have the form ``module:NAME``.
        """
        if name not in self and not is_path(name):
            form = "must be one of {known}, or one of your own as module:NAME, got {name}"
            raise RegistryError(self._unknown(name, form))

    def values(self) -> list[T]:
        """Import and return all parts of this kind, e.g. all scorers, in the order of their names in the registry.
        Raises RegistryError if a part cannot be used.
        """
        found = []
        for name in self:
            try:
                found.append(self[name])
            except RegistryError as error:
                raise RegistryError(f"{self.kind}.{name} {error}") from error
        return found

    def _source(self, name: str) -> str | T:
        """Return the path ``module:NAME`` of a part, or the part itself if it needs no import.

        Raises RegistryError if two parts have the name.
        """
        plugins = [*self._installed_as(name)]
        plugins += [_configured[self.kind][name]] if name in _configured.get(self.kind, ()) else []
        paths = dict.fromkeys(plugin.path for plugin in plugins)
        if name in self.ours and (not paths or [*paths] == [self.ours[name]]):
            return self.ours[name]
        if name in self.ours or len(paths) > 1:
            ours = self.ours.get(name)
            first = [f"{ours if isinstance(ours, str) else name} (from groundtrace)"] if name in self.ours else []
            others = {plugin.path: str(plugin) for plugin in reversed(plugins)}
            both = " and ".join([*first, *reversed(others.values())][:2])
            raise RegistryError(
                f"names {name!r}, but more than one {self.what} has this name: {both}. Rename one of them in its "
                "config or package"
            )
        return plugins[0].path

    def _installed_as(self, name: str) -> tuple[Plugin, ...]:
        return _installed().get(self.kind, {}).get(name, ())

    def _loaded(self, path: str) -> T:
        try:
            found = load(path)
        except RegistryError as error:
            raise RegistryError(f"names the {self.what} {path}, but {error}") from error
        return self.made(path, found)

    def made(self, path: str, found: Any) -> T:
        """Check that ``found`` is a part of this kind (e.g. a scorer), and return ``found``.

        ``found`` is the value that was imported from ``path`` (``module:NAME``). A subclass may instead return a part
        that it makes from ``found``. Raises RegistryError if ``found`` does not have the type of this kind of part.
        """
        wanted = load(self._of)
        is_right = isinstance(found, type) and wanted in found.__mro__ if self._classes else isinstance(found, wanted)
        if not is_right:
            raise RegistryError(
                self.wrong(path, found, f"a {'subclass of' if self._classes else 'value of'} {self._of}")
            )
        return cast("T", found)

    def wrong(self, path: str, found: Any, wanted: str) -> str:
        """Return the error message for an imported value that is not a part of this kind, e.g. not a scorer. ``path``
        is where the value is defined, as ``module:NAME``. ``found`` is the value, and ``wanted`` describes the value
        that the registry requires.
        """
        is_class = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        wanted = wanted.replace(":", ".")
        return f"names the {self.what} {path}, which must be {wanted}, but is {is_class}: name another value"

    def _unknown(self, name: object, form: str) -> str:
        known = tuple(self)
        message = form.format(known=", ".join(known), name=f"{name!r:.80}") + near(str(name), known)
        ignored = [f"{plugin} as {key}" for key, plugin in _of_no_kind().items()]
        return message + (
            f"; {ignored[0]} names no kind of part: its name must begin with {self.kind}." if ignored else ""
        )


def near(word: str, known: Collection[str]) -> str:
    """Return a hint for an error message about an unknown word: ": did you mean X?", where X is the most similar word
    in ``known``. Returns "" if no word in ``known`` is similar.
    """
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f": did you mean {found[0]}?" if found else ""


def is_path(name: str) -> bool:
    """Return whether ``name`` has the form ``package.module:NAME``. Nothing is imported."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def load(path: str) -> Any:
    """Import the value that ``path`` names, and return it. ``path`` has the form ``module:NAME``, where ``NAME`` is the
    name of the value in the module. Raises RegistryError if the value cannot be imported, and StaleModule if the module
    uses a user's module whose file has changed since this process imported it.

    The module is searched for on Python's import path, then in the current folder, and then beside the config that the
    user named (:func:`groundtrace.schemas.module_search.search_beside`). Inside :func:`installed_code_only`, only parts
    of Groundtrace and the plug-ins of installed packages are loaded.
    """
    module, _, name = path.partition(":")
    if _allowed_by and not module.startswith("groundtrace.") and path not in {plugin.path for _, plugin in _entries()}:
        raise RegistryError(
            f"{path} is neither code of Groundtrace nor of an installed plug-in, so it is executed {_allowed_by[-1]}"
        )
    known = getattr(sys.modules.get(module), "__dict__", {})
    if name in known:  # import_module takes 20 times as long
        return known[name]
    before = set(sys.modules)
    try:
        top = module.partition(".")[0]
        if top not in sys.modules:
            extend_path(top)
        found = importlib.import_module(module)
        if (place := _place_of(module)) is not None:
            remember_modules(*place, before)
            check_modules(*place)
        return getattr(found, name)
    except StaleModule:
        raise
    except (Exception, SystemExit) as error:  # whatever the code of a plug-in raises
        remember_failed(module, before)
        message = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        line = "" if isinstance(error, SyntaxError) else _line_of(error, module)
        remedy = _remedy(error, module) + near(name, getattr(sys.modules.get(module), "__dict__", ()))
        raise RegistryError(f"{path} cannot be imported ({' '.join(message.split())}{line}): {remedy}") from error


@contextmanager
def installed_code_only(allowed_by: str) -> Iterator[None]:
    """Refuse all paths ``module:NAME`` except those of Groundtrace and of the plug-ins of installed packages.

    The paths are refused in all threads of this process while the body of the ``with`` statement runs. Use this
    function for configs that somebody else may have written. The error message for a refused path ends with
    ``allowed_by``. This text states how the user can allow the code, e.g. "only if you allow it: …".
    """
    _allowed_by.append(allowed_by)
    try:
        yield
    finally:
        _allowed_by.remove(allowed_by)


def _remedy(error: BaseException, module: str) -> str:
    """Return what the user can do if the import of a plug-in's module failed with this error."""
    if module.partition(".")[0] in sys.stdlib_module_names:
        return f"rename your module, because Python has its own module {module}"
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        unsearched = unsearched_folder(module.partition(".")[0])
        if unsearched is not None:
            folder, run = unsearched
            return (
                f"modules in {folder} are not imported, because somebody else may have made the run, training or loop "
                f"in {run}: put the module into another folder, and run the command there or add it to PYTHONPATH"
            )
        return "put this module beside the config, run the command in its folder, or add its folder to PYTHONPATH"
    return "correct the module or this path"


def _line_of(error: BaseException, module: str) -> str:
    """Return the line number at which the error was raised in the module's file, as a text such as ", line 12".

    Return "" if the line is not known.
    """
    file = f"{module.rpartition('.')[2]}.py"
    lines = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == file]
    return f", line {lines[-1].lineno}" if lines else ""


def use_plugins(given: Any, where: str = "plugins", is_of_config: bool = False) -> None:
    """Register parts from outside this repository (plug-ins) in this process, and import them immediately.

    ``given`` has the form ``{kind: {name: "module:NAME"}}``. It is the section ``[plugins]`` of a config or, in worker
    processes, the result of :func:`configured_plugins`. The module of a recipe (a file that defines a pipeline) may
    also call this function. If an earlier call gave the same name to another part, the new part replaces the earlier
    part. ``where`` is the config key of the section, for messages. ``is_of_config`` states whether a config names the
    parts. Raises RegistryError if a kind is unknown, or if a part cannot be imported or used.
    """
    if not isinstance(given, Mapping):
        raise RegistryError(f"{where} must be a section, got {given!r:.80}")
    for kind, parts in given.items():
        if kind not in KINDS:
            raise RegistryError(
                f"{where}.{kind} is not a kind of plug-in: use one of {', '.join(KINDS)}{near(kind, KINDS)}"
            )
        if not isinstance(parts, Mapping):
            raise RegistryError(
                f'{where}.{kind} must be a section with entries NAME = "module:NAME", got {parts!r:.80}'
            )
        for name, path in parts.items():
            if not isinstance(path, str) or not is_path(path):
                raise RegistryError(f"{where}.{kind}.{name} must be module:NAME, got {path!r:.80}")
            try:
                load(path)
            except RegistryError as error:
                raise RegistryError(f"{where}.{kind}.{name} cannot be used, because {error}") from error
    before = {kind: dict(parts) for kind, parts in _configured.items()}
    for kind, parts in given.items():
        held = _configured.setdefault(kind, {})
        named = {name: Plugin(path, f"{where}.{kind}", is_of_config) for name, path in parts.items()}
        # a part that a recipe has registered stays one of the recipe, also if a config names it
        held |= {name: each for name, each in named.items() if held.get(name) != replace(each, is_of_config=False)}
    try:
        _check_parts(given, where)
    except RegistryError:
        _configured.clear()
        _configured.update(before)
        raise


def _check_parts(given: Mapping[str, Mapping[str, str]], where: str) -> None:
    """Look up each plug-in in the registries of this process, so that a wrong one is refused before the run starts.

    A plug-in is a part from outside this repository, such as a user's own scorer. ``given`` holds the paths
    ``module:NAME`` of the plug-ins, by kind and name. ``where`` is the config key of the plug-ins, for messages. Raises
    RegistryError if a plug-in cannot be used.
    """
    for registry in _registries:
        for name in given.get(registry.kind, ()):
            try:
                registry[name]
            except RegistryError as error:
                fault = str(error) if str(error).startswith("names ") else f"cannot be used: {error}"
                raise RegistryError(f"{where}.{registry.kind}.{name} {fault}") from error


def configured_plugins() -> dict[str, dict[str, str]]:
    """Return the plug-ins that :func:`use_plugins` has registered in this process, as ``{kind: {name:
    "module:NAME"}}``.
    """
    return {kind: {name: each.path for name, each in parts.items()} for kind, parts in _configured.items()}


def forget_parts() -> set[str]:
    """Make Python forget the modules of users' files, and remove the plug-ins in these modules from all registries.

    The config or the recipe that names such a plug-in registers it again when it is loaded. Returns the names of the
    forgotten modules (:func:`groundtrace.schemas.user_modules.forget_modules`).
    """
    forgotten = forget_modules()
    forget_folders()
    for parts in _configured.values():
        for name in [name for name, each in parts.items() if each.path.partition(":")[0] in forgotten]:
            del parts[name]
    return forgotten


def plugin_folders() -> set[Path]:
    """Return the folders from which the modules of the user's plug-ins (:func:`use_plugins`) are imported.

    Folders of Groundtrace and of installed packages are left out.
    """
    return {folder for _, folder in plugin_files()}


def plugin_files(config: Mapping[str, Any] | None = None) -> set[tuple[Path, Path]]:
    """Return two paths for each imported module with a plug-in: its file, and the folder from which it is imported.

    Modules of Groundtrace, of Python and of installed packages are left out. There is one exception: an installed
    package whose files are elsewhere (``pip install -e``) counts as a module of the user.

    ``config`` are the values of a config. If ``config`` is None, the plug-ins are all those that :func:`use_plugins`
    has registered. Otherwise, they are the plug-ins that this config names in any of its sections, and the plug-ins
    that a recipe has registered. Plug-ins that only other configs named are then left out.
    """
    registered = [each for parts in _configured.values() for each in parts.values()]
    paths = {each.path for each in registered if config is None or not each.is_of_config}
    if config is not None:
        texts = set(_texts_in(config))
        paths |= paths_in(config)
        paths |= {plugin.path for key, plugin in _entries() if key.partition(".")[2] in texts}
    return {found for path in paths if (found := _place_of(path.partition(":")[0])) is not None}


def paths_in(config: Mapping[str, Any]) -> set[str]:
    """Return the texts of a config, and the names of its keys, that have the form ``module:NAME`` of a plug-in's path.

    ``config`` are the values of the config.
    """
    return {text for text in _texts_in(config) if is_path(text)}


def check_parts(config: Mapping[str, Any]) -> None:
    """Raise StaleModule if the code of the plug-ins that Python has imported is not the code of their present files.

    This error is raised if a file has changed since its import, or if the module of a plug-in would now be found in
    another folder than the one from which it was imported. It is also raised if the module was imported for another
    config and would not be found for this one.

    The plug-ins are those of :func:`plugin_files` for ``config``, the values of a config. The files that a plug-in
    imports are checked, too (:func:`groundtrace.schemas.user_modules.check_modules`). A plug-in that is not imported
    yet is not checked.
    """
    for file, folder in plugin_files(config):
        check_modules(file, folder)
        top = file.relative_to(folder).parts[0].removesuffix(".py")
        present = folders_of(top)
        if present and str(folder) not in present:
            raise StaleModule(
                f"the module {top} in {present[0]} cannot be imported, because {file}, which has the same name, was "
                "imported before: call gt.reload() (or start Python again) and repeat this call, or rename one of them"
            )
        if not present and str(folder) in searched_folders():
            raise StaleModule(
                f"the module {top} of {folder}, which was imported for another config, is not beside this config: put "
                "it beside this config, or add its folder to PYTHONPATH"
            )


def _texts_in(value: object) -> Iterator[str]:
    """Yield all strings in a config, both values and keys. ``value`` is the config or a part of it."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _texts_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts_in(each)
    elif isinstance(value, str):
        yield value


def _place_of(module: str) -> tuple[Path, Path] | None:
    """Return the file of a module, and the folder from which it is imported.

    The result is None for a module of Groundtrace, of Python or of an installed package, and for a module that is not
    imported.
    """
    file = file_of(sys.modules.get(module))
    others = ("groundtrace", *sys.stdlib_module_names)
    if file is None or file.suffix != ".py" or is_installed(file) or module.partition(".")[0] in others:
        return None
    is_package = file.name == "__init__.py"
    return file, file.parents[module.count(".") + is_package]


@functools.cache
def _entries() -> tuple[tuple[str, Plugin], ...]:
    """Return pairs of a plug-in's name, such as ``scorers.brevity``, and the plug-in, for all installed packages."""
    found = importlib.metadata.entry_points(group=GROUP)
    return tuple(
        (each.name, Plugin(each.value, f"the package {each.dist.name if each.dist else '?'}")) for each in found
    )


@functools.cache
def _installed() -> Mapping[str, Mapping[str, tuple[Plugin, ...]]]:
    """Return the plug-ins of installed packages, by kind and name. A name has several plug-ins if several entry points
    use this name.
    """
    found: dict[str, dict[str, tuple[Plugin, ...]]] = {}
    for key, plugin in _entries():
        kind, _, name = key.partition(".")
        if kind in KINDS and name:
            named = found.setdefault(kind, {})
            named[name] = (*named.get(name, ()), plugin)
    return found


def _of_no_kind() -> dict[str, Plugin]:
    """Return the wrongly named plug-ins (parts from outside this repository) of installed packages, by name.

    A right name begins with a kind of part, such as ``scorers``, and a dot, as in ``scorers.brevity``. The kinds are in
    :data:`KINDS`.
    """
    return {key: plugin for key, plugin in _entries() if key.partition(".")[0] not in KINDS or "." not in key}
