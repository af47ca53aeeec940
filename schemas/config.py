"""Configs: TOML files and ``--set`` overrides into frozen settings dataclasses, with errors that name the nearest
key.
"""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from schemas.errors import UserError

T = TypeVar("T")


class ConfigError(UserError, ValueError):
    """A config that cannot be used; the message names the key and what to do."""


def load_config(cls: type[T], path: str | None, overrides: Sequence[str] = ()) -> T:
    """The settings of a config file (or the defaults) with ``a.b=c`` overrides applied in order.

    Raises :class:`ConfigError` for a file that cannot be read, an unknown key or a value that does not fit.
    """
    values = _read(path) if path else {}
    for override in overrides:
        _apply(values, override)
    return build(cls, values)


def build(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """The dataclass from nested mappings; keys that are left out keep their defaults."""
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    given = {}
    for key, value in values.items():
        if key not in fields:
            raise ConfigError(_unknown(f"{where}{key}", [f"{where}{name}" for name in fields]))
        given[key] = _convert(hints[key], value, f"{where}{key}", _default(fields[key]))
    missing = [name for name, field in fields.items() if name not in given and _default(field) is dataclasses.MISSING]
    if missing:
        raise ConfigError(f"{where}{missing[0]} is not set")
    try:
        return cls(**given)
    except ValueError as error:
        section = where.rstrip(".") or "config"
        named = str(error).startswith((f"{section}.", f"{section} "))
        raise ConfigError(str(error) if named else f"{section}: {error}") from error


def to_toml(settings: Any) -> str:
    """The settings, resolved, as TOML that :func:`load_config` reads back."""
    return tomli_w.dumps(_plain(settings))


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8-sig"))  # editors on Windows begin a file with a mark
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _apply(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override!r}: expected key=value, such as --set difficulty.high=0.8")
    try:
        value = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *path, last = key.strip().split(".")
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {override!r}: {part} is not a section")
    values[last] = value


def _convert(hint: Any, value: Any, where: str, default: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if value is None else _convert(inner, value, where, default)
    if dataclasses.is_dataclass(hint):
        _require(isinstance(value, Mapping), where, "a section", value)
        return build(typing.cast(type, hint), value, f"{where}.")
    if origin in (dict, Mapping) or (origin is not None and issubclass(origin, Mapping)):
        _require(isinstance(value, Mapping), where, "a section", value)
        merged = dict(default) if isinstance(default, Mapping) else {}
        return merged | {k: _entry(arguments[1], v, f"{where}.{k}", merged.get(k)) for k, v in value.items()}
    if origin is tuple:
        _require(isinstance(value, list), where, "a list", value)
        return tuple(_convert(arguments[0], item, f"{where}[{i}]", None) for i, item in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    _require(isinstance(value, hint) and not (hint is int and isinstance(value, bool)), where, hint.__name__, value)
    return value


def _entry(hint: Any, value: Any, where: str, base: Any) -> Any:
    """A named entry of a section; one that stands in the defaults is changed key by key."""
    if dataclasses.is_dataclass(hint) and base is not None and isinstance(value, Mapping):
        value = _plain(base) | dict(value)
    return _convert(hint, value, where, None)


def _require(fits: bool, where: str, expected: str, value: Any) -> None:
    if not fits:
        raise ConfigError(f"{where}: expected {expected}, got {value!r}")


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _unknown(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
    return f"unknown key {key}; {hint}"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: _plain(item) for name, item in fields.items() if item is not None}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
