"""Checks shards (Parquet files) before other code reads their rows.

The check is needed because another person may have made the shards. Such shards can cause two problems. First, a
Parquet file can hold a long text once and use it in many rows, so that a file of one megabyte fills the memory of a
program that reads it. Second, a column can have types or values that a pipeline never writes, so that code that reads
them fails.

Images are checked by :mod:`groundtrace.storage.image_check`. Code that reads images reads few rows at a time.
"""

import functools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.schemas.arrow import CORE, IMAGE, TURN, added_columns
from groundtrace.schemas.text import counted, excerpt
from groundtrace.storage.image_check import IMAGES, check_images
from groundtrace.storage.row_sizes import ITEM_BYTES, NUMBER_BYTES, ROWS, STRUCT_BYTES, check_items, check_sizes
from groundtrace.storage.shard_fault import ShardFault
from groundtrace.storage.views import quoted_path

MAX_COLUMNS = 500
MAX_DEPTH = 12
"""The maximum number of lists and structs around a value. The rows of a run have at most 5. For each further list,
DuckDB needs a multiple of the memory.
"""
MEMORY = "2GiB"
_FILLED = ("id", *IMAGES, "messages", "prompt", "scores", "lineage", "reward_model", "extra_info")
"""The core columns that must have a type. Other columns have no type if no row has a value."""
_FIELDS = {
    IMAGE: {"bytes", "path"},
    TURN: {"role", "content"},
    CORE["verdicts"].type.value_type: {"name", "value"},
    CORE["traces"].type.value_type: {"text", "score"},
}
"""The fields that the structs in lists must have."""
_WITH_NULLS = ("media_names",)
"""The core columns whose lists may have items without a value."""


def check_shards(files: Sequence[Path]) -> None:
    """Check the types of the columns of shards (Parquet files), their values, and the sizes of their rows.

    Core columns are those that rows of every pipeline can have. A column other than ``id`` may be missing, because an
    earlier version of the code may have written the file. The bytes of images do not count as a part of a row's
    size, and are read only if they may be too large.

    Raises :class:`ShardFault` in these cases:

    - A file is not a readable Parquet file.
    - There is no column ``id``, or a row has no id.
    - A column has another type than in the shards that a pipeline writes, or two columns have the same name.
    - The items of a list are not stored under the name ``element``, by which other code reads them.
    - A list of a core column has an item without a value, or a text is not UTF-8.
    - A file has more than :data:`MAX_COLUMNS` columns, or a column whose values are nested too deeply.
    - A row, a block of :data:`ROWS` rows (the file is divided into such blocks), or all rows of a file together are
      larger than the limits in :mod:`groundtrace.storage.row_sizes`.
    - The images of the rows would fill the memory (:func:`groundtrace.storage.image_check.check_images`).
    """
    if not files:
        return
    with _database(os.getpid()).cursor() as db:
        for file in files:
            try:
                with pq.ParquetFile(file) as shard:
                    _check_types(file, shard.schema_arrow)
                    added_columns(shard.schema_arrow)
                    kinds = shard.metadata.schema.to_arrow_schema()  # without what the writer noted about the types
                    _check_lists(file, kinds, shard.metadata.schema)
                    check_items(file, shard.metadata)
                check_images(file)
                _check_rows(db, file, kinds)
            except (OSError, ValueError, MemoryError, RecursionError, pa.ArrowException, duckdb.Error) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise ShardFault(f"{file} is not a readable Parquet file ({reason}): repeat the run") from error


@functools.cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Return a database without tables, which runs the queries of all checks in this process.

    The database is opened only once and then kept, because opening it takes longer than a check. ``process`` is the id
    of the current process. A forked process has another id, so it gets its own database and not that of its parent.
    """
    config = {
        "memory_limit": MEMORY,
        "temp_directory": "",
        "autoload_known_extensions": False,
        "disabled_optimizers": "expression_rewriter,common_subexpressions",  # a quarter of a small shard's check
    }
    return duckdb.connect(":memory:", config=config)


def _check_types(file: Path, schema: pa.Schema) -> None:
    if len(schema) > MAX_COLUMNS:
        raise ShardFault(f"{file} has {len(schema)} columns, but at most {MAX_COLUMNS} are read: remove some of them")
    if twice := next((name for name, count in Counter(schema.names).items() if count > 1), None):
        raise ShardFault(f"{file} has two columns with the name {excerpt(twice)}: remove one of them")
    for field in schema:
        if _depth(field.type) > MAX_DEPTH:
            raise ShardFault(
                f"the column {excerpt(field.name)} of {file} has more than {MAX_DEPTH} lists and structs around a "
                "value: remove this column"
            )
        is_empty = field.name in _FILLED and pa.types.is_null(field.type)
        if field.name in CORE and (is_empty or not _fits(field.type, CORE[field.name].type)):
            raise ShardFault(
                f"the column {field.name} of {file} has the type {field.type!s:.200}, but a run writes "
                f"{CORE[field.name].type!s:.200}: repeat the run"
            )
        if field.name not in CORE and not _is_plain(field.type):
            raise ShardFault(
                f"the column {excerpt(field.name)} of {file} has the type {field.type!s:.200}, but a run writes only "
                "texts, numbers, booleans, and lists and structs of these: remove this column, or repeat the run"
            )
    if "id" not in schema.names:
        raise ShardFault(f"{file} has no column 'id', which all shards must have: repeat the run")


def _check_lists(file: Path, kinds: pa.Schema, stored: pq.ParquetSchema) -> None:
    """Raise ShardFault if the items of a list are not stored under the name ``element``.

    Some programs store the items under the name ``item``. Then code that reads the Parquet column
    ``images.list.element.path``, for example, would find no values. ``kinds`` holds the types of the columns.
    ``stored`` is the file's Parquet schema, with the paths under which the values are really stored.
    """
    written = ((field.name, path) for field in kinds for path in _paths(field.name, field.type))
    for (column, path), place in zip(written, range(len(stored)), strict=False):
        if stored.column(place).path != path:
            raise ShardFault(
                f"the lists in the column {excerpt(column)} of {file} are not stored as `list.element`, the form that "
                "a run writes: repeat the run, or write the file with use_compliant_nested_type=True of pyarrow"
            )


def _paths(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the Parquet paths under which a pipeline stores a value of the type ``kind``.

    ``path`` is the path of the value.

    Lists and structs are divided into their parts. E.g. if the column ``images`` holds lists of structs with the fields
    ``bytes`` and ``path``, its paths are ``images.list.element.bytes`` and ``images.list.element.path``.
    """
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _paths(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _paths(f"{path}.{field.name}", field.type)
    else:
        yield path


def _depth(kind: pa.DataType) -> int:
    """Return how deeply lists and structs are nested in the type ``kind``.

    E.g. the result is 0 for a text, 1 for a list of texts, and 2 for a list of structs of texts.
    """
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return 1 + max(map(_depth, inner)) if inner else 0


def _fits(found: pa.DataType, written: pa.DataType) -> bool:
    """Return whether a column of the type ``found`` can be read like a column of the type ``written``.

    ``written`` is the type that a run (a pipeline's execution) writes. The two types may differ in these ways:

    - A struct may have other fields, because another version of the code may have written the file. Only the fields in
      :data:`_FIELDS` are required.
    - A number may have another type of numbers, e.g. float instead of int64.
    - A text, a list or bytes may have Arrow's large type, e.g. ``large_string``.
    - A column without values may have no type.
    """
    if (needed := _FIELDS.get(written)) and not (pa.types.is_struct(found) and needed <= {*found.names}):
        return False
    if pa.types.is_null(found):
        return True
    if pa.types.is_list(written):
        return (pa.types.is_list(found) or pa.types.is_large_list(found)) and _fits(
            found.value_type, written.value_type
        )
    if pa.types.is_struct(written):
        names = {field.name for field in written}
        return pa.types.is_struct(found) and all(
            _fits(field.type, written.field(field.name).type) for field in found if field.name in names
        )
    return any(all(is_kind(each) for each in (found, written)) for is_kind in _KINDS)


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a run can write an additional column of the type ``kind``. Additional columns are all columns
    except the core columns (those that rows of every pipeline can have).

    Such a column has texts, numbers or booleans, or lists or structs of these. Arrow's types ``large_string`` and
    ``large_list`` are accepted too, and so is a column without values and without a type. The reason is that the
    package ``datasets`` may have written the file again.
    """
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_plain(field.type) for field in kind)
    return _is_text(kind) or _is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


_KINDS = (_is_number, _is_text, _is_binary, pa.types.is_boolean)


def _check_rows(db: duckdb.DuckDBPyConnection, file: Path, kinds: pa.Schema) -> None:
    """Raise ShardFault for rows that are too large, and for rows with a value that a run never writes.

    A run never writes a row without an id. In a core column (a column that rows of every pipeline can have), it never
    writes a list with a null item; :func:`_has_only_values` has the exceptions. ``kinds`` holds the types of the
    columns.

    The sizes are computed by DuckDB, which adds up the lengths of the texts. If many rows share a text, DuckDB does not
    copy the text. The sizes in the file's own metadata are not used, because they count a shared text only once, and
    may be false.
    """
    names = [f"c{place}" for place in range(len(kinds))]  # of two names that differ only in case, DuckDB changes one
    columns = dict(zip(names, kinds, strict=True))
    sizes = [_size(name, field.type) for name, field in columns.items() if field.name not in IMAGES]
    faults = {name: f"{name} IS NULL" for name, field in columns.items() if field.name == "id"}
    lists = (name for name, field in columns.items() if _has_only_values(field))
    faults |= {name: f"len({name}) > list_count({name})" for name in lists}
    rows = f"read_parquet({quoted_path(file)}, file_row_number = true) AS shard({', '.join([*names, 'row'])})"
    query = f"""SELECT max(largest), max(total), sum(total), bool_or(is_wrong) FROM (
        SELECT max(size) AS largest, sum(size) AS total, bool_or(is_wrong) AS is_wrong FROM (
        SELECT row // {ROWS} AS part, {" + ".join(sizes) or "0"} AS size, {" OR ".join(faults.values())} AS is_wrong
        FROM {rows}) GROUP BY part)"""
    [found] = db.execute(query).fetchall()
    largest, total, whole, is_wrong = (each or 0 for each in found)
    check_sizes(file, largest, total, whole)
    for name, fault in faults.items() if is_wrong else ():
        [(count,)] = db.execute(f"SELECT count(*) FROM {rows} WHERE {fault}").fetchall()
        if count:
            column = columns[name].name
            what = "no id" if column == "id" else f"an item without a value in the column {column}"
            raise ShardFault(f"{file} has {counted(count, 'row')} with {what}: repeat the run")


def _has_only_values(field: pa.Field) -> bool:
    """Return whether a null item in the lists of this column is a fault, because a pipeline never writes such an item.

    The result is True for all core columns with lists, except for those in :data:`_WITH_NULLS`, which may have null
    items, and the columns of images, which :func:`groundtrace.storage.image_check.check_images` checks.
    """
    return field.name in CORE and field.name not in (*IMAGES, *_WITH_NULLS) and pa.types.is_list(field.type)


def _size(value: str, kind: pa.DataType, depth: int = 0) -> str:
    """Return an SQL expression for the size in bytes of a value.

    ``value`` is an SQL expression for the value, and ``kind`` is the value's type. ``depth`` is the number of lists
    that contain the value. If the value is itself a list, the SQL variable for its items is named after ``depth``:
    ``x0`` for an outer list, ``x1`` for a list in this list, and so on.
    """
    if _is_text(kind):
        whole = "" if depth else f" + 0 * length({value})"  # DuckDB checks the encoding only if it needs the whole text
        return f"coalesce(strlen({value}){whole}, 0)"
    if _is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return f"coalesce(octet_length({value}), 0)"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        size = _size(f"x{depth}", kind.value_type, depth + 1)
        each = STRUCT_BYTES if pa.types.is_struct(kind.value_type) else ITEM_BYTES
        if size.isdecimal():
            return f"coalesce(len({value}), 0) * {int(size) + each}"
        items = f"coalesce(list_sum(list_transform({value}, lambda x{depth}: {size})), 0)"
        return f"(coalesce(len({value}), 0) * {each} + {items})"
    if pa.types.is_struct(kind):
        parts = [
            _size(f"struct_extract_at({value}, {index})", kind.field(index - 1).type, depth)
            for index in range(1, kind.num_fields + 1)
        ]
        numbers = sum(int(part) for part in parts if part.isdecimal())
        texts = [part for part in parts if not part.isdecimal()]
        return f"({' + '.join([*texts, str(numbers)])})" if texts else str(numbers)
    return str(NUMBER_BYTES)
