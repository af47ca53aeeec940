"""Finds two facts about a field of a settings class: its default, and the class of the settings that it contains.

For example, a field of the type ``Mapping[str, EndpointSettings]`` contains settings of the class ``EndpointSettings``.
Code that goes through the fields of a config and of its sections uses these facts.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any


def default_of(field: "dataclasses.Field[Any]", holder: Any = None) -> Any:
    """Return the default of a dataclass field; ``dataclasses.MISSING`` if the field has no default.

    A config may give a section other defaults than the section's class declares. ``holder`` is then an object of this
    class that holds the other defaults, and the result is the value of the field in ``holder``. If ``holder`` is None,
    the result is the default that the class declares. For example, the class declares ``n: int = 1``, and ``holder``
    has ``n = 4``: the result is 4.
    """
    if holder is not None:
        return getattr(holder, field.name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def section_class(hint: Any) -> tuple[type | None, bool]:
    """Return the settings class in a field's type, and whether the field holds several objects of this class.

    ``hint`` is the field's type. A field holds several objects if its type is a mapping or a tuple, e.g.
    ``Mapping[str, EndpointSettings]`` → ``(EndpointSettings, True)``. The class is None if the type contains no
    settings class, e.g. ``int`` → ``(None, False)``.
    """
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint, False
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (dict, Mapping, tuple):
        return section_class(next(each for each in reversed(arguments) if each is not ...))[0], True
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next((found for found, _ in map(section_class, arguments) if found), None), False
    return None, False
