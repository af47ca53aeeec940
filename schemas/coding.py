"""The one way a record type is declared: frozen, hashable, and coded as a Beam row.

Beam's row coder reads the field types at class creation, so record modules must not postpone annotations
(no ``from __future__ import annotations``). It decodes every sequence as a list; records turn lists into tuples
again, so that a decoded record equals the one that was encoded and stays hashable. A row names its type by an id, which
Beam would draw at random in every process; here it is the type's own name, so that workers in other processes find it.
"""

import dataclasses
from typing import TypeVar, dataclass_transform

from apache_beam.coders.typecoders import registry

RECORD_MODULES: set[str] = set()
"""Modules that declare records. A worker process must import them before it decodes its first row."""

T = TypeVar("T", bound=type)


@dataclass_transform(frozen_default=True)
def record(cls: T) -> T:
    """Make ``cls`` a frozen dataclass whose instances cross a Beam shuffle as schema rows."""
    sequences = tuple(name for name, hint in cls.__annotations__.items() if "tuple[" in str(hint))

    def restore_tuples(self: object) -> None:
        for name in sequences:
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    if sequences:
        cls.__post_init__ = restore_tuples  # type: ignore[attr-defined]
    made = dataclasses.dataclass(frozen=True)(cls)
    RECORD_MODULES.add(cls.__module__)
    register_row(made)
    return made


def register_row(made: type) -> None:
    """Let a frozen dataclass cross a shuffle as a field of a record, where its own module does without Beam.

    The module that declares the record calls this, so that a worker which imports the one has the other.
    """
    made._beam_schema_id = f"{made.__module__}.{made.__qualname__}".replace(".", "_")  # type: ignore[attr-defined]
    registry.register_row(made)
