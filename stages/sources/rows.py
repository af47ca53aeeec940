"""From rows to records: the column map, the constants, made-up ids, and media embedded in a row.

Embedded media are written once to the run folder and referred to from there; media given by path stay where they are.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from schemas.records import RawRecord
from schemas.text import storable
from stages.sources.base import FIELDS, RowSettings, Source
from vision.media import MediaStore

MEDIA_COLUMNS = ("media", "images", "image")
"""Where the media of a row are looked for when no column is named."""
_PLAIN_SUFFIX = re.compile(r"[a-z0-9]{1,8}")


def row_records(
    found: Iterable[Mapping[str, Any]], source: Source, rows: RowSettings, store: MediaStore
) -> Iterator[RawRecord]:
    """The records of a source's rows, numbered from its first number."""
    for number, row in enumerate(found, source.first_number):
        yield _as_record(number, row, rows, store)


def row_fields(row: Mapping[str, Any], rows: RowSettings) -> dict[str, Any]:
    """The fields that a row has under the column map, over the constants."""
    found = {name: row.get(rows.columns.get(name, name)) for name in FIELDS}
    return dict(rows.constants) | {name: value for name, value in found.items() if value is not None}


def media_column(rows: RowSettings, columns: Iterable[str]) -> str | None:
    """The column that a row's media are in, among those that there are."""
    known = set(columns)
    named, *others = MEDIA_COLUMNS
    return next((name for name in (rows.columns.get(named, named), *others) if name in known), None)


def _as_record(number: int, row: Mapping[str, Any], rows: RowSettings, store: MediaStore) -> RawRecord:
    fields = row_fields(row, rows)
    if "id" not in fields and "id" not in rows.columns:
        fields["id"] = f"row-{number}"
    if "media" not in fields:
        fields["media"] = row.get("images") or row.get("image")
    media = fields["media"] if isinstance(fields["media"], list) else [fields["media"]]
    fields["media"] = [_media_uri(item, store) for item in media]
    return RawRecord(number, storable(json.dumps(fields, ensure_ascii=False, default=_as_text)), materialised=True)


def _as_text(value: object) -> str:
    """A value that JSON lacks. Binary columns often hold UTF-8; bytes that are none become lone surrogates, as in JSON
    Lines, and whoever checks the record refuses its text.
    """
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _media_uri(item: Any, store: MediaStore) -> Any:
    """The URI of a row's medium: a path under the input, or its bytes written to the run folder. Anything else, such as
    bytes that are text (JSON has no others), is left for the record's checker to refuse.
    """
    if isinstance(item, str):
        return f"input:{item}"
    if isinstance(item, Mapping):
        data, path = item.get("bytes"), item.get("path")
        if isinstance(data, bytes):
            return store.write_drawn(data, _extension(path if isinstance(path, str) else ""))
        if data is None and isinstance(path, str):
            return f"input:{path}"
    if isinstance(item, bytes):
        return store.write_drawn(item, "bin")
    return item


def _extension(path: str) -> str:
    suffix = PurePosixPath(path).suffix.lstrip(".").lower()
    return suffix if _PLAIN_SUFFIX.fullmatch(suffix) else "bin"
