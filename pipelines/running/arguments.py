"""Checks the types of the arguments with which a user's Python code calls ``run``, ``verify`` and ``preview``."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from groundtrace.schemas.errors import UserError


def check_arguments(name: str, declared: Callable[..., object], given: Mapping[str, object]) -> None:
    """Raise UserError if an argument does not have the type of its annotation.

    ``name`` is the name of the called function, for the message. ``declared`` is the function or the dataclass with the
    annotations. ``given`` holds the values of the arguments by name. Arguments that are not in ``given`` are not
    checked.
    """
    for argument, value in given.items():
        try:
            _types(declared)[argument].validate_python(value, strict=True)
        except ValidationError as error:
            hint = get_type_hints(declared)[argument]
            wanted = hint.__name__ if isinstance(hint, type) else str(hint).replace("collections.abc.", "")
            raise UserError(f"{name}() cannot use {argument} = {value!r:.80}: its type must be {wanted}") from error


@functools.cache
def _types(declared: Callable[..., object]) -> Mapping[str, TypeAdapter[Any]]:
    """Return a validator for each annotated argument of a function or dataclass, by the argument's name.

    ``declared`` is the function or the dataclass. A validator checks whether a value has the type of the annotation.
    """
    hints = {name: hint for name, hint in get_type_hints(declared).items() if name != "return"}
    others = ConfigDict(arbitrary_types_allowed=True)
    return {name: TypeAdapter(hint, config=None if is_dataclass(hint) else others) for name, hint in hints.items()}
