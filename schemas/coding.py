"""Defines record types: frozen, hashable dataclasses that Beam can encode as rows and send between processes.

The import of Beam takes seconds. Therefore this module does not import Beam; only code that builds pipelines does. The
module :mod:`groundtrace.stages.plumbing.packing` registers the record types with Beam.

Beam's row coder reads the field types of the class. Therefore record modules must not postpone annotations (no ``from
__future__ import annotations``). The coder decodes every sequence as a list. The constructor of a record turns each
such list into a tuple again. So a decoded record equals the encoded record and stays hashable.

Each row contains an id of its record type. By default, Beam chooses this id at random in every process. This module
derives the id from the name of the type instead, so that workers in other processes find the type. The id is a UUID,
since Beam's runners in Java accept only UUIDs.
"""

import dataclasses
import uuid
from collections.abc import Callable
from typing import TypeVar, dataclass_transform

RECORD_MODULES: set[str] = set()
"""The names of the modules that declare records. A worker process must import them before it decodes its first row."""
_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "groundtrace:records")
_RECORDS: list[type] = []
_ACTIONS: list[Callable[[type], object]] = []

T = TypeVar("T", bound=type)


@dataclass_transform(frozen_default=True)
def record(cls: T) -> T:
    """Make the class ``cls`` a frozen dataclass whose instances Beam can send between processes as rows. Use this
    function as a decorator. Returns the dataclass.
    """
    sequences = tuple(name for name, hint in cls.__annotations__.items() if "tuple[" in str(hint))

    def restore_tuples(self: object) -> None:
        for name in sequences:
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    if sequences:
        cls.__post_init__ = restore_tuples  # type: ignore[attr-defined]
    made = dataclasses.dataclass(frozen=True)(cls)
    made._beam_schema_id = str(uuid.uuid5(_IDS, f"{cls.__module__}.{cls.__qualname__}"))  # type: ignore[attr-defined]
    RECORD_MODULES.add(cls.__module__)
    _RECORDS.append(made)
    for action in _ACTIONS:
        action(made)
    return made


def for_each_record(action: Callable[[type], object]) -> None:
    """Call ``action`` once with each record type, i.e. each class that :func:`record` has decorated. The calls for the
    existing types are made now. The call for a later type is made when that type is decorated.
    """
    for kind in _RECORDS:
        action(kind)
    _ACTIONS.append(action)
