"""Tables in one text file: CSV with a header (also with ``;`` or tabs between cells), and a JSON array of objects.

Media are paths from the file's folder. A table is read whole: larger data is better kept as JSON Lines or Parquet.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from schemas.json_lines import BYTE_ORDER_MARK
from schemas.records import RawRecord
from stages.sources.base import Format, Input, InputError, NothingHere, RowSettings, Source
from stages.sources.jsonl import RECORDS_FILE, is_array, lines_fingerprint, refuse_other_files
from stages.sources.rows import media_column, row_fields, row_records
from vision.media import MediaStore

METADATA_FILE = "metadata.csv"
_SEPARATORS = ",;\t"
_LISTS = ("choices", "boxes", "media")
"""Fields whose cell may be a JSON list."""


class Tables(Format):
    """See the module."""

    name = "table"

    def find(self, name: str, path: Path, rows: RowSettings) -> Input:
        """The one file, or a folder's only one; ``metadata.csv`` is part of a folder that ``datasets`` reads.

        Raises InputError for rows that do not fit their header, and for a file that is not what its name says.
        """
        held = [file for file in path.glob("*.csv") if file.name != METADATA_FILE] if path.is_dir() else []
        if len(held) == 1 and not (path / RECORDS_FILE).exists():
            [path] = held
        if not path.is_file() or not (path.suffix == ".csv" or (path.suffix == ".json" and is_array(path))):
            raise NothingHere("no .csv file")
        refuse_other_files(path, "a table")
        data = path.read_bytes()
        found = _rows(str(path), data)
        folder = path.parent.resolve()  # not that of the file's target: snapshots from the hub are folders of links
        columns = frozenset(name for row in found for name in row)
        source = Source(self.name, str(folder / path.name), records=len(found))
        return Input(name, (source,), str(folder), lines_fingerprint(io.BytesIO(data)), columns)

    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """One record for each row."""
        with FileSystems.open(source.path) as stream:
            found = _rows(source.path, stream.read())
        return row_records((_with_lists(row, rows) for row in found), source, rows, store)

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """The media column."""
        for row in _rows(source.path, Path(source.path).read_bytes()):
            column = media_column(rows, row)
            if column is not None and row[column] is not None:
                yield _with_lists(row, rows)[column]

    def answers(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """The columns that hold them."""
        for row in _rows(source.path, Path(source.path).read_bytes()):
            yield row_fields(_with_lists(row, rows), rows)


def _rows(path: str, data: bytes) -> list[dict[str, Any]]:
    try:
        text = data.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        remedy = "save it as UTF-8 (in Excel: CSV UTF-8)"
        raise InputError(f"{path} is not UTF-8 text (at byte {error.start}): {remedy}") from error
    return _objects(path, text) if path.endswith(".json") else _cells(path, text)


def _objects(path: str, text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}: correct it there") from error
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict):
            raise InputError(f'{path}: entry {number} of its array is not an object such as {{"question": …}}')
    return found


def _cells(path: str, text: str) -> list[dict[str, Any]]:
    """The rows below the header; an empty cell is None."""
    first_line = text.lstrip("\r\n").partition("\n")[0]
    separator = max(_SEPARATORS, key=first_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] = []
    found: list[dict[str, Any]] = []
    try:
        for cells in reader:
            if not any(cells):
                continue
            if not header:
                header = [name.strip() for name in cells]
                if twice := next((name for name in header if name and header.count(name) > 1), ""):
                    raise InputError(f"{path}: two columns are named {twice}: rename one")
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells below a header of {len(header)}: "
                    f'put a cell that holds {separator!r} in "double quotes"'
                )
            found.append({name: cell or None for name, cell in zip(header, cells, strict=True) if name})
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}, cannot be read as CSV ({error}): correct it there"
        ) from error
    return found


def _with_lists(row: Mapping[str, Any], rows: RowSettings) -> dict[str, Any]:
    """The row with the cells that are JSON lists made lists, where a field may be one."""
    columns = {rows.columns.get(name, name) for name in _LISTS} | {media_column(rows, row)}
    return {name: _as_list(cell) if name in columns else cell for name, cell in row.items()}


def _as_list(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith("["):
        return cell
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return cell  # such as a file name; what is no list where one must be is a bad record
    return found if isinstance(found, list) else cell
