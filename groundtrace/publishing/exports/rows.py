"""Reads the rows of a side (sft or rl) from the shards, in order and in small batches."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target, Turn
from groundtrace.publishing.exports.errors import ExportError, LeftOut
from groundtrace.publishing.exports.images import upright_image
from groundtrace.publishing.exports.streams import by_stream
from groundtrace.publishing.exports.tools import tool_turns
from groundtrace.publishing.exports.turns import check_marks, has_tags, spoken, turns_of
from groundtrace.publishing.reading import one_line
from groundtrace.schemas.arrow import added_columns
from groundtrace.schemas.run_summary import RunSummary

TURNS = {"sft": "messages", "rl": "prompt"}
"""The column that holds the turns of each side's rows."""
BATCH_ROWS = 16
READ_BYTES = 1_000_000
TEXT_BATCH_ROWS = 1000


def shards_of(run: Path, side: str) -> list[Path]:
    """Return the shards of a side in order."""
    return sorted((run / side).glob("*.parquet"))


def count_rows(run: Path, side: str, summary: RunSummary) -> int:
    """Return the number of rows in the shards of a side. The number is read from the shards' footers.

    Raises ExportError for a shard that cannot be read, and if ``run.json`` holds another number.
    """
    rows = sum(_footer(file).num_rows for file in shards_of(run, side))
    if rows != summary.counts.rows(side):
        expected = summary.counts.rows(side)
        raise ExportError(f"{run / side} has {rows} rows, but the number in run.json is {expected}: repeat the run")
    return rows


def read_rows(run: Path, side: str, form: ExportFormat) -> Iterator[dict[str, Any]]:
    """Yield the rows of a side with the columns that the format reads. Raises ExportError for a damaged shard."""
    for file in shards_of(run, side):
        schema = _footer(file).schema.to_arrow_schema()
        _check_columns(file, schema, side)
        unread = {*form.unread}
        if form.is_for_training:
            unread |= {column.name for column in added_columns(schema) if not column.for_training}
        names = [name for name in schema.names if name not in unread]
        yield from _rows(file, names, BATCH_ROWS)


def _check_columns(file: Path, schema: pa.Schema, side: str) -> None:
    """Raise ExportError if the column of images or turns is missing or has another type than a run writes."""
    for column, names in (("images", {"bytes"}), (TURNS[side], {"role", "content"})):
        kind = schema.field(column).type if column in schema.names else pa.null()
        held = kind.value_type if pa.types.is_list(kind) else pa.null()
        if not (pa.types.is_struct(held) and names <= {part.name for part in held}):
            raise ExportError(
                f"{file} has no column {column}, or its type is wrong: repeat the run (its replies are cached)"
            )


def any_tags(run: Path, side: str, columns: Sequence[str]) -> bool:
    """Return whether any row of the side contains points or boxes, or requests them.

    ``columns`` are the columns to search. They hold turns or traces.
    """
    for file in shards_of(run, side):
        present = [name for name in columns if name in _footer(file).schema.to_arrow_schema().names]
        for row in _rows(file, present, TEXT_BATCH_ROWS):
            entries = [entry for column in present for entry in row[column] or ()]
            if any(has_tags(entry.get("content") or entry.get("text")) for entry in entries):
                return True
    return False


def ready_rows(
    fields: dict[str, Any], side: str, number: int, form: ExportFormat, target: Target
) -> tuple[ExportRow, ...]:
    """Return a row of the shards as export rows: one row, or one row for each of its streams.

    ``fields`` holds the columns of the row, and ``number`` is its index in the side. Raises LeftOut if the row cannot
    be exported. For a row with streams, LeftOut is also raised if its reference cannot be made. The reason is that rows
    of streams are written in pairs (:class:`groundtrace.publishing.exports.sides.Side`), so no row of a pair may fail
    later.
    """
    images = tuple(upright_image(image["bytes"] or b"") for image in fields.pop("images") or ())
    row = ExportRow(side, number, fields, turns_of(fields, TURNS[side]), images)
    rows = by_stream(row) if side == "rl" else (row,)
    for each in rows:
        check_marks(each.turns, len(images), is_strict=not form.marks_are_text)
        if each.stream:
            each.reference(target)
    try:
        return tuple(replace(each, turns=_rendered(each, target)) for each in rows)
    except LeftOut as error:
        raise LeftOut(error.reason, f"{TURNS[side]}: {error.detail}") from error


def _rendered(row: ExportRow, target: Target) -> tuple[Turn, ...]:
    turns = spoken(row.turns, row.sizes, target.speech)
    return tool_turns(turns) if target.has_tools else turns


def _footer(file: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from error


def _rows(file: Path, columns: Sequence[str], batch_rows: int) -> Iterator[dict[str, Any]]:
    try:
        # With the default pre_buffer=True, the whole file would be read before the first rows are returned.
        with pq.ParquetFile(file, buffer_size=READ_BYTES, pre_buffer=False) as shard:
            for batch in shard.iter_batches(batch_rows, columns=list(columns), use_threads=False):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> ExportError:
    return ExportError(f"cannot read {file} ({one_line(error)}): repeat the run (its replies are cached)")
