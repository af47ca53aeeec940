"""Finds the keys of a config that have been renamed, so that the error for a former key contains the new one."""

import dataclasses
import typing
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from groundtrace.config.fields import section_class


def renamed_keys(cls: type, values: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    """Yield each former key that the values of a section have, with the key that replaces it, both as dotted keys.

    ``cls`` is the settings class of the section. The class variable ``RENAMED`` of a settings class, or of its bases,
    maps former keys to new ones. ``values`` are the section's values as nested mappings. ``where`` is the dotted key of
    the section with a dot at its end, such as ``trace.``; "" for the whole config.
    """
    for old, new in ChainMap(*(vars(base).get("RENAMED", {}) for base in cls.__mro__)).items():
        if _holds(values, old.split(".")):
            yield f"{where}{old}", f"{where}{new}"
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        section, several = section_class(hints[field.name])
        given = values.get(field.name)
        if section is None or not isinstance(given, Mapping):
            continue
        below = f"{where}{field.name}."
        for name, entry in given.items() if several else [("", given)]:
            if isinstance(entry, Mapping):
                yield from renamed_keys(section, entry, f"{below}{name}." if several else below)


def _holds(values: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[key]
    return True
