"""Reads a TOML config file.

A config may name another config in its key ``extends``. The values of the other config are then used for all keys that
the first config does not set.
"""

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groundtrace.config.errors import ConfigError
from groundtrace.config.fields import default_of, section_class
from groundtrace.schemas.module_search import search_beside
from groundtrace.schemas.paths import local_path
from groundtrace.schemas.registry import near
from groundtrace.schemas.toml_text import read_toml

EXTENDS = "extends"
"""The key at the top of a config whose value is the path of another config. The config inherits all values of the other
config that it does not set itself.
"""
MAX_DEPTH = 8
"""The maximum number of configs that extend each other in a chain. A longer chain is treated as a cycle."""


def read_config(
    path: str, bundled: Path | None = None, cls: type | None = None, depth: int = 0, named_in: str = ""
) -> dict[str, Any]:
    """Return the values in a TOML file, as nested dicts: one dict for each section.

    The file may name another config in its key ``extends``. The result then has all values of the file, and those
    values of the other config that the file does not set. A list in the file replaces the whole list of the other
    config. If the file names another part, such as another reward recipe, the options of the earlier part are not in
    the result (:func:`merged`). The key ``extends`` itself is not in the result.

    The value of ``extends`` is a path relative to the file's folder. It may also be the name, without ``.toml``, of a
    config in the folder ``bundled``; this name is used only if there is no file at the path. Modules of plug-ins are
    then also found in the folders of the files that were read
    (:func:`groundtrace.schemas.module_search.search_beside`).

    Args:
        path: The path of the file.
        bundled: The folder with the configs that can be named without a path; None if there is no such folder.
        cls: The settings class of the config; None if it is not known. All options are then in the result.
        depth: The number of configs that were read before this one. Only the function itself passes this argument, when
            it calls itself for the config that ``extends`` names.
        named_in: The path of the config whose key ``extends`` names this file; "" for the file that the user named.
            Only the function itself passes this argument.

    Raises ConfigError for a file that cannot be read or is not TOML, and for a chain of more than :data:`MAX_DEPTH`
    configs. The message suggests a remedy, such as the bundled config with the most similar name.
    """
    values = _parsed(path, bundled, named_in)
    search_beside(local_path(path))
    extended = values.pop(EXTENDS, None)
    if extended is None:
        return values
    if not isinstance(extended, str) or not extended.strip() or "\0" in extended:
        raise ConfigError(f"{path}: {EXTENDS} must be the path of a config in quotes, got {extended!r}")
    if depth == MAX_DEPTH:
        raise ConfigError(
            f"{path}: more than {MAX_DEPTH} configs extend one another, perhaps in a cycle: remove the key {EXTENDS} "
            "from one of them"
        )
    return merged(read_config(_place(path, extended, bundled), bundled, cls, depth + 1, path), values, cls)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any], cls: type | None = None) -> dict[str, Any]:
    """Return the values of ``base``, changed by the values of ``changes``. Both are nested dicts of a config.

    If only one of the two dicts has a key, the value in this dict is used. If both have the key, the value of
    ``changes`` is used. There are two exceptions:

    - If both values are sections (mappings), the two sections are merged in the same way.
    - A settings class may declare that one key holds the options of the part that another key names (``OPTIONS_OF``,
      :func:`groundtrace.config.settings.settings`). If ``changes`` names another part than ``base``, the options in
      ``base`` are left out, because they belong to the part of ``base``.

    ``cls`` is the settings class of both dicts; if it is None, the second exception does not apply. The arguments stay
    unchanged.
    """
    found = dict(base)
    for options, part in getattr(cls, "OPTIONS_OF", {}).items():
        if part in changes and changes[part] != base.get(part, _default(cls, part)):
            found.pop(options, None)
    hints = {} if cls is None else typing.get_type_hints(cls)
    for name, value in changes.items():
        old = found.get(name)
        section, several = section_class(hints.get(name))
        below = None if several else section
        found[name] = merged(old, value, below) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return found


def _default(cls: Any, key: str) -> Any:
    return next(default_of(field) for field in dataclasses.fields(cls) if field.name == key)


def _place(path: str, extended: str, bundled: Path | None) -> str:
    """Return the path of the config that the file at ``path`` extends.

    ``extended`` is the value of the file's key ``extends``: a path relative to the file's folder, or the name of a
    config in the folder ``bundled`` (None if there is no such folder). Raises ConfigError if ``extended`` cannot be a
    path.
    """
    try:
        beside = local_path(path).parent / Path(extended).expanduser()
        named = None if bundled is None else bundled / f"{extended}.toml"
        return str(named if named is not None and named.is_file() and not beside.is_file() else beside)
    except (OSError, RuntimeError) as error:  # it is too long, or in the home of an unknown user
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{path}: {EXTENDS} must be the path of a config, but {extended[:80]!r} cannot be a path: {reason}"
        ) from error


def _parsed(path: str, bundled: Path | None, named_in: str) -> dict[str, Any]:
    if not path.strip():
        raise ConfigError("the name of the config is empty: name a TOML file, or leave --config out")
    try:
        return read_toml(local_path(path).read_text("utf-8-sig"))  # editors on Windows write a byte order mark
    except OSError as error:
        remedy = _remedy(path, bundled, named_in, is_missing=isinstance(error, FileNotFoundError))
        source = f", which {named_in} extends" if named_in else ""
        raise ConfigError(f"cannot read the config {path}{source}: {error.strerror}{remedy}") from error
    except ValueError as error:
        remedy = 'correct the file (sections begin with [name], and texts are in "quotes")'
        raise ConfigError(f"{path} is not TOML: {error}; {remedy}") from error


def _remedy(path: str, bundled: Path | None, named_in: str, is_missing: bool) -> str:
    """Return the end of an error message about a config that cannot be read: what the user can do about the error.

    The result asks the user to name a TOML file: ": name a TOML file". If the config is missing, the result also lists
    the configs in the folder ``bundled``, and suggests the one with the most similar name: ": name a TOML file or one
    of argos, embedded: did you mean argos?". There is one exception: if the user named the missing config, and
    ``bundled`` is None, the result names the command that writes a config.

    ``path`` is the path of the config. ``named_in`` is the path of the config that extends it; "" if the user named it.
    ``is_missing`` is True if there is no file at ``path``.
    """
    if is_missing and bundled is None and not named_in:
        return "; `beam init DATA --output FILE` writes one"
    names = sorted(file.stem for file in bundled.glob("*.toml")) if is_missing and bundled is not None else []
    known = f" or one of {', '.join(names)}{near(Path(path).name.removesuffix('.toml'), names)}" if names else ""
    return f": {f'{EXTENDS} must name' if named_in else 'name'} a TOML file{known}"
