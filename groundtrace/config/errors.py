"""Makes the error messages for configs. A message is one line with the key, the expected value and the actual value."""

import dataclasses
import difflib
import re
import textwrap
import typing
from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from groundtrace.config.fields import section_class
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import alternatives

MAX_SHOWN_CHARS = 200
EXPECTED = {
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "tuple_type": 'must be a list such as ["a", "b"]',
    "dict_type": "must be a section",
    "mapping_type": "must be a section",
    "dataclass_type": "must be a section",
}
"""Our messages for type errors, by pydantic's name of the error. They use TOML's names of the types.

All other errors have pydantic's own messages.
"""


class ConfigError(UserError, ValueError):
    """Raised if a config cannot be used. The message names the key and the remedy."""


@dataclasses.dataclass(frozen=True)
class Remedy:
    """Describes what the user can do about an unknown key of a config; the text is such as "did you mean trace.n?".

    Attributes:
        meant: The dotted keys that may be meant; empty if no known key is similar.
        known: The keys of the section that holds the unknown key, without the key of the section.
    """

    meant: tuple[str, ...]
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"did you mean {alternatives(self.meant)}?" if self.meant else f"known here: {', '.join(self.known)}"


class UnknownKeys(ConfigError):
    """Raised if a config has unknown keys. The message names all of them, sorted, each with its remedy.

    ``unknown`` maps each unknown key to its remedy. ``renamed`` maps each former key to the key that replaces it. All
    keys are dotted.
    """

    def __init__(self, unknown: Mapping[str, Remedy], renamed: Mapping[str, str]) -> None:
        super().__init__(unknown, renamed)
        self.unknown, self.renamed = unknown, renamed

    def within(self, where: str) -> "UnknownKeys":
        """Return the error for a config in which these keys are in the section ``where``, such as ``reward.options``.

        Use this method if the keys of this error are relative to the section.
        """
        unknown = {
            f"{where}.{key}": dataclasses.replace(remedy, meant=tuple(f"{where}.{each}" for each in remedy.meant))
            for key, remedy in self.unknown.items()
        }
        return UnknownKeys(unknown, {f"{where}.{old}": f"{where}.{new}" for old, new in self.renamed.items()})

    def __str__(self) -> str:
        remedies = {key: str(remedy) for key, remedy in self.unknown.items()}
        remedies |= {old: f"now {new}" for old, new in self.renamed.items()}
        if len(remedies) == 1:
            key = next(iter(remedies))
            renamed = self.renamed.get(key)
            return f"{key} is now {renamed}: rename the key" if renamed else f"unknown key {key}; {remedies[key]}"
        by_remedy: dict[str, list[str]] = {}  # so that the known keys of a section are listed once
        for key in sorted(remedies):
            by_remedy.setdefault(remedies[key], []).append(key)
        named = [f"{' and '.join(keys)} ({remedy})" for remedy, keys in by_remedy.items()]
        return f"unknown keys: {', '.join(named)}"


def config_error(
    cls: type, error: ValidationError, where: str = "", renamed: Mapping[str, str] | None = None
) -> ConfigError:
    """Return an error for a config in which pydantic (the validator) found errors. Its message has one line.

    If there are unknown keys, the message is about all of them. They are reported before other errors, since one of
    them may be a misspelling of a key that is reported as missing. Otherwise, the message is about the first error.

    ``cls`` is the settings class for which the values were checked. ``error`` holds all errors that pydantic found.
    ``where`` is the dotted key of the section that ``cls`` describes, such as ``trace``; "" for the whole config.
    ``renamed`` maps the former keys among the values to the keys that replace them, all of them dotted.
    """
    unknown, former = dict[str, Remedy](), dict(renamed or {})
    found = error.errors(include_url=False)
    for each in found:
        raised = each.get("ctx", {}).get("error")
        if isinstance(raised, UnknownKeys):  # raised by the check of a nested section
            unknown.update(raised.unknown)
            former.update(raised.renamed)
        elif each["type"] == "unexpected_keyword_argument":
            place = each["loc"]
            unknown[_dotted(where, place)] = _suggestion(_dotted(where, place), _class_at(cls, place[:-1]))
    unknown = {key: hint for key, hint in unknown.items() if not any(f"{old}.".startswith(f"{key}.") for old in former)}
    return UnknownKeys(unknown, former) if unknown or former else ConfigError(_message(cls, found[0], where))


def _message(cls: type, found: ErrorDetails, where: str) -> str:
    """Return a message of one line about ``found``, an error of pydantic that is not about an unknown key.

    ``cls`` is the checked settings class, and ``where`` is the dotted key of its section; "" for the whole config.
    """
    place = found["loc"]
    if place and isinstance(place[0], int):  # an argument by position
        place = (dataclasses.fields(cls)[place[0]].name, *place[1:])
    if place[-1:] == ("[key]",):  # the error is in the key of a mapping, not in its value
        place = place[:-1]
    key = _dotted(where, place)
    if found["type"] == "missing":
        return f"{key} is not set{_meaning(cls, place)}"
    if found["type"] == "value_error":
        raised = found.get("ctx", {})["error"]
        message = str(raised)
        return message if isinstance(raised, ConfigError) else _own_message(key, message, _fields_at(cls, place))
    expected = EXPECTED.get(found["type"]) or re.sub(r"^\w+ should ", "must ", found["msg"])
    expected = expected.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    return f"{key} {expected}, got {textwrap.shorten(repr(found['input']), MAX_SHOWN_CHARS, placeholder='…')}"


def _meaning(cls: type, place: Sequence[int | str]) -> str:
    """Return the meaning of a key for an error message, such as ": attempts at each question".

    The meaning is a text in the key's annotation. The result is "" if the annotation has no such text. ``place`` is the
    path of the key in the section that ``cls`` describes, such as ``("parts", 1, "weight")``.
    """
    at = _class_at(cls, place[:-1])
    hints = {} if at is None else typing.get_type_hints(at, include_extras=True)
    meanings = [each for each in getattr(hints.get(str(place[-1])), "__metadata__", ()) if isinstance(each, str)]
    return f": {meanings[-1]}" if meanings else ""


def _own_message(key: str, message: str, fields: Sequence[str]) -> str:
    """Return an error message that begins with the key of the setting, such as "trace.n must be even".

    ``message`` is the message of a check by this project, not by pydantic. ``key`` is the dotted key of the checked
    value or section; "" for the whole config. ``fields`` are the keys of the section; empty for a value. If the message
    begins with one of ``fields``, this key is written with its section: for the section ``trace``, "n must be even"
    becomes "trace.n must be even".
    """
    if not key:
        return message
    if not fields:
        return f"{key} {message}"
    names_field = re.split(r"\W", message, maxsplit=1)[0] in fields
    return f"{key}.{message}" if names_field else f"{key}: {message}"


def _fields_at(cls: type, place: Sequence[int | str]) -> list[str]:
    """Return the keys of the section at ``place``. The list is empty if a value, and not a section, is at ``place``.

    ``place`` is a path in the section that the settings class ``cls`` describes, such as ``("parts", 1)``.
    """
    at = _class_at(cls, place)
    return [] if at is None else [field.name for field in dataclasses.fields(at)]


def _class_at(cls: type, place: Sequence[int | str]) -> type | None:
    """Return the class of the section at ``place``; None if a value, and not a section, is at ``place``.

    ``place`` is a path in the section that the settings class ``cls`` describes, such as ``("parts", 1)``.
    """
    at: type | None = cls
    steps = iter(place)
    for step in steps:
        at, several = section_class(typing.get_type_hints(at).get(str(step)))
        if several and next(steps, None) is None:
            at = None
        if at is None:
            return None
    return at


def _dotted(where: str, place: Sequence[int | str]) -> str:
    """Return the dotted key for the path ``place``, such as ``parts[1].weight`` for ``("parts", 1, "weight")``.

    ``where`` is the dotted key of the section in which the path begins. It is put in front; "" for the whole config.
    """
    steps = (where, *place) if where else place
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _suggestion(key: str, section: type | None) -> Remedy:
    """Return the remedy for an unknown key of a config.

    ``key`` is the unknown dotted key. ``section`` is the settings class of the section that holds the unknown key; None
    if there is no such class. First, the subsections of this section are searched for keys whose last part is the same
    as that of the unknown key. If there are such keys, the remedy names them. Otherwise, the remedy names the most
    similar key of the section itself. If no key is similar, the remedy lists all keys of the section.
    """
    prefix, dot, name = key.rpartition(".")
    found = [] if section is None else _keys_named(name, section)
    names = [] if section is None else [field.name for field in dataclasses.fields(section)]
    found = found or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return Remedy(tuple(f"{prefix}{dot}{each}" for each in found), tuple(sorted(names)))


def _keys_named(name: str, section: type) -> list[str]:
    """Return the dotted keys with the last part ``name`` in the subsections of a section.

    For example, the name "endpoints" may give ``["reward.endpoints"]``. ``section`` is the settings class of the
    section. The section's own keys are left out. The keys in mappings and lists of sections (such as ``endpoints``) are
    left out, too, because the user chooses the names of their entries.
    """
    found = []
    for field, hint in typing.get_type_hints(section).items():
        below, several = section_class(hint)
        if below is not None and not several:
            own = [name] if any(each.name == name for each in dataclasses.fields(below)) else []
            found += [f"{field}.{each}" for each in (*own, *_keys_named(name, below))]
    return found
