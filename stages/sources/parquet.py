"""Reads Parquet: a file, a folder with Parquet files at any depth, or a pattern such as ``data/*.parquet``.

Each file is a source. Rows are numbered over all files. Media are bytes in the rows, or paths relative to the folder
that the user named.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.schemas.records import RawRecord
from groundtrace.stages.sources.base import (
    ANSWER_FIELDS,
    Format,
    Input,
    InputError,
    NothingHere,
    RowSettings,
    Source,
    is_run_folder,
    refuse_link_out,
)
from groundtrace.stages.sources.parquet_rows import read_rows
from groundtrace.stages.sources.rows import media_column, row_fields, row_records, shaped, shaped_rows
from groundtrace.stages.sources.shapes.base import OneRecordPerRow
from groundtrace.stages.sources.shapes.registry import SHAPES
from groundtrace.storage.places import Place, RemotePath, StorageError, StoreUnavailable, arrow_source, storage_of
from groundtrace.vision.media import MediaStore

READ_ROWS = 64
BATCH_ROWS = 16
_REMEDY = "write or download the file again, or remove it from the input"
_PATTERN_SIGNS = frozenset("*?[")


class Parquet(Format):
    """Implements the format of Parquet files, whose rows may contain media as bytes or name them by path."""

    name = "parquet"

    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """Find the Parquet files that ``path`` names, and return them as an input with one source for each file.

        ``path`` is a file, a folder or a pattern. ``rows`` holds the settings by which rows become records. Raises
        NothingHere if there is no Parquet file. Raises InputError in three cases: a file cannot be read as Parquet, a
        file of a folder or pattern is a link to a file outside the folder, or ``path`` is a run folder. To read the
        shards of a run, the user has to name a folder of shards inside the run folder.
        """
        if is_run_folder(path):
            raise InputError(
                f"{name} is a run folder: set --input to the input of this run, or to its Parquet files, such as "
                f"{name}/sft"
            )
        files, root = _files(path)
        if not files:
            raise NothingHere("no .parquet file")
        sources, first, digest, columns = [], 1, hashlib.sha256(), set[str]()
        for file in files:
            if file != path:
                refuse_link_out(file, root)
            with _naming(str(file)):
                metadata = pq.read_metadata(arrow_source(file))
            source = Source(self.name, str(file.resolve()), first, storage=storage_of(file))
            if SHAPES.named(rows.shape).is_expanding:
                records = sum(1 for _ in shaped(self.rows(source, rows), source, rows))
                source = replace(source, records=records)
            sources.append(source)
            first += metadata.num_rows if source.records is None else source.records
            columns.update(metadata.schema.to_arrow_schema().names)
            digest.update(_identity(file))
        given = path.parent.resolve() / path.name  # the path of a link and not of its target; or a pattern
        return Input(str(given), tuple(sources), str(root.resolve()), digest.hexdigest(), frozenset(columns))

    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """Yield one record for each row, or several if the shape (layout) of the rows gives several.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. Media
        that a row contains as bytes are written to ``store``.
        """
        return row_records(_rows(source.place, READ_ROWS), source, rows, store)

    def count(self, source: Source) -> int:
        """Return the number of records of a file. ``source`` is the part of the input to read.

        In some shapes (layouts of rows), a row can hold several records: for example, a conversation with several
        questions. In these shapes, :meth:`find` has counted the records, and this number is returned. In all other
        shapes, the result is the number of rows, which is read from the file's footer.
        """
        if source.records is not None:
            return source.records
        return pq.read_metadata(arrow_source(source.place)).num_rows

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """Yield the values of the media column. A medium that the row contains as bytes is yielded without these bytes.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        if rows.shape != OneRecordPerRow.name:
            for row in shaped_rows(self.rows(source, rows), source, rows):
                yield row.get("media")
            return
        with _naming(source.path), pq.ParquetFile(arrow_source(source.place)) as file:
            column = media_column(rows, file.schema_arrow.names)
            kept = [] if column is None else _without_bytes(file, column)
        if column is not None:
            yield from (row[column] for row in _rows(source.place, BATCH_ROWS, kept))

    def answers(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the fields about the answer of each record, as a mapping from field names to values.

        In the default shape (layout of rows), only the columns for the fields in :data:`ANSWER_FIELDS` (answer,
        choices, …) are read. If the file has none of these columns, nothing is yielded. In any other shape, a mapping
        also has the other fields of the record.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. The
        column map (``input.columns``) determines which columns hold these fields.
        """
        if rows.shape != OneRecordPerRow.name:
            for row in shaped_rows(self.rows(source, rows), source, rows):
                yield row_fields(row, rows)
            return
        with _naming(source.path), pq.ParquetFile(arrow_source(source.place)) as file:
            named = {rows.columns.get(name, name) for name in ANSWER_FIELDS} & set(file.schema_arrow.names)
        if named:
            yield from (row_fields(row, rows) for row in _rows(source.place, BATCH_ROWS, sorted(named)))

    def rows(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the rows. A medium that a row contains as bytes is yielded without these bytes.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        with _naming(source.path), pq.ParquetFile(arrow_source(source.place)) as file:
            kept = [part for name in file.schema_arrow.names for part in _without_bytes(file, name)]
        yield from _rows(source.place, BATCH_ROWS, kept)


PARQUET = Parquet()


def _files(path: Any) -> tuple[list[Any], Any]:
    """Return the Parquet files of a folder, file or pattern, and the folder in which they are searched for.

    Run folders (outputs of Groundtrace) inside that folder are skipped, because a run may be written into the folder of
    its input.
    """
    if path.is_file():
        return [path] if path.suffix == ".parquet" else [], path.parent
    if path.is_dir():
        root, found = path, sorted(path.rglob("*.parquet"))
    else:
        root = next(folder for folder in path.parents if folder.is_dir() or _PATTERN_SIGNS.isdisjoint(str(folder)))
        found = sorted(file for file in root.glob(str(path.relative_to(root))) if file.suffix == ".parquet")
    below = {folder for file in found for folder in file.parents} - {root, *root.parents}
    runs = {folder for folder in below if is_run_folder(folder)}
    return [file for file in found if file.is_file() and runs.isdisjoint(file.parents)], root


def _identity(file: Place) -> bytes:
    """Return a digest that identifies a file's content.

    For a file on a disk, the digest is the SHA-256 of the content. For a file on remote storage, the digest is made of
    the file's path, size and version, so that the content need not be downloaded.
    """
    if isinstance(file, RemotePath):
        stat = file.stat()
        return hashlib.sha256(f"{file}\0{stat.st_size}\0{stat.version}".encode()).digest()
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _rows(path: Place, batch_rows: int, columns: list[str] | None = None) -> Iterator[Mapping[str, Any]]:
    with _naming(str(path)), path.open("rb") as stream:
        yield from read_rows(stream, str(path), batch_rows, columns)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raise an InputError that names the file ``path`` if code in the ``with`` block cannot read the file as Parquet.

    The InputError replaces the error of the library, because the records of an unreadable file cannot be rejected one
    by one. Errors of remote storage (StorageError and StoreUnavailable) are not replaced.
    """
    try:
        yield
    except pa.ArrowException as error:
        raise InputError(f"{path} is not a Parquet file, or is damaged ({_line(error)}): {_REMEDY}") from error
    except (StorageError, StoreUnavailable):
        raise
    except OSError as error:  # the library raises it for pages that it cannot unpack
        reason = os.strerror(error.errno) if error.errno else _line(error)
        raise InputError(f"{path} cannot be read as Parquet ({reason}): {_REMEDY}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _without_bytes(file: pq.ParquetFile, column: str) -> list[str]:
    """Return the paths of the parts of a column that must be read if the bytes of media are not needed.

    These parts are all subfields of the column except ``bytes``. If the column has no subfields, or only the subfield
    ``bytes``, the result is the column itself.
    """
    if not pa.types.is_nested(file.schema_arrow.field(column).type):
        return [column]
    parts = [file.schema.column(index).path for index in range(len(file.schema))]
    kept = [part for part in parts if part.startswith(f"{column}.") and not part.endswith(".bytes")]
    return kept or [column]
