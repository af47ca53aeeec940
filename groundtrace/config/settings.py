"""Configs: reads TOML files and ``--set`` overrides into settings.

Errors name the key, the expected value and the actual one.
"""

import dataclasses
import difflib
import functools
import hashlib
import json
import re
import textwrap
import tomllib
import types
import typing
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tomli_w
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import CoreSchema, core_schema

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.registry import KINDS, Registry, near, use_plugins

T = TypeVar("T")
NonEmpty = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveWeight = Annotated[float, Field(gt=0, allow_inf_nan=False)]

MAX_SHOWN_CHARS = 200
EXPECTED = {
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "dict_type": "must be a section",
    "mapping_type": "must be a section",
    "dataclass_type": "must be a section",
}
"""Messages for type errors, with TOML's names of the types; other errors have pydantic's own messages."""


class ConfigError(UserError, ValueError):
    """A config cannot be used; the message names the key and says what to do."""


@dataclasses.dataclass(frozen=True)
class OneOf:
    """Annotates a text whose value must be in ``known``, such as a registry; for fixed words, use a Literal."""

    known: Collection[str]

    def check(self, word: str) -> str:
        """Returns the word. Raises ValueError if it is not known."""
        if word not in self.known:
            raise ValueError(f"must be one of {', '.join(self.known)}, got {word!r}{near(word, self.known)}")
        return word

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": list(self.known)}


@dataclasses.dataclass(frozen=True)
class PartName:
    """Annotates a text that identifies a part: the part's name in a registry (:mod:`groundtrace.schemas.registry`), or
    its path.

    A path has the form ``module:NAME``. ``or_empty`` also allows "", which means no part.
    """

    registry: Registry[Any]
    or_empty: bool = False

    def check(self, name: str) -> str:
        """Returns the name. Raises ValueError if it is not known. Imports nothing."""
        if name or not self.or_empty:
            self.registry.check(name)
        return name

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": [*self.registry, "module:NAME"]}


Plugins = Annotated[
    Mapping[Annotated[str, OneOf(KINDS)], Mapping[str, str]],
    "parts from outside Groundtrace, by kind and name, each as module:NAME",
]
"""The section ``[plugins]`` of a config; :func:`load_config` registers its parts before it checks any other section."""


@typing.dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def settings(cls: type[T]) -> type[T]:
    """Make a class of settings: a frozen dataclass that validates its values whenever it is built.

    ``k: Annotated[PositiveInt, "attempts at each question"] = 4`` gives a field its type, its bound and the line that
    ``beam config`` and docs/config.md show. Types are strict: a bool is not an int, though an int is accepted as a
    float.

    ``__post_init__`` contains checks across fields. If the message of its ValueError begins with a field's name, the
    error of the config names the full key; a ConfigError is raised unchanged. The message of a field's own validator
    continues a sentence that begins with the key ("must be …").

    ``RENAMED`` (a ``ClassVar``) maps each former key to the key that replaces it; keys are dotted and relative to this
    section.

    If a value is invalid, building the class directly raises ValueError with a message of one line.
    """
    made = pydantic_dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))(cls)
    checked = made.__init__

    @functools.wraps(checked)
    def plain_errors(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            raise ValueError(_first_error(made, error)) from None  # the error's own text spans lines and shows values

    made.__init__ = plain_errors  # type: ignore[method-assign]
    return typing.cast("type[T]", made)


def load_config(cls: type[T], path: str | None, overrides: Sequence[str] = ()) -> T:
    """Returns the settings of a config file (or the defaults), with ``a.b=c`` overrides applied in order.

    The plug-ins in the config's section ``[plugins]`` are registered first. Raises :class:`ConfigError` for a file that
    cannot be read, an unknown key or an invalid value, and RegistryError for a plug-in that cannot be used.
    """
    values = given_values(path, overrides)
    use_plugins(values.get("plugins", {}))
    return build(cls, values)


def given_values(path: str | None, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the values in a config file and its overrides, without the defaults. Raises :class:`ConfigError`."""
    values = _read(path) if path else {}
    for override in overrides:
        _apply(values, override)
    return values


def build(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Returns the settings from nested mappings; keys that are left out keep their defaults.

    ``where`` is the dotted key of the section that the mappings describe. Raises :class:`ConfigError` as
    :func:`load_config` does.
    """
    if "__pydantic_validator__" not in vars(cls):
        raise ConfigError(
            f"the class {cls.__name__} must be decorated with @settings of groundtrace.config.settings, not @dataclass"
        )
    text = json.dumps(_with_defaults(cls, values, f"{where}.".removeprefix(".")), default=_plain)
    try:  # JSON accepts a list for a tuple and a word for an enum's member; all else stays strict
        return TypeAdapter(cls).validate_json(text)
    except ValidationError as error:
        raise ConfigError(_first_error(cls, error, where)) from None


def to_toml(settings: Any) -> str:
    """Returns the complete settings as TOML that :func:`load_config` can read."""
    return tomli_w.dumps(TypeAdapter(type(settings)).dump_python(settings, mode="json", exclude_none=True))


def config_sha256(settings: Any) -> str:
    """Returns the SHA-256 of the settings as TOML; equal values give the same digest."""
    return hashlib.sha256(to_toml(settings).encode()).hexdigest()


def section_class(hint: Any) -> tuple[type | None, bool]:
    """Returns the settings class in a field's type (None if the type has none), and whether the field holds several of
    them.
    """
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint, False
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (dict, Mapping, tuple):
        return section_class(next(each for each in reversed(arguments) if each is not ...))[0], True
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next((found for found, _ in map(section_class, arguments) if found), None), False
    return None, False


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8-sig"))  # editors on Windows write a byte order mark
    except OSError as error:
        remedy = "; `beam init DATA --output FILE` writes one" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"cannot read the config {path}: {error.strerror}{remedy}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        remedy = 'sections begin with [name], and texts stand in "quotes"'
        raise ConfigError(f"{path} is not TOML: {error}; {remedy}") from error


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
            raise ConfigError(f"--set {override!r}: {part} is not a section, but has a value")
    values[last] = value


def default_of(field: "dataclasses.Field[Any]", holder: Any = None) -> Any:
    """Returns the default of a field; ``MISSING`` if it has none.

    If ``holder``, a default instance of the class, is given, the default is the field's value in it.
    """
    if holder is not None:
        return getattr(holder, field.name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _with_defaults(cls: type, values: Mapping[str, Any], where: str, holder: Any = None) -> dict[str, Any]:
    """Add to the values the defaults of named entries and the values of ``holder``.

    If a named entry has a default, the given keys replace those of the default one by one. ``holder`` is the default
    instance of the section: its values that differ from the defaults of its class are added. Raises
    :class:`ConfigError` for a key that was renamed.
    """
    for old, new in ChainMap(*(vars(base).get("RENAMED", {}) for base in cls.__mro__)).items():
        if _holds(values, old.split(".")):
            raise ConfigError(f"{where}{old} is now {where}{new}: rename the key")
    kept = {} if holder is None else _plain(holder)
    own = {field.name for field in dataclasses.fields(cls) if default_of(field, holder) != default_of(field)}
    filled = {name: value for name, value in kept.items() if name in own} | dict(values)
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        given = values.get(field.name)
        if not isinstance(given, Mapping):
            continue
        section, several = section_class(hints[field.name])
        below = f"{where}{field.name}."
        if several:
            default = default_of(field, holder)
            default = default if isinstance(default, Mapping) else {}
            filled[field.name] = dict(default) | {
                name: _entry(section, entry, default.get(name), f"{below}{name}.") for name, entry in given.items()
            }
        elif section:
            default = default_of(field, holder)
            filled[field.name] = _with_defaults(
                section, given, below, default if isinstance(default, section) else None
            )
    return filled


def _entry(section: type | None, entry: Any, default: Any, where: str) -> Any:
    if section is None or not isinstance(entry, Mapping):
        return entry
    return ({} if default is None else _plain(default)) | _with_defaults(section, entry, where)


def _holds(values: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[key]
    return True


def _plain(value: Any) -> dict[str, Any]:
    """Convert settings to JSON data."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ConfigError(f"no setting takes a date or a time, as {value} is: put the value in quotes")
    return TypeAdapter(type(value)).dump_python(value, mode="json")


def _first_error(cls: type, error: ValidationError, where: str = "") -> str:
    """Returns the message of one error, in one line.

    An error for an unknown key is preferred, since the key may be a misspelling of a missing one.
    """
    found = min(error.errors(include_url=False), key=lambda each: each["type"] != "unexpected_keyword_argument")
    place = found["loc"]
    if place and isinstance(place[0], int):  # an argument by position
        place = (dataclasses.fields(cls)[place[0]].name, *place[1:])
    if place[-1:] == ("[key]",):  # the error is in the key of a mapping, not in its value
        place = place[:-1]
    key = _dotted((where, *place) if where else place)
    if found["type"] == "missing":
        return f"{key} is not set{_meaning(cls, place)}"
    if found["type"] == "unexpected_keyword_argument":
        return _unknown(key, _fields_at(cls, place[:-1]))
    if found["type"] == "value_error":
        raised = found.get("ctx", {})["error"]
        message = str(raised)
        return message if isinstance(raised, ConfigError) else _own_message(key, message, _fields_at(cls, place))
    expected = EXPECTED.get(found["type"]) or re.sub(r"^\w+ should ", "must ", found["msg"])
    expected = expected.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    return f"{key} {expected}, got {textwrap.shorten(repr(found['input']), MAX_SHOWN_CHARS, placeholder='…')}"


def _meaning(cls: type, place: Sequence[int | str]) -> str:
    """Returns the meaning of the key at that place, from its annotation; "" if it has none."""
    at = _class_at(cls, place[:-1])
    hints = {} if at is None else typing.get_type_hints(at, include_extras=True)
    meanings = [each for each in getattr(hints.get(str(place[-1])), "__metadata__", ()) if isinstance(each, str)]
    return f": {meanings[-1]}" if meanings else ""


def _own_message(key: str, message: str, fields: Sequence[str]) -> str:
    """Returns the message of one of our own checks, with the key of the value or section in front."""
    if not key:
        return message
    if not fields:
        return f"{key} {message}"
    names_field = re.split(r"\W", message, maxsplit=1)[0] in fields
    return f"{key}.{message}" if names_field else f"{key}: {message}"


def _fields_at(cls: type, place: Sequence[int | str]) -> list[str]:
    """Returns the keys of the section at that place; empty if a value is there."""
    at = _class_at(cls, place)
    return [] if at is None else [field.name for field in dataclasses.fields(at)]


def _class_at(cls: type, place: Sequence[int | str]) -> type | None:
    """Returns the class of the section at that place; None if a value is there."""
    at: type | None = cls
    steps = iter(place)
    for step in steps:
        at, several = section_class(typing.get_type_hints(at).get(str(step)))
        if several and next(steps, None) is None:
            at = None
        if at is None:
            return None
    return at


def _dotted(place: Sequence[int | str]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def _unknown(key: str, names: Sequence[str]) -> str:
    section, dot, name = key.rpartition(".")
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {section}{dot}{near[0]}?" if near else f"known here: {', '.join(sorted(names))}"
    return f"unknown key {key}; {hint}"
