"""Reads the rows of a Parquet file with a limited amount of RAM.

The file may come from a stranger. A file of some kilobytes may hold a long text once, and refer to it from each row.
When the rows are converted to Python values, each row gets its own copy of the text. So pyarrow first reads texts as
dictionaries (each different text once, and a number for each row), and their lengths are checked before the copies are
made.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from groundtrace.stages.sources.base import InputError

MAX_CELL_BYTES: Final = 16 * 2**20
"""The maximum size of one text, in bytes of UTF-8. The same number limits a cell of a CSV or TSV table, such as a table
of VLMEvalKit.
"""
MAX_ROW_BYTES: Final = 2**30
"""The maximum size of all texts, media and items of lists in a row together. A single medium has a limit of 256 MiB."""
VALUE_BYTES: Final = 64
"""The size of an item of a list as a Python value, without its text. An item that is a struct is a dict, whose size is
:data:`STRUCT_BYTES` and the sizes of its fields.
"""
STRUCT_BYTES: Final = 256
SPLIT_BYTES: Final = 64 * 2**20
"""The maximum size of a batch whose rows are converted together. The rows of a larger batch are converted one at a
time.
"""
MEDIA_ROWS: Final = 4
"""The maximum number of rows in a batch that has the bytes of media."""
_UNTYPED: Final = "NONE"
"""pyarrow's name of the logical type of a column of bytes that is not marked as texts."""


def read_rows(
    source: Path | IO[bytes], path: str, batch_rows: int, columns: Sequence[str] | None = None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a Parquet file, as mappings from column names to values.

    ``source`` is the file, or its opened stream, and ``path`` is its name in errors. At most ``batch_rows`` rows are
    read at a time. ``columns`` are the columns or subfields to read; None for all of them. Raises InputError for a text
    of more than :data:`MAX_CELL_BYTES` bytes, and for a row of more than :data:`MAX_ROW_BYTES` bytes. Raises the errors
    of pyarrow for a damaged file.
    """
    with pq.ParquetFile(source) as plain:
        texts, blobs = _byte_columns(plain, columns)
        types = {field.name: field.type for field in plain.schema_arrow}
        # As an extension type, such as arrow.json, a text would not be read as a dictionary.
        file = pq.ParquetFile(source, metadata=plain.metadata, read_dictionary=texts, arrow_extensions_enabled=False)
        first = 1
        for batch in file.iter_batches(min(batch_rows, MEDIA_ROWS) if blobs else batch_rows, columns=columns):
            yield from _rows_of(batch, types, path, first)
            first += batch.num_rows


def _byte_columns(file: pq.ParquetFile, columns: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return two lists of column paths: the columns of texts, and the columns of other bytes, such as media.

    ``columns`` are the columns or subfields to read; None for all of them. The first list has all columns of texts
    in the file, also columns that are not read. The caller passes this list to pyarrow, which then reads columns of
    texts as dictionaries. The second list has only columns that are read. If the second list is not empty, the caller
    reads at most :data:`MEDIA_ROWS` rows in a batch.
    """
    found = [file.schema.column(index) for index in range(len(file.schema))]
    found = [each for each in found if each.physical_type == "BYTE_ARRAY"]
    texts = [each.path for each in found if each.logical_type.type != _UNTYPED]
    blobs = [each.path for each in found if each.logical_type.type == _UNTYPED]
    read = tuple(f"{name}." for name in columns or ())
    return texts, [path for path in blobs if columns is None or f"{path}.".startswith(read)]


def _rows_of(batch: pa.RecordBatch, types: Mapping[str, pa.DataType], path: str, first: int) -> Iterator[Any]:
    """Yield the rows of a batch as mappings from column names to values.

    ``types`` maps the columns of the file to their types. ``path`` is the name of the file in errors. ``first`` is the
    number of the batch's first row in the file, counted from 1. Raises InputError for a text of more than
    :data:`MAX_CELL_BYTES` bytes, and for a row of more than :data:`MAX_ROW_BYTES` bytes.
    """
    if _checked_bytes(batch, path, first) <= SPLIT_BYTES:
        yield from _decoded(batch, types).to_pylist()
        return
    for index in range(batch.num_rows):
        row = batch.slice(index, 1)
        size = _checked_bytes(row, path, first + index)
        if size > MAX_ROW_BYTES:
            raise InputError(
                f"{path}, row {first + index}: the row has {size} bytes of texts, media and lists, but "
                f"the limit is {MAX_ROW_BYTES}: shorten or remove this row"
            )
        yield from _decoded(row, types).to_pylist()


def _checked_bytes(batch: pa.RecordBatch, path: str, first: int) -> int:
    """Return the memory in bytes that all texts, media and items of lists in a batch need as Python values.

    Raises InputError for the first column with a text of more than :data:`MAX_CELL_BYTES` bytes. The message names the
    file, the column and the number of the text's row. ``path`` is the name of the file in the message, and ``first`` is
    the number of the batch's first row.
    """
    total = 0
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for lengths, is_text in _lengths(column):
            longest = _computed("max", lengths)
            if is_text and longest > MAX_CELL_BYTES:
                number = first + next(index for index in range(len(column)) if _has_long(column.slice(index, 1)))
                raise InputError(
                    f"{path}, row {number}, column {name}: the text has {longest} bytes, but the limit is "
                    f"{MAX_CELL_BYTES}: shorten this text, or remove the row"
                )
            total += _computed("sum", lengths)
        total += _list_bytes(column)
    return total


def _list_bytes(column: pa.Array) -> int:
    """Return the memory in bytes that the items of a column's lists need as Python values, without their texts.

    The items are counted, because a file of some kilobytes may hold a list of millions of equal numbers.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(_list_bytes(part) for part in column.flatten())
    if pa.types.is_map(kind):
        begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()  # keys and items ignore a slice
        parts = [column.keys[begin:end], column.items[begin:end]]
    else:
        parts = [column.flatten()] if pa.types.is_nested(kind) else []
    return sum(len(part) * _value_bytes(part.type) + _list_bytes(part) for part in parts)


def _value_bytes(kind: pa.DataType) -> int:
    """Return the memory in bytes that one item of a list needs as a Python value. ``kind`` is the Arrow type of the
    item. Texts, and items of nested lists, are not counted.
    """
    if pa.types.is_struct(kind):
        return STRUCT_BYTES + sum(_value_bytes(kind.field(index).type) for index in range(kind.num_fields))
    return VALUE_BYTES


def _has_long(column: pa.Array) -> bool:
    return any(is_text and _computed("max", lengths) > MAX_CELL_BYTES for lengths, is_text in _lengths(column))


def _computed(function: str, lengths: pa.Array) -> int:
    """Return the result of pyarrow's aggregation ``function``, such as "max" or "sum", for the values ``lengths``.

    Returns 0 if all values are null.
    """
    return pc.call_function(function, [lengths]).as_py() or 0


def _lengths(column: pa.Array) -> Iterator[tuple[pa.Array, bool]]:
    """Yield, for each part of a column, the lengths of its values in bytes, and whether the values are texts.

    The parts are the column itself, or its subfields and the items of its lists. Parts whose values are neither texts
    nor bytes, such as numbers, are left out.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        for lengths, is_text in _lengths(column.dictionary):
            yield lengths.take(column.indices), is_text
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _lengths(part)
    elif pa.types.is_map(kind):
        begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()  # keys and items ignore a slice
        for part in (column.keys, column.items):
            yield from _lengths(part[begin:end])
    elif pa.types.is_nested(kind):
        yield from _lengths(column.flatten())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield pc.call_function("binary_length", [column]), True
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        yield pc.call_function("binary_length", [column]), False


def _decoded(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Return the batch with plain columns instead of dictionaries, and with the extension types of the file.

    A dictionary would be slow to convert to Python values. :func:`read_rows` reads each column without its extension
    type, such as UUID, so that all texts become dictionaries. Here the column gets this type back. ``types`` holds the
    types of the file's columns, by name.
    """
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        dense = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        kind = types[name]
        is_stored = isinstance(kind, pa.BaseExtensionType) and kind.storage_type == dense.type
        columns.append(kind.wrap_array(dense) if is_stored else dense)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
