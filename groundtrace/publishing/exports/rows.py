"""Reads the rows of a training set (sft or rl) from the shards of a run, in order and in small batches."""

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
from groundtrace.schemas.run_files import shards_of
from groundtrace.schemas.run_summary import RunSummary

TURNS = {"sft": "messages", "rl": "prompt"}
"""The name of the column that holds the conversation, for each training set."""
BATCH_ROWS = 2
"""The number of rows that are read at a time with their images. Each row may have images of a hundred megabytes."""
READ_BYTES = 1_000_000
TEXT_BATCH_ROWS = 1000


def count_rows(run: Path, side: str, summary: RunSummary) -> int:
    """Return the number of rows of a training set. ``side`` is sft or rl, and ``run`` is the run folder.

    The number is read from the metadata of the shards (Parquet files). ``summary`` is the content of ``run.json``.
    Raises ExportError for a shard that cannot be read, and if ``run.json`` states another number of rows.
    """
    rows = sum(_footer(file).num_rows for file in shards_of(run, side))
    if rows != summary.counts.rows(side):
        expected = summary.counts.rows(side)
        raise ExportError(f"{run / side} has {rows} rows, but the number in run.json is {expected}: repeat the run")
    return rows


def read_rows(run: Path, side: str, form: ExportFormat) -> Iterator[dict[str, Any]]:
    """Yield the rows of a training set as dictionaries, with the columns that an export format uses.

    ``run`` is the run folder, ``side`` is sft or rl, and ``form`` is the export format. Raises ExportError for a
    damaged shard (Parquet file of the run).
    """
    for file in shards_of(run, side):
        schema = _footer(file).schema.to_arrow_schema()
        _check_columns(file, schema, side)
        unread = {*form.unread}
        if form.is_for_training:
            unread |= {column.name for column in added_columns(schema) if not column.for_training}
        names = [name for name in schema.names if name not in unread]
        yield from _rows(file, names, BATCH_ROWS)


def _check_columns(file: Path, schema: pa.Schema, side: str) -> None:
    """Raise ExportError if the column of images or of conversations is missing, or has a wrong type.

    ``file`` is the path of a shard (Parquet file of a run), and ``schema`` is the schema of the file. ``side`` is sft
    or rl.
    """
    for column, names in (("images", {"bytes"}), (TURNS[side], {"role", "content"})):
        kind = schema.field(column).type if column in schema.names else pa.null()
        held = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else pa.null()
        if not (pa.types.is_struct(held) and names <= {part.name for part in held}):
            raise ExportError(
                f"the column {column} of {file} is missing or has the wrong type: repeat the run (the models' replies "
                "are cached)"
            )


def any_tags(run: Path, side: str, columns: Sequence[str]) -> bool:
    """Return whether a text in a training set contains tags of points or boxes, such as ``<point …>`` or ``<box>``.

    A prompt contains such a tag if it asks the model to write points or boxes. ``run`` is the run folder, and ``side``
    is sft or rl. ``columns`` are the names of the columns to search. Each column holds turns of conversations, or
    traces (a teacher's reasoning with its answer).
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
    """Prepare a row of a shard (Parquet file of the run) for an export format.

    An RL row with streams (prompts for the same question) becomes one export row for each stream. Any other row becomes
    one export row. ``fields`` holds the columns of the row. ``side`` is its training set (sft or rl), and ``number`` is
    its index there. ``form`` is the export format, and ``target`` describes the model to be trained. Raises LeftOut if
    the row cannot be exported. A row with streams must have an id and a gold answer, because its reference (the text by
    which a reward finds the row) needs both. Both are checked before anything is written, because the rows of all
    streams must be written or left out together.
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
    """Return the row's turns with coordinates in the form that the model to be trained uses.

    If the target asks for tool calls, the code in the turns is also converted to tool calls.
    """
    turns = spoken(row.turns, row.sizes, target.speech)
    return tool_turns(turns) if target.has_tools else turns


def _footer(file: Path) -> pq.FileMetaData:
    """Return the metadata at the end of a Parquet file. Raises ExportError if the file cannot be read."""
    try:
        return pq.read_metadata(file)
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise _damaged(file, error) from error


def _rows(file: Path, columns: Sequence[str], batch_rows: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a shard (Parquet file) as dictionaries with the given ``columns``. At most ``batch_rows`` rows
    are read at the same time. Raises ExportError if the file cannot be read.
    """
    try:
        # With the default pre_buffer=True, the whole file would be read before the first rows are returned.
        with pq.ParquetFile(file, buffer_size=READ_BYTES, pre_buffer=False) as shard:
            for batch in shard.iter_batches(batch_rows, columns=list(columns), use_threads=False):
                yield from batch.to_pylist()
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> ExportError:
    return ExportError(f"cannot read {file} ({one_line(error)}): repeat the run (its replies are cached)")
