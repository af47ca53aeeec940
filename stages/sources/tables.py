"""Reads a table from one text file, which is CSV or TSV with a header, or a JSON array of objects.

The cells of CSV are separated by ``,``, ``;`` or tabs. Media are paths relative to the file's folder. A table is read
completely once before a run, so that its faults are reported before the run starts.
"""

import codecs
import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TextIO

from groundtrace.schemas.json_lines import MAX_LINE_BYTES
from groundtrace.schemas.records import RawRecord
from groundtrace.stages.sources.base import (
    Format,
    Input,
    InputError,
    NothingHere,
    RowSettings,
    Source,
    refuse_link_out,
)
from groundtrace.stages.sources.json_arrays import CHUNK_CHARS, NotAnArray, array_entries
from groundtrace.stages.sources.jsonl import RECORDS_FILE, is_array, lines_fingerprint, refuse_other_files
from groundtrace.stages.sources.rows import media_column, placed_records, row_fields, shaped, shaped_rows
from groundtrace.stages.sources.shapes.registry import SHAPES
from groundtrace.storage.places import Place, storage_of
from groundtrace.vision.media import MediaStore

METADATA_FILE = "metadata.csv"
_CELL_FILES = (".csv", ".tsv")
MAX_COLUMNS = 10_000
MAX_CELL_CHARS = 2**24
"""The maximum length of a cell. Without this limit, an unclosed quote would turn the rest of the file into one cell."""
csv.field_size_limit(MAX_CELL_CHARS)
MAX_ROW_CHARS = 2**27
"""The maximum length of a row. A row has several lines if its cells hold line ends, so a limit for each line does not
limit the row.
"""
_SEPARATORS = ",;\t"
_QUOTED = re.compile(r'"[^"]*"?')
_LISTS = ("choices", "boxes", "media")
"""The fields whose cells may hold a JSON list."""


class Tables(Format):
    """Implements the format of CSV files, TSV files and JSON arrays. Each file is read as one table."""

    name = "table"

    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """Return the file ``path``, or the only CSV or TSV file of the folder ``path``, as an input.

        ``name`` is the input as the user typed it, and ``path`` is a path object for the same input. ``rows`` holds the
        settings by which rows become records. A file ``metadata.csv`` in a folder does not count as a table, because it
        describes the images of the folder for the library ``datasets``.

        ``path`` must be a file or a folder. The file must be CSV, TSV or a JSON array. The folder must have exactly one
        CSV or TSV file, and no ``records.jsonl``. Raises NothingHere for any other ``path``. Raises InputError if rows
        do not fit the header, if the file's content does not fit its name, or if the file of a folder is a link to a
        file outside the folder.
        """
        held = [file for end in _CELL_FILES for file in path.glob(f"*{end}") if file.name != METADATA_FILE]
        if len(held) == 1 and not (path / RECORDS_FILE).exists():
            refuse_link_out(held[0], path)
            [path] = held
        if not path.is_file() or not (path.suffix in _CELL_FILES or (path.suffix == ".json" and is_array(path))):
            raise NothingHere("no .csv or .tsv file")
        refuse_other_files(path, "a table")
        names = Counter(name for _, row in _rows(path) for name in (None, *row))
        records, columns = names.pop(None, 0), {name for name in names if name is not None}
        folder = path.parent.resolve()  # the folder of a link, not of its target: files of the Hub are links
        file = folder / path.name
        source = Source(self.name, str(file), storage=storage_of(path))
        if SHAPES.named(rows.shape).is_expanding:
            records = sum(1 for _ in shaped((row for _, row in _lists(file, rows)), source, rows))
        with path.open("rb") as stream:
            fingerprint = lines_fingerprint(stream)
        source = replace(source, records=records)
        return Input(str(file), (source,), str(folder), fingerprint, frozenset(columns))

    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """Yield one record for each row, or several if the shape (layout) of the rows gives several.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. Media
        that a row contains as bytes are written to ``store``.
        """
        return placed_records(_lists(source.place, rows), source, rows, store)

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """Yield the values of the media column, one for each row. Empty cells are left out.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        for row in shaped_rows((row for _, row in _lists(source.place, rows)), source, rows):
            column = media_column(rows, row)
            if column is not None and row[column] is not None:
                yield row[column]

    def answers(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the fields of each record, such as question and answer, by name.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. The
        column map (``input.columns``) names the columns of the fields.
        """
        for row in shaped_rows((row for _, row in _lists(source.place, rows)), source, rows):
            yield row_fields(row, rows)

    def rows(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the file as mappings from column names to cells. A cell with a JSON list is converted to a
        list.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        for _, row in _rows(source.place):
            yield {name: _as_list(cell) for name, cell in row.items()}


TABLES = Tables()


def _lists(path: Place, rows: RowSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((place, _with_lists(row, rows)) for place, row in _rows(path))


def _rows(path: Place) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of the file ``path``, each with its place, such as "line 12" of a CSV file or "entry 5" of a JSON
    array.

    Only a few rows are in memory at a time. Raises InputError at the first invalid row.
    """
    with path.open(encoding="utf-8-sig", newline="") as text:
        try:
            if path.suffix == ".json":
                yield from ((f"entry {number}", entry) for number, entry in enumerate(array_entries(text), 1))
            else:
                yield from _cells(str(path), text)
        except NotAnArray as error:
            raise InputError(f"{path} is not a JSON array of objects ({error}): correct the file") from error
        except UnicodeDecodeError as error:
            remedy = "save it as UTF-8 (in Excel: CSV UTF-8)"
            raise InputError(f"{path} is not UTF-8 text (at byte {_first_odd_byte(path)}): {remedy}") from error


def _first_odd_byte(path: Place) -> int:
    """Return the offset of the first byte of the file ``path`` that is not UTF-8, for an error message.

    Special case: if the last character of the file is incomplete, the result is the file's length.
    """
    decoder, passed = codecs.getincrementaldecoder("utf-8")(), 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_CHARS):
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                return passed - held + error.start
            passed += len(chunk)
    return passed


def _cells(path: str, text: TextIO) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a CSV or TSV file, each with the number of its first line, such as "line 12".

    ``text`` is the opened file, and ``path`` is its path. A row maps the names in the header to the cells. An empty
    cell is None.

    Blank rows, and columns without a name, are left out. Raises InputError for a row that does not fit the header, for
    a line of more than :data:`MAX_LINE_BYTES` characters, and for a row of more than :data:`MAX_ROW_CHARS` characters,
    which might fill the memory.
    """
    lines, skipped, line = _RowLines(text), 0, ""
    number = 0
    header: list[str] = []
    try:
        for line in lines:
            if line.strip():
                break
            number = skipped = skipped + 1
        separator = "\t" if path.endswith(".tsv") else _separator(line)
        reader = csv.reader(itertools.chain([line], lines), delimiter=separator, strict=True)
        for cells in reader:
            lines.row_chars = 0
            first, number = number + 1, skipped + reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if header:
                _check_length(f"{path}, line {number}", cells, header, separator)
                yield f"line {first}", {name: cell or None for name, cell in zip(header, cells, strict=True) if name}
            else:
                header = _header(path, cells)
    except csv.Error as error:
        raise InputError(f"{path}, line {number + 1}, cannot be read as CSV ({error}): correct this line") from error


class _RowLines:
    """Iterates over the lines of a file. The caller sets ``row_chars``, the length of the current row, to 0 after each
    row.

    Raises csv.Error if a line is longer than :data:`MAX_LINE_BYTES`, or a row longer than :data:`MAX_ROW_CHARS`. The
    file is read as text, so lengths are counted in characters here, and not in bytes.
    """

    def __init__(self, text: TextIO) -> None:
        self.row_chars = 0
        self._lines = iter(partial(text.readline, MAX_LINE_BYTES + 1), "")

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.row_chars += len(line)
        if len(line) > MAX_LINE_BYTES:
            raise csv.Error(f"the line has more than {MAX_LINE_BYTES} characters")
        if self.row_chars > MAX_ROW_CHARS:
            raise csv.Error(f"the row has more than {MAX_ROW_CHARS} characters")
        return line


def _separator(first_line: str) -> str:
    """Return the separator of a CSV file: the most frequent one of ``,``, ``;`` and tab in its header.

    ``first_line`` is the header. Separators in quotes are not counted.
    """
    return max(_SEPARATORS, key=_QUOTED.sub("", first_line).count)


def _header(path: str, cells: Sequence[str]) -> list[str]:
    header = [name.strip() for name in cells]
    if len(header) > MAX_COLUMNS:
        raise InputError(f"{path} has {len(header)} columns, but at most {MAX_COLUMNS} are read: remove some of them")
    counts = Counter(header)
    if twice := next((name for name in header if name and counts[name] > 1), ""):
        raise InputError(f"{path}: two columns have the name '{twice}': rename one of them")
    return header


def _check_length(where: str, cells: Sequence[str], header: Sequence[str], separator: str) -> None:
    if len(cells) == len(header):
        return
    remedy = f'put a cell that holds {separator!r} in "double quotes"'
    if len(cells) < len(header):
        remedy = f"write a {separator!r} for each missing cell, or remove the line"
    raise InputError(f"{where}: the row has {len(cells)} cells, but the header has {len(header)}: {remedy}")


def _with_lists(row: Mapping[str, Any], rows: RowSettings) -> dict[str, Any]:
    """Return a copy of the row in which cells with a JSON list are converted to lists.

    Only these columns are converted: the columns of the fields choices, boxes and media, and the ``list_columns`` of
    the shape (layout of rows). ``rows`` holds the settings, which name the shape and the columns of the fields.
    """
    columns = {rows.columns.get(name, name) for name in _LISTS} | {media_column(rows, row)}
    columns |= SHAPES.named(rows.shape).list_columns
    return {name: _as_list(cell) if name in columns else cell for name, cell in row.items()}


def _as_list(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith("["):
        return cell
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return cell  # such as a file name; a missing list makes a bad record
    return found if isinstance(found, list) else cell
