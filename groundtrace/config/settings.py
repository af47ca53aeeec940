"""Reads a TOML config and the ``--set`` options of the command line into settings objects, and checks all values.

An error message names the key, the expected value and the actual value.
"""

import dataclasses
import datetime
import functools
import hashlib
import json
import re
import tomllib
import typing
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tomli_w
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import CoreSchema, core_schema

from groundtrace.config.config_file import read_config
from groundtrace.config.errors import ConfigError, UnknownKeys, config_error
from groundtrace.config.fields import default_of, section_class
from groundtrace.config.renamed import renamed_keys
from groundtrace.schemas.module_search import search_beside
from groundtrace.schemas.registry import KINDS, Registry, check_parts, near, use_plugins

T = TypeVar("T")
NonEmpty = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveWeight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclasses.dataclass(frozen=True)
class OneOf:
    """Annotates a text field that must have one of several words as its value, such as the names in a registry.

    ``known`` holds the allowed words. For a fixed set of words, use a Literal instead.
    """

    known: Collection[str]

    def check(self, word: str) -> str:
        """Return ``word`` unchanged if it is one of the known words.

        Raises ValueError for any other word. The message lists the known words.
        """
        if word not in self.known:
            raise ValueError(f"must be one of {', '.join(self.known)}, got {word!r}{near(word, self.known)}")
        return word

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": list(self.known)}


@dataclasses.dataclass(frozen=True)
class PartName:
    """Annotates a text field that names a part of Groundtrace.

    A part is an exchangeable piece of Groundtrace, such as a scorer or an input format. The text is the part's name in
    a registry (:mod:`groundtrace.schemas.registry`), or its path in the form ``module:NAME``. ``registry`` is this
    registry: it holds the parts that have a name, such as all scorers. If ``or_empty`` is True, the text may also be
    "", which means no part.
    """

    registry: Registry[Any]
    or_empty: bool = False

    def check(self, name: str) -> str:
        """Return ``name`` unchanged if it is allowed.

        ``name`` names a part: an exchangeable piece of Groundtrace, such as an input format. The part is not imported.
        If ``or_empty`` is True, "" is allowed too. Raises RegistryError, which is a ValueError, if ``name`` is neither
        a known name nor a path ``module:NAME``.
        """
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
    """Make a settings class: a frozen dataclass that checks its values whenever an object is created.

    Use it as a decorator; ``cls`` is the class with annotated fields. For example, the field
    ``k: Annotated[PositiveInt, "attempts at each question"] = 4`` has a type with a bound, a meaning and a default.
    ``beam config`` and docs/config.md show the meaning. Types are strict: a bool is not accepted as an int, though an
    int is accepted as a float. Floats must be finite.

    A method ``__post_init__`` can check several fields together. It raises ValueError for invalid values. If the
    message of this error begins with the name of a field, such as "n must be even", the user gets the message with the
    full key: "trace.n must be even". A ConfigError is raised unchanged. A validator of a single field raises an error
    without the key ("must be even"); the key is added later.

    A class variable ``RENAMED`` maps each former key to the key that replaces it. Both keys are dotted and relative to
    this section. A config with a former key is refused, with the new key in the message.

    A class variable ``OPTIONS_OF`` maps a key with the options of a part to the key that names the part, such as
    ``{"options": "recipe"}``. A config that extends another one and names another part does not inherit the options.

    Creating an object with an invalid value raises ValueError with a message of one line. The decorator itself raises
    ConfigError if a field of ``cls`` has a type that no setting can have, such as a class that is not decorated with
    :func:`settings`.
    """
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    try:
        made = pydantic_dataclass(frozen=True, config=config)(cls)
    except PydanticSchemaGenerationError as error:
        named = re.search(r"<class '(.+?)'>", str(error))
        raise ConfigError(
            f"the class {cls.__name__} has a field of the type {named[1] if named else 'of another class'}, which is "
            "no type of a setting: use texts, numbers, booleans, lists of these, or a class decorated with @settings"
        ) from error
    checked = made.__init__

    @functools.wraps(checked)
    def plain_errors(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            # pydantic's text spans lines and shows values
            raise ValueError(str(config_error(made, error))) from None

    made.__init__ = plain_errors  # type: ignore[method-assign]
    return typing.cast("type[T]", made)


def load_config(cls: type[T], path: str | None, overrides: Sequence[str] = (), bundled: Path | None = None) -> T:
    """Return the settings from a config file, changed by the ``--set`` options of the command line.

    The plug-ins in the config's section ``[plugins]`` are registered first. Plug-ins are parts from outside
    Groundtrace, such as a user's own scorer.

    Args:
        cls: The settings class, such as the ``Settings`` of a recipe (a pipeline with its stages and settings).
        path: The path of the TOML file; None for a config with only the defaults. The file may extend another config
            (:func:`groundtrace.config.config_file.read_config`).
        overrides: The values of ``--set``, each in the form ``a.b=c``, in the order in which they are applied.
        bundled: The folder with the configs that ``extends`` may name without a path; None if there is no such folder.

    Raises :class:`ConfigError` for a file that cannot be read, an unknown key or an invalid value, and RegistryError
    for a plug-in that cannot be used.
    """
    return settings_from(cls, given_values(path, overrides, bundled, cls))


def settings_from(cls: type[T], values: Mapping[str, Any]) -> T:
    """Return the settings for the values of a config that was read already.

    ``cls`` is the settings class. ``values`` are the config's values as nested mappings, one mapping for each section,
    e.g. ``{"trace": {"n": 4}}``. Keys that are left out keep their defaults. The plug-ins (parts from outside
    Groundtrace, such as a scorer) that the section ``plugins`` names are registered first. Raises :class:`ConfigError`
    for an unknown key or an invalid value, and RegistryError for a plug-in that cannot be used.
    """
    use_plugins(values.get("plugins", {}), is_of_config=True)
    check_parts(values)
    return build(cls, values)


def given_values(
    config: str | Mapping[str, Any] | None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    bundled: Path | None = None,
    cls: type | None = None,
) -> dict[str, Any]:
    """Return the values that the user has set, without the defaults, as nested dicts: one dict for each section.

    The values come from the config file ``config``, from the configs that this file extends, and from ``overrides``. A
    file extends the config that its key ``extends`` names. If ``config`` is None, no file is read. Instead of a path,
    ``config`` may be the values themselves, as nested mappings. If ``config`` is the path of a pipe, such as the
    shell's ``<(…)``, call this function only once, because a pipe can be read only once. ``overrides`` are the values
    of ``--set``, each in the form ``a.b=c``, or a mapping from the dotted keys to the values, such as ``{"a.b": 1}``.
    ``bundled`` is the folder with the configs that ``extends`` may name without a path; None if there is no such
    folder. ``cls`` is the settings class of the config, which determines the options that a file does not inherit
    (:func:`groundtrace.config.config_file.merged`); None if it is not known.

    Raises :class:`ConfigError` for a file that cannot be read, for an override that is not of the form ``a.b=c``, and
    for a mapping ``config`` with dotted keys.
    """
    search_beside(None)
    if isinstance(config, Mapping):
        values = _copied(config)
        _refuse_dotted(values)
    else:
        values = {} if config is None else read_config(config, bundled, cls)
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            _set(values, key, _copied(value), f"overrides[{key!r}]")
    else:
        for override in overrides:
            _apply(values, override)
    return values


def build(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Return an object of a settings class, made from nested mappings; keys that are left out keep their defaults.

    ``cls`` is the settings class. ``values`` are the values of the config, or of one section. ``where`` is the dotted
    key of this section, such as ``trace``, for error messages; "" for the whole config. Raises :class:`ConfigError` for
    an unknown key, a missing key or an invalid value, and if ``cls`` is not decorated with :func:`settings`.
    """
    if "__pydantic_validator__" not in vars(cls):
        raise ConfigError(
            f"the class {cls.__name__} must be decorated with @settings of groundtrace.config.settings, not @dataclass"
        )
    renamed = dict(renamed_keys(cls, values, f"{where}.".removeprefix(".")))
    text = json.dumps(_with_defaults(cls, values), default=_plain)
    try:  # JSON accepts a list for a tuple and a word for an enum's member; all else stays strict
        made = TypeAdapter(cls).validate_json(text)
    except ValidationError as error:
        raise config_error(cls, error, where, renamed) from None
    if renamed:  # a former key in a section that accepts any key
        raise UnknownKeys({}, renamed)
    return made


def to_toml(settings: Any) -> str:
    """Return the complete settings, with all defaults, as TOML text that :func:`load_config` can read.

    ``settings`` is an object of a settings class. Values that are None are left out, because TOML has no such value.
    """
    return tomli_w.dumps(TypeAdapter(type(settings)).dump_python(settings, mode="json", exclude_none=True))


def config_sha256(settings: Any) -> str:
    """Return the SHA-256 of the settings as TOML, in hex digits. Settings with equal values have the same digest.

    ``settings`` is an object of a settings class.
    """
    return hashlib.sha256(to_toml(settings).encode()).hexdigest()


def _apply(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override!r} must have the form key=value, such as --set difficulty.high=0.8")
    try:
        parsed = tomllib.loads(f"x = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    value = parsed["x"] if len(parsed) == 1 else text.strip()  # a string: a bare word, or a text with further keys
    _set(values, key.strip(), value, f"--set {override!r}")


def _set(values: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key in the nested dicts of a config to a value. ``values``, the nested dicts, are changed in place.

    ``where`` is the beginning of an error message, such as "--set 'trace.n=4'". Raises ConfigError if a part of the key
    before its last part is not a section.
    """
    *path, last = _key_path(key)
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigError(
                f"{where} cannot be used, because {part} is a key with a value, not a section: leave out the keys "
                f"after {part}"
            )
    values[last] = value


def _copied(value: Any) -> Any:
    """Return the values of a config in which all mappings, at any depth, are copied to dicts."""
    return {name: _copied(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _refuse_dotted(values: Mapping[str, Any]) -> None:
    """Raise ConfigError if a key of the outermost mapping of a config has a dot, such as ``trace.n``.

    Names of sections have no dots, so such a key is written for ``overrides``, which have dotted keys.
    """
    for key in values:
        if "." in str(key):
            section, _, rest = str(key).partition(".")
            raise ConfigError(
                f"a mapping of config values has no dotted keys, but one of its keys is {key!r}: write "
                f"{{{section!r}: {{{rest!r}: …}}}}, or pass the dotted key in overrides instead of config"
            )


def _key_path(key: str) -> list[str]:
    """Return the parts of a dotted key, of which some may be in quotes: ``endpoints."qwen2.5".model``."""
    try:
        value: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return key.split(".")
    path: list[str] = []
    while isinstance(value, dict) and len(value) == 1:
        (part,) = value
        path.append(part)
        value = value[part]
    return key.split(".") if isinstance(value, dict) else path


def _with_defaults(cls: type, values: Mapping[str, Any], holder: Any = None) -> dict[str, Any]:
    """Return the values of a section with two additions: the defaults of mappings, and the values of ``holder``.

    The first addition: a mapping such as ``endpoints`` keeps its default entries. If the user sets
    ``endpoints.colour.model``, the given value replaces only this key of the default entry ``colour``.

    The second addition: a config may give the section other defaults than ``cls``, the section's class, declares.
    ``holder`` is then an object of ``cls`` with these other defaults. If a value of ``holder`` differs from the
    declared default, and ``values`` does not have the key, the value of ``holder`` is added. If ``holder`` is None,
    there is no second addition.
    """
    kept = {} if holder is None else _plain(holder)
    own = {field.name for field in dataclasses.fields(cls) if default_of(field, holder) != default_of(field)}
    filled = {name: value for name, value in kept.items() if name in own} | dict(values)
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        given = values.get(field.name)
        if not isinstance(given, Mapping):
            continue
        section, several = section_class(hints[field.name])
        if several:
            default = default_of(field, holder)
            default = default if isinstance(default, Mapping) else {}
            filled[field.name] = dict(default) | {
                name: _entry(section, entry, default.get(name)) for name, entry in given.items()
            }
        elif section:
            default = default_of(field, holder)
            filled[field.name] = _with_defaults(section, given, default if isinstance(default, section) else None)
    return filled


def _entry(section: type | None, entry: Any, default: Any) -> Any:
    if section is None or not isinstance(entry, Mapping):
        return entry
    return ({} if default is None else _plain(default)) | _with_defaults(section, entry)


def _plain(value: Any) -> dict[str, Any]:
    """Convert an object of a settings class to a dict of JSON data.

    Raises ConfigError for any other value, such as a date in a TOML file.
    """
    if isinstance(value, datetime.date | datetime.time):
        raise ConfigError(
            f"{value} in the config or in --set is a date or a time, which no setting accepts: put it in quotes"
        )
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ConfigError(
            f"{value!r:.80} in the config is of the type {type(value).__name__}, which no setting accepts: use a text, "
            "a number, a boolean, a list or a mapping"
        )
    return TypeAdapter(type(value)).dump_python(value, mode="json")
