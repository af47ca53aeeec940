"""Reads JSON Lines: a folder with ``records.jsonl``, or a .jsonl or .json file with one record on each line.

Media are paths relative to the file's folder. An invalid line is passed on unchanged. The later validation of records
then reports the fault.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import IO, Any

from groundtrace.schemas.json_lines import (
    BYTE_ORDER_MARK,
    NotAnObject,
    bounded_lines,
    parse_object,
    read_lines,
    read_objects,
)
from groundtrace.schemas.records import Origin, RawRecord
from groundtrace.stages.sources.base import (
    OPTIONAL_FIELDS,
    Format,
    Input,
    InputError,
    NothingHere,
    RowSettings,
    Source,
    refuse_link_out,
)
from groundtrace.stages.sources.rows import kept_values, placed_records, row_fields, shaped, shaped_rows
from groundtrace.stages.sources.shapes.base import OneRecordPerRow
from groundtrace.stages.sources.shapes.registry import SHAPES
from groundtrace.storage.places import Place, StorageError, StoreUnavailable, storage_of
from groundtrace.vision.media import MediaStore

RECORDS_FILE = "records.jsonl"
MAX_LINES_FOR_KEYS = 1000
PIECE_BYTES = 2**20
HEAD_BYTES = 200
_COCO = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:info|images|annotations|categories|licenses)"\s*:\s*[\[{]')
_UTF_16 = ("in UTF-16 or UTF-32, or is not a text file", "convert UTF-16 with `iconv -f UTF-16 -t UTF-8`")
_OTHER_FILES = (
    (b"\x1f\x8b", "packed with gzip", "unpack it with `gunzip` first"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "unpack it with `unzstd` first"),
    (b"\xfd7zX", "packed with xz", "unpack it with `unxz` first"),
    (b"BZh", "packed with bzip2", "unpack it with `bunzip2` first"),
    (b"PK\x03\x04", "a zip archive", "unpack it with `unzip` first"),
    (b"PAR1", "a Parquet file", "name it .parquet"),
    (b"\xff\xfe", *_UTF_16),
    (b"\xfe\xff", *_UTF_16),
)
"""The first bytes of files of other kinds, each with the kind of file and the remedy."""


class JsonLines(Format):
    """Implements the format of JSON Lines files, which have one record on each line.

    A record's number is the number of its line in the file. Blank lines are not records, but they are counted, too.
    There is one exception: if the lines must be converted like the rows of a table (:func:`_are_rows`), the records are
    numbered in their order, and blank lines are not counted.
    """

    name = "jsonl"

    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """Return the file ``path``, or the file ``records.jsonl`` of the folder ``path``, as an input.

        ``name`` is the input as the user typed it, and ``path`` is the same as a path. ``rows`` holds the settings by
        which rows become records. The name of the input is the file, or the folder if ``path`` is a folder. ``path``
        must be a file with the ending ``.jsonl`` or ``.json``, or a folder with ``records.jsonl``. Raises NothingHere
        for any other ``path``. Raises InputError if ``records.jsonl`` is a link to a file outside the folder. Also
        raises InputError if the content of the file is not JSON Lines, because every line would be rejected later.
        """
        is_folder = path.is_dir()
        if is_folder and (path / RECORDS_FILE).is_file():
            refuse_link_out(path / RECORDS_FILE, path)
            path = path / RECORDS_FILE
        elif not (path.is_file() and path.suffix in (".jsonl", ".json")):
            raise NothingHere(f"no {RECORDS_FILE}")
        try:
            refuse_other_files(path)
            _refuse_documents(path)
            columns = _keys(path, rows)
            with path.open("rb") as stream:
                fingerprint = lines_fingerprint(stream)
        except (StorageError, StoreUnavailable):
            raise
        except OSError as error:  # such as a link to a device
            raise InputError(
                f"cannot read {path} ({error.strerror}): make this file readable, or set --input to another file"
            ) from error
        folder = path.parent.resolve()  # the folder of a link, not of its target: files of the Hub are links
        file = str(folder / path.name)
        source = Source(self.name, file, storage=storage_of(path))
        if SHAPES.named(rows.shape).is_expanding:
            records = sum(1 for _ in shaped((row for _, row in _objects(source)), source, rows))
            source = replace(source, records=records)
        return Input(str(folder) if is_folder else file, (source,), str(folder), fingerprint, columns)

    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """Yield one record for each line that is not blank, or several if the shape (layout) of the rows gives several.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. Media
        that a row contains as bytes are written to ``store``.
        """
        if _are_rows(rows):
            yield from placed_records(_objects(source), source, rows, store)
            return
        name = source.name
        with source.place.open("rb") as stream:
            for number, text in read_lines(stream, source.first_number):
                yield RawRecord(number, _mapped(text, rows), origin=_origin(text, rows, f"{name}, line {number}"))

    def count(self, source: Source) -> int:
        """Return the number of records of a file. ``source`` is the part of the input to read.

        In some shapes (layouts of rows), a line can hold several records: for example, a conversation with several
        questions. In these shapes, :meth:`find` has counted the records, and this number is returned. In all other
        shapes, the result is the number of lines that are not blank.
        """
        if source.records is not None:
            return source.records
        with source.place.open("rb") as stream:
            return sum(1 for _ in read_lines(stream))

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """Yield the media field of each record that has one, unchanged.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        key = rows.columns.get("media", "media")
        with source.place.open("rb") as stream:
            for record in shaped_rows(read_objects(stream), source, rows):
                if record.get(key) is not None:
                    yield record[key]

    def answers(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the fields of each record, such as question and answer, by name. Lines that are not JSON objects are
        left out.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        with source.place.open("rb") as stream:
            for record in shaped_rows(read_objects(stream), source, rows):
                yield row_fields(record, rows)

    def rows(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the JSON object on each line. Lines without an object are left out.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records.
        """
        with source.place.open("rb") as stream:
            yield from read_objects(stream)


JSON_LINES = JsonLines()


def _objects(source: Source) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """Yield a pair for each line that is not blank: the line's place, such as "line 3", and its JSON object.

    If the line is not a JSON object, the second item is the text of the line.
    """
    with source.place.open("rb") as stream:
        for number, text in read_lines(stream):
            try:
                yield f"line {number}", parse_object(text)
            except NotAnObject:
                yield f"line {number}", text


def _are_rows(rows: RowSettings) -> bool:
    """Return whether the lines of the file must be converted like the rows of a table.

    This is necessary if the settings ``rows`` name a layout of rows (shape) or a folder of media, or generate ids.
    Otherwise the column map and the constants are enough (:func:`_mapped`).
    """
    return rows.shape != OneRecordPerRow.name or bool(rows.media_folder) or rows.number_ids or rows.file_ids


def lines_fingerprint(stream: IO[bytes]) -> str:
    """Return a digest of a file's lines, as 64 hexadecimal digits.

    ``stream`` is the opened file. The digest does not depend on the order of the lines or on their line endings. The
    file is read in pieces, because a single line may be the whole file.
    """
    total, digest, ends, is_begun = 0, hashlib.sha256(), b"", False
    while piece := stream.readline(PIECE_BYTES):
        if text := piece.rstrip(b"\r\n"):
            digest.update(ends + text)
            ends = b""
        ends += piece[len(text) :]
        is_begun = not piece.endswith(b"\n")
        if not is_begun:
            total += int.from_bytes(digest.digest(), "big")
            digest, ends = hashlib.sha256(), b""
    if is_begun:
        total += int.from_bytes(digest.digest(), "big")
    return f"{total % 2**256:064x}"


def refuse_other_files(path: Place, expected: str = "JSON Lines") -> None:
    """Raise InputError if a file is compressed, is a Parquet file, or is text in UTF-16 or UTF-32.

    The first bytes of the file show this. Without this check, every line of such a file would be rejected later as a
    bad record. ``expected`` is the name of the expected format in the error.
    """
    with path.open("rb") as stream:
        head = stream.read(4)
    for magic, what, remedy in _OTHER_FILES:
        if head.startswith(magic):
            raise InputError(f"the file {path} is {what}, but must be {expected} in UTF-8: {remedy}")
    if b"\0" in head:  # UTF-16 and UTF-32 write each ASCII character with zero bytes
        what, remedy = _UTF_16
        raise InputError(f"the file {path} is {what}, but must be {expected} in UTF-8: {remedy}")


def is_array(path: Place) -> bool:
    """Return whether the file ``path`` begins like one JSON array of objects, and not like JSON Lines."""
    first = _first_line(path)
    return first == b"[" or first == b"[]" or (first.startswith(b"[") and first[1:].lstrip().startswith(b"{"))


def _refuse_documents(path: Place) -> None:
    """Raise InputError if a file is a JSON array, one object on many lines, or a COCO file.

    Without this check, every line of such a file would be rejected later as a bad record.
    """
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if _COCO.match(head):
        remedy = "set input.coco_instances to it, and --input to a file of questions with image_id (docs/inputs.md)"
        raise InputError(f"{path} is a COCO file of boxes without questions: {remedy}")
    if is_array(path):
        raise InputError(f"{path} is a JSON array, but a .jsonl file has one object on each line: rename it to .json")
    if _first_line(path) == b"{":
        remedy = "write one object on each line (JSON Lines), or an array of objects in a .json file"
        raise InputError(f"{path} has a JSON object on several lines, but each line must be a whole object: {remedy}")


def _first_line(path: Place) -> bytes:
    """Return the first line of the file ``path`` that is not blank, without the blanks around it."""
    with path.open("rb") as stream:
        lines = iter(lambda: stream.readline(PIECE_BYTES), b"")  # one line may be the whole file
        first = next((line.strip() for line in lines if line.strip(BYTE_ORDER_MARK + b" \t\r\n")), b"")
    return first.removeprefix(BYTE_ORDER_MARK).lstrip()


def _keys(path: Place, rows: RowSettings) -> frozenset[str]:
    """Return the keys of the records in a file, which are the input's columns.

    The keys are collected in three steps:

    1. The first :data:`MAX_LINES_FOR_KEYS` lines are read for their keys.
    2. If a column in ``rows.keep`` is not among these keys, further lines are read until all of these columns are
       found.
    3. The lines may lack three kinds of fields: optional fields, fields with a constant in the config, and fields that
       the shape (layout of rows) adds. If the config names the column of such a field, this name is added. For example,
       ``choices`` is an optional field, so ``input.columns.choices = "options"`` adds "options".

    The result is empty if no key is found.
    """
    with path.open("rb") as stream:
        lines = bounded_lines(stream)
        first = itertools.islice(lines, MAX_LINES_FOR_KEYS)
        keys = frozenset(key for record in read_objects(first) for key in record)
        for record in read_objects(lines) if not keys.issuperset(rows.keep) else ():
            keys |= record.keys() & set(rows.keep)
            if keys.issuperset(rows.keep):
                break
    lacking = {*OPTIONAL_FIELDS, *rows.constants, *SHAPES.named(rows.shape).gives}
    return keys and keys | {column for field, column in rows.columns.items() if field in lacking}


def _mapped(text: str, rows: RowSettings) -> str:
    """Return the line ``text`` with a record's fields, such as question and answer, in place of the input's columns.

    The settings ``rows`` determine the fields: the column map names the column of each field, and constants are values
    of fields that the line lacks. Other settings state how choices are written
    (:func:`groundtrace.stages.sources.rows.row_fields`). A line that is not a JSON object is returned unchanged.
    """
    if replace(rows, keep=()) == RowSettings():
        return text
    try:
        return json.dumps(row_fields(parse_object(text), rows))
    except NotAnObject:
        return text


def _origin(text: str, rows: RowSettings, input_row: str) -> Origin:
    """Return the data that are only copied from a line to the output: the values of the columns in ``rows.keep``, and
    ``input_row``, the place of the line.

    The field ``media_names`` of the result (file names of images and clips) is left empty. A later step takes these
    names from the paths in the line. The result has no values if the line is not a JSON object.
    """
    if not rows.keep:
        return Origin(input_row=input_row)
    try:
        return Origin(kept=kept_values(parse_object(text), rows), input_row=input_row)
    except NotAnObject:
        return Origin(input_row=input_row)
