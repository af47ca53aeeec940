"""Reading jsonl, Parquet and data sets into numbered records."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem
from fsspec.registry import _registry

from schemas.records import RawRecord
from stages.sources.reading import RowSettings, Source, own_picture, read_source
from vision.hashing import sha256_bytes
from vision.media import MediaMissing, MediaNotAllowed, MediaStore

NAMED = RowSettings(constants={"source": "made", "license": "CC0-1.0"})


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(str(tmp_path / "data"), str(tmp_path / "run"))


@pytest.fixture
def picture(write_scene: Callable[..., Path], tmp_path: Path) -> bytes:
    return write_scene(tmp_path / "made" / "a.png").read_bytes()


def read(source: Source, store: MediaStore, rows: RowSettings = NAMED) -> list[tuple[int, dict[str, Any]]]:
    return [(raw.number, json.loads(raw.text)) for raw in read_source(source, rows, store)]


def parquet(path: Path, rows: list[dict[str, Any]]) -> Source:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return Source("parquet", str(path))


JSONL = [
    (b"", []),
    (b"\n\r\n  \n\t\n", []),
    (b'{"a": 1}\n{"a": 2}\n', [(1, '{"a": 1}'), (2, '{"a": 2}')]),
    (b'{"a": 1}\r\n\r\n{"a": 2}\r\n', [(1, '{"a": 1}'), (3, '{"a": 2}')]),
    (b'\xef\xbb\xbf{"a": 1}\n\xef\xbb\xbf{}\n', [(1, '{"a": 1}'), (2, "\ufeff{}")]),
    (b'\xef\xbb\xbf\n{"a": 1}', [(2, '{"a": 1}')]),
    (b'{"a": 1}\n{"a": ', [(1, '{"a": 1}'), (2, '{"a": ')]),
    (b'"x\xff\xc3"\n', [(1, '"x\\udcff\\udcc3"')]),
    ('"a\u2028b\x0cc\x85d"\n'.encode(), [(1, '"a\u2028b\x0cc\x85d"')]),
]


@pytest.mark.parametrize(("content", "expected"), JSONL)
def test_jsonl_lines_keep_their_numbers(
    content: bytes, expected: list[tuple[int, str]], tmp_path: Path, store: MediaStore
) -> None:
    file = tmp_path / "records.jsonl"
    file.write_bytes(content)
    found = list(read_source(Source("jsonl", str(file)), RowSettings(), store))
    assert found == [RawRecord(number, text) for number, text in expected]


def test_rows_are_numbered_from_the_sources_first_number(tmp_path: Path, store: MediaStore) -> None:
    source = parquet(tmp_path / "rows.parquet", [{"image": "a.png"}, {"image": "b.png"}])
    found = read(Source("parquet", source.path, first_number=41), store)
    assert [(number, row["id"]) for number, row in found] == [(41, "row-41"), (42, "row-42")]


def test_columns_and_constants_become_fields(tmp_path: Path, store: MediaStore) -> None:
    row = {"uid": "x1", "query": "How many?", "gold": 3, "pic": "a.png", "license": "MIT", "question": "not this"}
    columns = {"id": "uid", "question": "query", "answer": "gold", "media": "pic"}
    rows = RowSettings(columns=columns, constants={"source": "made", "license": "CC0-1.0"})
    [(_, found)] = read(parquet(tmp_path / "rows.parquet", [row]), store, rows)
    fields = {"id": "x1", "source": "made", "license": "MIT", "question": "How many?", "answer": 3}
    assert found == fields | {"media": ["input:a.png"]}


MAPPED = [
    ('{"query": "How?", "pic": "a.png"}', {"question": "How?", "media": "a.png", "license": "MIT"}),
    ('{"query": "How?", "question": "no", "license": "X", "x": 1}', {"question": "How?", "license": "X"}),
    ('{"query": null, "license": null}', {"license": "MIT"}),
    (r'{"query": "a\ud800"}', {"question": "a\ud800", "license": "MIT"}),
    ("{}", {"license": "MIT"}),
]


@pytest.mark.parametrize(("line", "expected"), MAPPED)
def test_columns_and_constants_hold_for_lines_too(
    line: str, expected: dict[str, str], tmp_path: Path, store: MediaStore
) -> None:
    (tmp_path / "records.jsonl").write_text(line + "\n")
    rows = RowSettings(columns={"question": "query", "media": "pic"}, constants={"license": "MIT"})
    [raw] = read_source(Source("jsonl", str(tmp_path / "records.jsonl")), rows, store)
    assert (json.loads(raw.text), raw.materialised) == (expected, False)
    assert raw.text.isascii()


@pytest.mark.parametrize("line", ["[1]", "3", '{"query": ', "[" * 100_000, '{"answer": 1' + "0" * 5000 + "}"])
def test_lines_that_are_no_objects_are_left_as_they_are(line: str, tmp_path: Path, store: MediaStore) -> None:
    (tmp_path / "records.jsonl").write_text(line + "\n")
    assert [raw.text for raw in read_source(Source("jsonl", str(tmp_path / "records.jsonl")), NAMED, store)] == [line]


def test_a_named_id_column_is_not_made_up_where_it_is_empty(tmp_path: Path, store: MediaStore) -> None:
    source = parquet(tmp_path / "rows.parquet", [{"uid": None, "image": "a.png"}, {"uid": "b", "image": "a.png"}])
    found = read(source, store, RowSettings(columns={"id": "uid"}))
    assert [row.get("id") for _, row in found] == [None, "b"]


@pytest.mark.parametrize("section", ["columns", "constants"])
def test_unknown_fields_in_the_column_map(section: str) -> None:
    with pytest.raises(ValueError, match=rf"{section}\.qeustion must be one of id, source, .*, got 'qeustion'"):
        RowSettings(**{section: {"qeustion": "q"}})


@pytest.mark.parametrize("path", ["a.png", None, "folder/b.tar.jpg", "B.PNG", "c.jpeg_large", "noextension", "d.p n"])
def test_embedded_pictures_are_filed_once(path: str | None, tmp_path: Path, store: MediaStore, picture: bytes) -> None:
    rows = [{"image": {"bytes": picture, "path": path}}, {"image": {"bytes": picture, "path": path}}]
    found = read(parquet(tmp_path / "rows.parquet", rows), store)
    uris = {uri for _, row in found for uri in row["media"]}
    assert len(uris) == 1
    assert uris.pop().startswith(f"run:media/{sha256_bytes(picture)}.")
    assert [file.read_bytes() for file in (tmp_path / "run" / "media").iterdir()] == [picture]


def test_media_in_their_other_forms(tmp_path: Path, store: MediaStore, picture: bytes) -> None:
    embedded = {"bytes": picture, "path": "a.png"}
    many = parquet(tmp_path / "many.parquet", [{"images": [embedded, {"bytes": None, "path": "b.png"}]}])
    plain = parquet(tmp_path / "plain.parquet", [{"image": picture}])
    paths = parquet(tmp_path / "paths.parquet", [{"media": ["c.png", "/etc/passwd", "run:media/x"]}])
    none = parquet(tmp_path / "none.parquet", [{"question": "q"}])
    digest = sha256_bytes(picture)
    assert read(many, store)[0][1]["media"] == [f"run:media/{digest}.png", "input:b.png"]
    assert read(plain, store)[0][1]["media"] == [f"run:media/{digest}.bin"]
    assert read(paths, store)[0][1]["media"] == ["input:c.png", "input:/etc/passwd", "input:run:media/x"]
    assert read(none, store)[0][1]["media"] == [None]


@pytest.fixture
def saved(tmp_path: Path, picture: bytes) -> Path:
    """A data set saved as Parquet under a name that only ``datasets`` would find, and its column names."""
    features = datasets.Features(
        {"query": datasets.Value("string"), "label": datasets.Value("int64"), "image": datasets.Image()}
    )
    rows = {"query": ["How many?", "How many red?"], "label": [3, 1], "image": [{"bytes": picture, "path": None}] * 2}
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / "train-00000.parquet")
    return tmp_path / "set"


def test_a_data_set_with_embedded_pictures(saved: Path, store: MediaStore, picture: bytes) -> None:
    columns = {"question": "query", "answer": "label", "media": "image"}
    rows = RowSettings(columns=columns, constants={"source": "made", "license": "MIT"})
    found = read(Source("datasets", str(saved)), store, rows)
    media = [f"run:media/{sha256_bytes(picture)}.bin"]
    first = {"id": "row-1", "source": "made", "license": "MIT", "question": "How many?", "answer": 3, "media": media}
    assert found == [(1, first), (2, first | {"id": "row-2", "question": "How many red?", "answer": 1})]


def test_a_data_set_without_the_split(saved: Path, store: MediaStore) -> None:
    with pytest.raises(ValueError, match="test"):
        read(Source("datasets", str(saved)), store, RowSettings(split="test"))


def test_data_sets_saved_to_disk(saved: Path, tmp_path: Path, store: MediaStore, picture: bytes) -> None:
    one = datasets.Dataset.from_parquet(str(saved / "train-00000.parquet"))
    assert isinstance(one, datasets.Dataset)
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": one, "test": one.select([1])}).save_to_disk(tmp_path / "parts")
    columns = {"question": "query", "answer": "label"}
    for folder, split, answers in (("one", "train", [3, 1]), ("parts", "train", [3, 1]), ("parts", "test", [1])):
        found = read(Source("datasets", str(tmp_path / folder)), store, RowSettings(columns=columns, split=split))
        assert [row["answer"] for _, row in found] == answers
        assert all(store.open_bytes(row["media"][0]) == picture for _, row in found)


def test_a_folder_of_pictures_read_by_datasets(
    write_scene: Callable[..., Path], tmp_path: Path, store: MediaStore
) -> None:
    picture = write_scene(tmp_path / "data" / "a.png")
    (tmp_path / "data" / "metadata.csv").write_text("file_name,question,answer\na.png,How many?,3\n")
    [(_, found)] = read(Source("datasets", str(tmp_path / "data")), store)
    assert store.open_bytes(found["media"][0]) == picture.read_bytes()


def test_a_zip_of_pictures_read_by_datasets(
    write_scene: Callable[..., Path], tmp_path: Path, store: MediaStore
) -> None:
    picture = write_scene(tmp_path / "a.png")
    (tmp_path / "data").mkdir()
    with zipfile.ZipFile(tmp_path / "data" / "all.zip", "w") as archive:
        archive.write(picture, "a.png")
        archive.writestr("metadata.csv", "file_name,question,answer\na.png,How many?,3\n")
    [(_, found)] = read(Source("datasets", str(tmp_path / "data")), store)
    assert store.open_bytes(found["media"][0]) == picture.read_bytes()


HUB = "hf://datasets/org/name@0a1b/a.png"
PATHS = [  # what a row may name, in a data set of that folder or id, and what becomes of it
    ("{data}/a.png", "{data}", "a.png"),
    ("{data}/deep/b.png", "{data}", "deep/b.png"),
    ("a.png", "{data}", "a.png"),
    ("{data}/../private.png", "{data}", "../private.png"),
    ("{data}//etc/passwd", "{data}", "/etc/passwd"),
    ("{data}x/a.png", "{data}", None),
    ("/etc/passwd", "{data}", None),
    ("file:///etc/passwd", "{data}", None),
    ("zip://a.png::/elsewhere/all.zip", "{data}", None),
    ("zip://a.png::{data}/../all.zip", "{data}", None),
    ("zip://a.png::{data}/none.zip", "{data}", None),
    ("zip://a.png::zip://b.zip::{data}/all.zip", "{data}", None),
    ("zip://a.png", "{data}", None),
    (HUB, "{data}", None),
    (HUB, "org/name", b"org/name@0a1b/a.png"),
    ("hf://datasets/org/name/a.png", "org/name", b"org/name/a.png"),
    ("hf://datasets/org/name2@0a1b/a.png", "org/name", None),
    ("hf://datasets/org/name@0a1b/../../private/x.png", "org/name", None),
    ("hf://datasets/mine/private/x.png", "org/name", None),
    ("hf://org/name/a.png", "org/name", None),
    ("org/name/a.png", "org/name", "a.png"),
    ("/etc/passwd", "org/name", None),
]


class Hub(AbstractFileSystem):
    """A hub whose files hold their own names."""

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        return io.BytesIO(self._strip_protocol(path).encode())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in in place of the hub, for ``fsspec``."""
    monkeypatch.setitem(_registry, "hf", Hub)


@pytest.mark.parametrize(("path", "data_set", "kept"), PATHS)
def test_a_row_names_pictures_of_its_own_data_set_only(
    path: str, data_set: str, kept: str | bytes | None, tmp_path: Path, store: MediaStore, hub: None
) -> None:
    named = path.format(data=tmp_path / "data")
    value = own_picture([{"bytes": None, "path": named}], data_set.format(data=tmp_path / "data"))
    if isinstance(kept, bytes):
        assert value[0]["bytes"].endswith(kept)
    else:
        assert value == [{"bytes": None, "path": kept or named}]
    if kept is None:
        with pytest.raises((MediaNotAllowed, MediaMissing)):
            store.open_bytes(f"input:{value[0]['path']}")


def test_only_picture_columns_are_read(tmp_path: Path, store: MediaStore) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "private.png").write_bytes(b"private")
    value = {"bytes": None, "path": str(tmp_path / "private.png")}
    (tmp_path / "data" / "rows.jsonl").write_text(json.dumps({"image": value, "question": value}))
    [(_, found)] = read(Source("datasets", str(tmp_path / "data")), store)
    assert found["media"] == [f"input:{tmp_path / 'private.png'}"]
    assert found["question"] == value
    with pytest.raises(MediaNotAllowed):
        store.open_bytes(found["media"][0])
