"""Makes tables that explain the shards' columns to readers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from groundtrace.grading.answers.registry import ANSWER_TYPES
from groundtrace.publishing.reading import columns_of
from groundtrace.schemas.arrow import CORE, added_columns
from groundtrace.schemas.text import alternatives


@dataclass(frozen=True)
class ColumnRow:
    """Holds a row of the table: a column of the shards, its type, the sets that have it, and its meaning."""

    name: str
    kind: str
    sets: str
    meaning: str


def columns_in_use(staging: Path, used: Mapping[str, frozenset[str]]) -> list[ColumnRow]:
    """Return the columns in which some row has a value, in the order in which the shards have them.

    ``used`` holds the names of these columns for each set.
    """
    return _rows(staging, tuple(used), lambda side, name: name in used[side])


def columns_added(run: Path, sets: tuple[str, ...]) -> list[ColumnRow]:
    """Return the columns that are not core columns, in the order in which the shards have them.

    The recipe's stages added these columns, or they come from the input.
    """
    return _rows(run, sets, lambda _, name: name not in CORE)


def _rows(run: Path, sets: tuple[str, ...], is_shown: Callable[[str, str], bool]) -> list[ColumnRow]:
    schemas = {side: columns_of(run, side) for side in sets}
    meanings = {name: column.meaning for name, column in CORE.items()}
    meanings["answer_type"] = alternatives(tuple(ANSWER_TYPES))
    for schema in schemas.values():
        meanings |= {column.name: column.meaning for column in added_columns(schema)}
    rows = []
    for name in dict.fromkeys(name for schema in schemas.values() for name in schema.names):
        held = [side for side, schema in schemas.items() if name in schema.names]
        if any(is_shown(side, name) for side in held):
            kind = _kind(schemas[held[0]].field(name).type)
            rows.append(ColumnRow(name, kind, " and ".join(held), meanings[name]))
    return rows


def _kind(kind: pa.DataType) -> str:
    """Return an Arrow type in a few words."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"struct ({', '.join(field.name for field in kind)})"
    return str(kind)
