"""Makes the tables that explain the columns of a run's shards (Parquet files) to readers.

The module also finds the columns in use, which are columns that have a value in at least one row.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.grading.answers.registry import ANSWER_TYPES
from groundtrace.publishing.reading import BATCH_ROWS, columns_of
from groundtrace.schemas.arrow import CORE, added_columns
from groundtrace.schemas.run_files import shards_of
from groundtrace.schemas.text import alternatives
from groundtrace.stages.sources.rows import kept_columns as described_as_kept


@dataclass(frozen=True)
class ColumnRow:
    """Holds one row of a table that explains columns.

    ``name`` is the column's name. ``kind`` is its type in words, such as "list of string". ``sets`` are the output sets
    of the run that have the column, such as "sft and rl". ``meaning`` explains the column.
    """

    name: str
    kind: str
    sets: str
    meaning: str


def columns_in_use(staging: Path, used: Mapping[str, frozenset[str]]) -> list[ColumnRow]:
    """Return a description of each column that has a value in at least one row, in the order of the shards' columns.

    ``staging`` is the folder with the shards (Parquet files). ``used`` maps the name of each training set (sft, rl) to
    the names of the columns that have a value in it.
    """
    return _rows(staging, tuple(used), lambda side, name: name in used[side])


def columns_added(run: Path, sets: tuple[str, ...]) -> list[ColumnRow]:
    """Return a description of each column that is not a core column, in the order of the shards' columns.

    The core columns, such as ``id`` and ``question``, are in the shards of every run. All other columns come from the
    input, or a stage (a step of the pipeline) added them. ``run`` is the run folder. ``sets`` are the names of the
    output sets (such as sft) whose columns are described.
    """
    return _rows(run, sets, lambda _, name: name not in CORE)


def kept_columns(run: Path, sets: Iterable[str]) -> list[str]:
    """Return the names of the columns that the run copied from its input, because the setting ``input.keep`` named
    them, in the order of the shards' columns.

    ``run`` is the run folder. The columns are those of the shards of the output ``sets`` (such as sft). The
    descriptions in the shards show which columns were copied. ``config.toml`` is not read, because it may be missing,
    or changed since the run.
    """
    meanings = {column.name: column.meaning for side in sets for column in added_columns(columns_of(run, side))}
    return [column.name for column in described_as_kept(tuple(meanings)) if column.meaning == meanings[column.name]]


def _rows(run: Path, sets: tuple[str, ...], is_shown: Callable[[str, str], bool]) -> list[ColumnRow]:
    """Return the rows of a table that explains the columns of a run's shards (Parquet files), one row for each column.

    ``run`` is the folder with the shards. ``sets`` are the names of the output sets whose columns are described, such
    as sft. ``is_shown`` is a function that gets the name of an output set and the name of one of its columns. A column
    has a row in the table if the function returns True for at least one output set.
    """
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
    """Return an Arrow type in a few words, such as "list of string"."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"struct ({', '.join(field.name for field in kind)})"
    return str(kind)


def used_columns(run: Path, name: str) -> frozenset[str]:
    """Return the names of the columns of an output set that have a value in at least one row; all columns if there are
    no rows.

    ``run`` is the run folder, and ``name`` is the output set: sft, rl or rejected.
    """
    used, rows = set[str](), 0
    for file in shards_of(run, name, accepts_links=True):  # see columns_of
        with pq.ParquetFile(file) as shard:
            rows += shard.metadata.num_rows
            for leaf in _leaves(shard.metadata):  # the smallest first, so that pixels are read last
                column = leaf.split(".")[0]
                batches = shard.iter_batches(BATCH_ROWS, columns=[leaf]) if column not in used else ()
                if any(_holds(batch.column(0)) for batch in batches):
                    used.add(column)
    return frozenset(used if rows else columns_of(run, name).names)


def _leaves(footer: pq.FileMetaData) -> list[str]:
    """Return the paths of a Parquet file's leaf columns, such as ``scores.final``, sorted by their size in bytes.

    The column with the smallest compressed size is first. ``footer`` is the metadata of the file.
    """
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    sizes = Counter[str]()
    for column in (group.column(index) for group in groups for index in range(group.num_columns)):
        sizes[column.path_in_schema] += column.total_compressed_size
    return sorted(sizes, key=lambda path: (sizes[path], path))


def _holds(values: pa.Array) -> bool:
    """Return whether a leaf column of a Parquet file has at least one value that is not null.

    ``values`` holds the values of the leaf column. They may be inside lists and structs.
    """
    while pa.types.is_list(values.type) or pa.types.is_struct(values.type):
        values = values.flatten() if pa.types.is_list(values.type) else values.flatten()[0]
    return values.null_count < len(values)
