"""From rows to records: fields, made-up ids, and media filed once."""

import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.rows import media_column, row_fields, row_records
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaStore

NAMED = RowSettings(constants={"source": "made", "license": "CC0-1.0"})


def records(rows: list[dict[str, Any]], store: MediaStore, settings: RowSettings = NAMED) -> list[dict[str, Any]]:
    found = row_records(rows, Source("parquet", "x"), settings, store)
    return [json.loads(raw.text) for raw in found]


def media(row: dict[str, Any], store: MediaStore) -> Any:
    return records([row], store)[0]["media"]


def test_rows_are_numbered_from_the_sources_first_number(store: MediaStore) -> None:
    rows = [{"image": "a.png"}, {"image": "b.png"}]
    found = list(row_records(rows, Source("parquet", "x", first_number=41), NAMED, store))
    assert [(raw.number, json.loads(raw.text)["id"], raw.materialised) for raw in found] == [
        (41, "row-41", True),
        (42, "row-42", True),
    ]


def test_columns_and_constants_become_fields(store: MediaStore) -> None:
    row = {"uid": "x1", "query": "How many?", "gold": 3, "pic": "a.png", "license": "MIT", "question": "not this"}
    columns = {"id": "uid", "question": "query", "answer": "gold", "media": "pic"}
    rows = RowSettings(columns=columns, constants={"source": "made", "license": "CC0-1.0"})
    fields = {"id": "x1", "source": "made", "license": "MIT", "question": "How many?", "answer": 3}
    assert row_fields(row, rows) == fields | {"media": "a.png"}
    assert records([row], store, rows) == [fields | {"media": ["input:a.png"]}]


def test_a_named_id_column_is_not_made_up_where_it_is_empty(store: MediaStore) -> None:
    rows = [{"uid": None, "image": "a.png"}, {"uid": "b", "image": "a.png"}]
    found = records(rows, store, RowSettings(columns={"id": "uid"}))
    assert [row.get("id") for row in found] == [None, "b"]


@pytest.mark.parametrize("path", ["a.png", None, "folder/b.tar.jpg", "B.PNG", "c.jpeg_large", "noextension", "d.p n"])
def test_embedded_images_are_filed_once(path: str | None, tmp_path: Path, store: MediaStore, image: bytes) -> None:
    found = records([{"image": {"bytes": image, "path": path}}] * 2, store)
    uris = {uri for row in found for uri in row["media"]}
    assert len(uris) == 1
    assert uris.pop().startswith(f"run:media/{sha256_bytes(image)}.")
    assert [file.read_bytes() for file in (tmp_path / "run" / "media").iterdir()] == [image]


TEXT_FOR_BYTES = [{"bytes": "iVBORw0KGgo="}, {"bytes": [137, 80]}, {"bytes": "x", "path": "a.png"}, {"path": 3}]


@pytest.mark.parametrize("medium", TEXT_FOR_BYTES)
def test_media_that_json_cannot_hold_are_left_to_the_records_checker(medium: Any, store: MediaStore) -> None:
    assert media({"image": medium}, store) == [medium]


def test_media_in_their_other_forms(store: MediaStore, image: bytes) -> None:
    embedded, digest = {"bytes": image, "path": "a.png"}, sha256_bytes(image)
    assert media({"images": [embedded, {"bytes": None, "path": "b.png"}]}, store) == [
        f"run:media/{digest}.png",
        "input:b.png",
    ]
    assert media({"image": image}, store) == [f"run:media/{digest}.bin"]
    paths = ["c.png", "/etc/passwd", "run:media/x"]
    assert media({"media": paths}, store) == ["input:c.png", "input:/etc/passwd", "input:run:media/x"]
    assert media({"question": "q"}, store) == [None]


@pytest.mark.parametrize(
    ("named", "columns", "found"),
    [
        (None, ["image", "images", "media"], "media"),
        (None, ["image", "images"], "images"),
        (None, ["image"], "image"),
        ("pic", ["image", "pic", "media"], "pic"),
        ("pic", ["media", "image"], "image"),
        (None, ["question"], None),
    ],
)
def test_where_the_media_of_rows_are(named: str | None, columns: list[str], found: str | None) -> None:
    assert media_column(RowSettings(columns={"media": named} if named else {}), columns) == found


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"a", "a"), ("\N{SNOWMAN}".encode(), "\N{SNOWMAN}"), (b"\xff\x00", "\udcff\x00"), (b"", "")],
)
def test_binary_columns_are_text(value: bytes, expected: str, store: MediaStore) -> None:
    """Bytes that are no UTF-8 become lone surrogates, which no text of a record may hold."""
    [fields] = records([{"id": value, "image": "a.png", "choices": [value]}], store)
    assert (fields["id"], fields["choices"]) == (expected, [expected])
