"""Reading an input into numbered raw records, one source at a time: jsonl, Parquet, or a data set through ``datasets``.

Media embedded in a row are written once to the run folder and referred to from there; media given by path stay where
they are.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from schemas.config import OneOf, settings
from schemas.records import RawRecord
from vision.media import MediaStore

if TYPE_CHECKING:
    import datasets

_PLAIN_SUFFIX = re.compile(r"[a-z0-9]{1,8}")
FIELDS = ("id", "source", "license", "media", "question", "answer", "answer_type", "choices", "boxes")
FieldName = Annotated[str, OneOf(FIELDS)]
OPTIONAL_FIELDS = ("answer_type", "choices", "boxes")


@dataclass(frozen=True)
class Source:
    """One thing to read: ``kind`` is jsonl, parquet or datasets; rows are numbered from ``first_number``."""

    kind: str
    path: str
    first_number: int = 1

    def share_of(self, limit: int | None) -> int | None:
        """How many of an input's first ``limit`` records can be this source's (None: all of its own)."""
        return None if limit is None else max(0, limit - self.first_number + 1)


@settings
class RowSettings:
    """How the rows of an input become records.

    Rows of Parquet and of data sets without an id column have the id ``row-<number>``.
    """

    columns: Annotated[Mapping[FieldName, str], "which of the input's columns, or keys, holds which field"] = field(
        default_factory=dict
    )
    constants: Annotated[Mapping[FieldName, str], "values of fields that the input lacks"] = field(default_factory=dict)
    split: Annotated[str, "the split of a data set"] = "train"
    name: Annotated[str, "the configuration of a data set"] = ""


def read_source(source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
    """The source's records in order. Blank lines of a jsonl file are not records."""
    if source.kind == "jsonl":
        yield from _read_jsonl(source, rows)
        return
    found = _parquet_rows(source.path) if source.kind == "parquet" else _dataset_rows(source.path, rows)
    for number, row in enumerate(found, source.first_number):
        yield _as_record(number, row, rows, store)


def _read_jsonl(source: Source, rows: RowSettings) -> Iterator[RawRecord]:
    with FileSystems.open(source.path) as stream:
        for number, line in enumerate(stream, source.first_number):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == source.first_number else line
            text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            if text.strip():
                yield RawRecord(number, _mapped_line(text.encode("utf-8", "backslashreplace").decode(), rows))


def _mapped_line(text: str, rows: RowSettings) -> str:
    """The line with the column map and the constants applied; a line that is no JSON object is left to the parser."""
    if not rows.columns and not rows.constants:
        return text
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(_fields(line, rows)) if isinstance(line, dict) else text


def _parquet_rows(path: str) -> Iterator[Mapping[str, Any]]:
    with FileSystems.open(path) as stream:
        for batch in pq.ParquetFile(stream).iter_batches(batch_size=64):
            yield from batch.to_pylist()


def _dataset_rows(path: str, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
    import datasets

    loaded = open_data_set(path, rows)
    pictures = set()
    for column, feature in (loaded.features or {}).items():
        if isinstance(feature, datasets.Image):
            loaded = loaded.cast_column(column, datasets.Image(decode=False))
            pictures.add(column)
        elif isinstance(feature, datasets.List) and isinstance(feature.feature, datasets.Image):
            loaded = loaded.cast_column(column, datasets.List(datasets.Image(decode=False)))
            pictures.add(column)
    for row in loaded:
        yield {name: own_picture(value, path) if name in pictures else value for name, value in row.items()}


def open_data_set(path: str, rows: RowSettings) -> "datasets.IterableDataset":
    """The split of a data set by folder or id that the settings name, unread; a saved ``Dataset`` has but one.

    Raises the errors of ``datasets``: ValueError for a split or name that it does not have.
    """
    import datasets

    if not any((Path(path) / name).is_file() for name in ("state.json", "dataset_dict.json")):
        return datasets.load_dataset(path, rows.name or None, split=rows.split, streaming=True)
    saved = datasets.load_from_disk(path)
    if isinstance(saved, datasets.DatasetDict):
        if rows.split not in saved:
            raise ValueError(f"Bad split: {rows.split}. Available splits: {sorted(map(str, saved))}")
        saved = saved[rows.split]
    return saved.to_iterable_dataset()


def own_picture(value: Any, data_set: str) -> Any:
    """The value of a picture column with pictures given only by path made readable, where the path is the data set's.

    ``data_set`` is its folder or id. A file of its folder is named from there; a file in its archive or on the hub is
    read. Any other path may be anything that a row's author wished to have published: it stays, and is refused with
    the record's other media.
    """
    if isinstance(value, list):
        return [own_picture(item, data_set) for item in value]
    if not isinstance(value, Mapping) or set(value) != {"bytes", "path"}:
        return value
    path = value["path"]
    if value["bytes"] is not None or not isinstance(path, str):
        return value
    folder = data_set.rstrip("/") + "/"
    if path.startswith(folder):
        return {"bytes": None, "path": path.removeprefix(folder)}
    archive = path.removeprefix("zip://").partition("::")[2] if path.startswith("zip://") else ""
    return {"bytes": _read_url(path), "path": path} if _is_inside(archive or path, data_set) else value


def _is_inside(path: str, data_set: str) -> bool:
    """Whether a path, as ``datasets`` writes it, is that of a file in the data set's folder or hub repository."""
    if "::" in path or ".." in path.split("/"):
        return False
    local = path.startswith(data_set.rstrip("/") + "/") and PurePosixPath(data_set).is_absolute()
    return local or bool(re.match(rf"hf://datasets/{re.escape(data_set)}(@[^/]+)?/", path))


def _read_url(url: str) -> bytes | None:
    """The bytes of a file on the hub or in an archive, None where it is not there."""
    import fsspec

    try:
        files, path = fsspec.url_to_fs(url)
        with files.open(path, "rb") as stream:
            return stream.read()
    except (FileNotFoundError, KeyError):
        return None


def _fields(row: Mapping[str, Any], rows: RowSettings) -> dict[str, Any]:
    """The fields that a row has under the column map, over the constants."""
    found = {name: row.get(rows.columns.get(name, name)) for name in FIELDS}
    return dict(rows.constants) | {name: value for name, value in found.items() if value is not None}


def _as_record(number: int, row: Mapping[str, Any], rows: RowSettings, store: MediaStore) -> RawRecord:
    fields = _fields(row, rows)
    if "id" not in fields and "id" not in rows.columns:
        fields["id"] = f"row-{number}"
    if "media" not in fields:
        fields["media"] = row.get("images") or row.get("image")
    media = fields["media"] if isinstance(fields["media"], list) else [fields["media"]]
    fields["media"] = [_media_uri(item, store) for item in media]
    return RawRecord(number, json.dumps(fields, ensure_ascii=False, default=str), materialised=True)


def _media_uri(item: Any, store: MediaStore) -> Any:
    """The URI of a row's medium: a path under the input, or its bytes written to the run folder."""
    if isinstance(item, str):
        return f"input:{item}"
    if isinstance(item, Mapping):
        if item.get("bytes") is not None:
            return store.write_drawn(item["bytes"], _extension(item.get("path") or ""))
        if isinstance(item.get("path"), str):
            return f"input:{item['path']}"
    if isinstance(item, bytes):
        return store.write_drawn(item, "bin")
    return item


def _extension(path: str) -> str:
    suffix = PurePosixPath(path).suffix.lstrip(".").lower()
    return suffix if _PLAIN_SUFFIX.fullmatch(suffix) else "bin"
