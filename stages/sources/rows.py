"""Converts the rows of an input to records.

The settings in ``[input]`` give the shape (the layout of the rows), the column map (which column holds which field) and
the constants (values of fields that the input lacks). This module applies them and generates missing ids. Media that
rows contain as bytes are written once to the run folder, and records refer to these files. Media given by path are not
copied.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from groundtrace.grading.input_record import medium_name
from groundtrace.schemas.columns import Column, Value, as_json
from groundtrace.schemas.records import Origin, RawRecord
from groundtrace.schemas.text import excerpt, storable
from groundtrace.stages.sources.base import FIELDS, RowSettings, Source
from groundtrace.stages.sources.options import with_named_choice, with_options
from groundtrace.stages.sources.shapes.base import BadRow, Row
from groundtrace.stages.sources.shapes.registry import SHAPES
from groundtrace.vision.media import MediaStore

MEDIA_COLUMNS = ("media", "images", "image")
"""The columns in which the media of a row are searched for, if no column is named."""
_PLAIN_SUFFIX = re.compile(r"[a-z0-9]{1,8}")
_PROBLEM = "problem of the row"
"""A key that no column of an input can have. Its value is the reason why the row could not be read."""


def row_records(
    found: Iterable[Row | str], source: Source, rows: RowSettings, store: MediaStore
) -> Iterator[RawRecord]:
    """Convert the rows of a source to records, as :func:`placed_records` does. ``found`` yields all rows of the source
    in order, without their places. The place of a row in the source is its number, such as "row 12". Media that rows
    contain as bytes are written to ``store``.
    """
    return placed_records(((f"row {number}", row) for number, row in enumerate(found, 1)), source, rows, store)


def placed_records(
    found: Iterable[tuple[str, Row | str]], source: Source, rows: RowSettings, store: MediaStore
) -> Iterator[RawRecord]:
    """Convert the rows of a source to records, and yield the records, numbered from ``source.first_number``.

    ``source`` is the part of the input to which the rows belong, such as a file.

    ``found`` yields each row with its place in the source, such as "line 12". A row is a mapping from column names to
    values. A line of a JSON Lines file that is not a JSON object is yielded as its text; the later validation of its
    record reports the fault. ``rows`` holds the settings by which rows become records. Media that rows contain as bytes
    are written to ``store``. If ``source.only`` is not None, it holds record numbers. Records with other numbers are
    left out, and their media are not written.
    """
    embedded, convert, name = _Embedded(store), _converter(source, rows), source.name
    converted = ((place, row) for place, each in found for row in convert(each))
    for number, (place, row) in enumerate(converted, source.first_number):
        if source.only is not None and number not in source.only:
            continue
        input_row = f"{name}, {place}"
        if isinstance(row, str):
            yield RawRecord(number, row, materialised=True, origin=Origin(input_row=input_row))
        else:
            yield _as_record(number, row, rows, embedded, input_row)


def shaped(found: Iterable[Row | str], source: Source, rows: RowSettings) -> Iterator[Row | str]:
    """Convert each row of the input by the shape (the layout of the rows), and yield the resulting rows, one for each
    record.

    For example, a row with a conversation becomes one row for each question in it. ``source`` is the part of the input
    to which the rows belong, such as a file.

    ``found`` yields each row as a mapping from column names to values. For a line of a JSON Lines file that is not a
    JSON object, ``found`` yields the text of the line instead, and this function yields the text unchanged. ``rows``
    holds the settings, which name the layout. A row that does not have the configured layout becomes one row with its
    id, the columns that the config keeps, and the reason why its layout is wrong.
    """
    convert = _converter(source, rows)
    for row in found:
        yield from convert(row)


def _converter(source: Source, rows: RowSettings) -> Callable[[Row | str], Iterable[Row | str]]:
    """Return the function with which :func:`shaped` converts one row of ``source`` to rows with one record each."""
    id_column = rows.columns.get("id", "id")
    read = SHAPES.named(rows.shape).reader(rows, source.folder, id_column)

    def convert(row: Row | str) -> Iterable[Row | str]:
        if isinstance(row, str):
            return (row,)
        try:
            return list(read(row))
        except BadRow as error:
            kept = {name: row[name] for name in rows.keep if name in row}
            return (kept | {id_column: row.get(id_column), _PROBLEM: str(error)},)

    return convert


def shaped_rows(found: Iterable[Row], source: Source, rows: RowSettings) -> Iterator[Row]:
    """Convert each row of the input by the shape (the layout of the rows), and yield the resulting rows, one for each
    record. Unusable rows are left out.

    A row is unusable if it is not an object or does not have the configured layout. ``found`` yields the rows,
    ``source`` is the part of the input to which they belong, and ``rows`` holds the settings, which name the layout.
    """
    return (row for row in shaped(found, source, rows) if not isinstance(row, str) and _PROBLEM not in row)


def row_fields(row: Row, rows: RowSettings) -> dict[str, Any]:
    """Return a record's fields, such as question and answer, from the columns of its row.

    ``row`` maps column names to values, and ``rows`` holds the settings. The column map (``input.columns``) names the
    column of each field. A field without a value is taken from the constants of the config. If the setting
    ``choices_in_text`` is on, options in the question become the choices. If the setting ``answer_is`` is not "text",
    an answer that names a choice by letter or position is replaced by this choice.
    """
    found = {name: row.get(rows.columns.get(name, name)) for name in FIELDS}
    fields = dict(rows.constants) | {name: value for name, value in found.items() if value is not None}
    if rows.choices_in_text:
        fields = with_options(fields)
    return with_named_choice(fields, rows.answer_is)


def kept_values(row: Row, rows: RowSettings) -> tuple[Value, ...]:
    """Return the values of a row that are copied to the output, as texts. Nulls are left out.

    The setting ``keep`` of ``rows`` lists the columns of the input that are copied. Lists, mappings, numbers and
    booleans become JSON.
    """
    found = ((name, row.get(name)) for name in rows.keep)
    return tuple(Value(name, as_json(_kept_text(value))) for name, value in found if value is not None)


def kept_columns(names: Sequence[str]) -> tuple[Column[str], ...]:
    """Return the columns to add to the shards (files of rows) for those columns of the input that the config keeps.

    ``names`` are the names of these columns of the input (the setting ``keep``).
    """
    return tuple(Column(name, pa.string(), f"the input's column {name}, as text") for name in names)


def _kept_text(value: object) -> str:
    is_json = isinstance(value, Mapping | list | tuple | bool | int | float)  # not dates and decimals: they are texts
    return storable(json.dumps(value, ensure_ascii=False, default=_as_text) if is_json else _as_text(value))


def media_column(rows: RowSettings, columns: Iterable[str]) -> str | None:
    """Return the name of the column that holds a row's media. Returns None if there is no such column.

    ``columns`` are the names of the row's columns, and ``rows`` holds the settings, whose column map
    (``input.columns``) may name the column.
    """
    known = set(columns)
    named, *others = MEDIA_COLUMNS
    return next((name for name in (rows.columns.get(named, named), *others) if name in known), None)


class _Embedded:
    """Writes the media that rows contain as bytes to the run folder.

    In VLMEvalKit's layout of rows, a row may hold the index of an earlier row instead of an image, and then uses that
    row's image. For this purpose, ``_uris`` maps the index of each row with an image to the URI of the written image.
    The mapping needs about 150 bytes for each of these rows. For other layouts it is empty.
    """

    def __init__(self, store: MediaStore) -> None:
        self._store = store
        self._uris: dict[str, str] = {}

    def uri(self, item: Any, media_folder: str) -> Any:
        """Return the URI of a row's medium. ``item`` is the medium as the row gives it:

        - A path: the result is the URI of a file of the input. A relative path starts from ``media_folder``.
        - Bytes, also in base64: they are written to a file in the run folder, and the result is the URI of this file.
        - A reference to the image of an earlier row: the result is the URI of this image.
        - Any other value: it is returned unchanged, and the record's validation rejects it.

        Raises :class:`BadRow` for invalid base64, and for a reference to a row that has no image.
        """
        if isinstance(item, str):
            return _input_uri(item, media_folder)
        if isinstance(item, bytes):
            return self._store.write_drawn(item, "bin")
        if not isinstance(item, Mapping):
            return item
        if "base64" in item:
            uri = self._store.write_drawn(_decoded(item["base64"]), "bin")
            self._uris[item.get("name", "")] = uri
            return uri
        if "same_as" in item:
            if item["same_as"] not in self._uris:
                raise BadRow(
                    f"image: {excerpt(item['same_as'])} is neither base64 nor the index of an earlier row with an image"
                )
            return self._uris[item["same_as"]]
        data, path = item.get("bytes"), item.get("path")
        if isinstance(data, bytes):
            return self._store.write_drawn(data, _extension(path if isinstance(path, str) else ""))
        if data is None and isinstance(path, str):
            return _input_uri(path, media_folder)
        return item


def _as_record(number: int, row: Row, rows: RowSettings, embedded: _Embedded, input_row: str) -> RawRecord:
    fields, problem = row_fields(row, rows), str(row.get(_PROBLEM, ""))
    if "media" not in fields:
        fields["media"] = row.get("images") or row.get("image")
    media = fields["media"] if isinstance(fields["media"], list) else [fields["media"]]
    names = tuple(_name_of(item) for item in media if item is not None)
    if rows.file_ids:
        fields["id"] = PurePosixPath(names[0] if names else "").stem
    elif rows.number_ids or ("id" not in fields and "id" not in rows.columns):
        fields["id"] = f"row-{number}"
    try:
        fields["media"] = [embedded.uri(item, rows.media_folder) for item in media]
    except BadRow as error:
        fields["media"], problem = None, str(error)
    text = storable(json.dumps(fields, ensure_ascii=False, default=_as_text))
    origin = Origin(names, kept_values(row, rows), input_row)
    return RawRecord(number, text, materialised=True, problem=storable(problem), origin=origin)


def _name_of(medium: object) -> str:
    """Return the name of a medium in the input, such as its relative path; "" if the medium has no name.

    The name is safe to publish (:func:`groundtrace.grading.input_record.medium_name`).
    """
    if isinstance(medium, Mapping):
        medium = medium.get("path") or medium.get("name") or medium.get("same_as")
    return medium_name(medium)


def _as_text(value: object) -> str:
    """Return a value as text. The value is a text, or has a type that JSON does not have, such as a date or bytes.

    Bytes are decoded as UTF-8, because binary columns often hold UTF-8 text. Bytes that are not UTF-8 become lone
    surrogates, as in JSON Lines, and the record's validation rejects a text with lone surrogates.
    """
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _input_uri(path: str, media_folder: str) -> str:
    """Return the URI of a file of the input.

    ``path`` is the path of the file. A relative path starts from ``media_folder`` if this is not "". An absolute path
    stays absolute, and the check of the record's media refuses it.
    """
    return f"input:{PurePosixPath(media_folder, path)}" if media_folder else f"input:{path}"


def _decoded(text: Any) -> bytes:
    """Decode a cell in base64, which may be a data URL and may contain line ends. Raises BadRow for other text."""
    written = text if isinstance(text, str) else ""
    if written.startswith("data:"):
        written = written.partition(",")[2]
    try:
        return base64.b64decode(re.sub(r"\s+", "", written), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRow(f"image: the {len(written)} characters are not base64 ({error}): {excerpt(written)}") from error


def _extension(path: str) -> str:
    suffix = PurePosixPath(path).suffix.lstrip(".").lower()
    return suffix if _PLAIN_SUFFIX.fullmatch(suffix) else "bin"
