"""Data sets: embedded images, whose images a row may name, and a hub that does not answer."""

import io
import json
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pyarrow as pa
import pytest
from fsspec import AbstractFileSystem
from fsspec.registry import _registry
from huggingface_hub import constants

from groundtrace.stages.sources import hf_datasets
from groundtrace.stages.sources.base import InputError, RowSettings, Source
from groundtrace.stages.sources.hf_datasets import DataSets, own_image
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore

Read = Callable[..., list[tuple[int, dict[str, Any]]]]


@pytest.fixture
def saved(tmp_path: Path, image: bytes) -> Path:
    """A data set saved as Parquet under a name that only ``datasets`` would find, and its column names."""
    features = datasets.Features(
        {"query": datasets.Value("string"), "label": datasets.Value("int64"), "image": datasets.Image()}
    )
    rows = {"query": ["How many?", "How many red?"], "label": [3, 1], "image": [{"bytes": image, "path": None}] * 2}
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / "train-00000.parquet")
    return tmp_path / "set"


def test_a_data_set_with_embedded_images(saved: Path, store: MediaStore, image: bytes, read: Read) -> None:
    columns = {"question": "query", "answer": "label", "media": "image"}
    rows = RowSettings(columns=columns, constants={"source": "made", "license": "MIT"})
    found = read(Source("datasets", str(saved)), rows)
    media = [f"run:media/{sha256_bytes(image)}.bin"]
    first = {"id": "row-1", "source": "made", "license": "MIT", "question": "How many?", "answer": 3, "media": media}
    assert found == [(1, first), (2, first | {"id": "row-2", "question": "How many red?", "answer": 1})]


def test_a_data_set_without_the_split(saved: Path, read: Read) -> None:
    with pytest.raises(ValueError, match="test"):
        read(Source("datasets", str(saved)), RowSettings(split="test"))


def test_an_empty_file_of_a_folder_is_one_line(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.csv").write_text("", "utf-8")
    (tmp_path / "b.csv").write_text("question,answer\n", "utf-8")
    with pytest.raises(
        InputError,
        match=r"a file in the folder .+ cannot be read; it may be empty \(EmptyDataError: No columns",
    ):
        read(Source(DataSets.name, str(tmp_path)), RowSettings())


def test_data_sets_saved_to_disk(saved: Path, tmp_path: Path, store: MediaStore, image: bytes, read: Read) -> None:
    one = datasets.Dataset.from_parquet(str(saved / "train-00000.parquet"))
    assert isinstance(one, datasets.Dataset)
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": one, "test": one.select([1])}).save_to_disk(tmp_path / "parts")
    columns = {"question": "query", "answer": "label"}
    for folder, split, answers in (("one", "train", [3, 1]), ("parts", "train", [3, 1]), ("parts", "test", [1])):
        found = read(Source("datasets", str(tmp_path / folder)), RowSettings(columns=columns, split=split))
        assert [row["answer"] for _, row in found] == answers
        assert all(store.open_bytes(row["media"][0]) == image for _, row in found)


def test_a_folder_of_images_read_by_datasets(
    write_scene: Callable[..., Path], tmp_path: Path, store: MediaStore, read: Read
) -> None:
    image = write_scene(tmp_path / "data" / "a.png")
    (tmp_path / "data" / "metadata.csv").write_text("file_name,question,answer\na.png,How many?,3\n")
    [(_, found)] = read(Source("datasets", str(tmp_path / "data")))
    assert store.open_bytes(found["media"][0]) == image.read_bytes()


def test_a_zip_of_images_read_by_datasets(
    write_scene: Callable[..., Path], tmp_path: Path, store: MediaStore, read: Read
) -> None:
    image = write_scene(tmp_path / "a.png")
    (tmp_path / "data").mkdir()
    with zipfile.ZipFile(tmp_path / "data" / "all.zip", "w") as archive:
        archive.write(image, "a.png")
        archive.writestr("metadata.csv", "file_name,question,answer\na.png,How many?,3\n")
    [(_, found)] = read(Source("datasets", str(tmp_path / "data")))
    assert store.open_bytes(found["media"][0]) == image.read_bytes()


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
def test_a_row_names_images_of_its_own_data_set_only(
    path: str, data_set: str, kept: str | bytes | None, tmp_path: Path, store: MediaStore, hub: None
) -> None:
    named = path.format(data=tmp_path / "data")
    value = own_image([{"bytes": None, "path": named}], data_set.format(data=tmp_path / "data"))
    if isinstance(kept, bytes):
        assert value[0]["bytes"].endswith(kept)
    else:
        assert value == [{"bytes": None, "path": kept or named}]
    if kept is None:
        with pytest.raises((MediaNotAllowed, MediaMissing)):
            store.open_bytes(f"input:{value[0]['path']}")


def test_images_below_the_columns_are_not_opened(
    tmp_path: Path, image: bytes, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "private.png").write_bytes(image)
    places = {"file": str(tmp_path / "private.png"), "url": "http://127.0.0.1:9/a.png"}
    nested = datasets.Features({name: {"deep": datasets.List({"img": datasets.Image()})} for name in places})
    features = datasets.Features({name: datasets.Value("string") for name in ("id", "question")}) | nested
    row = {"id": "a", "question": "Which?"}
    row |= {name: {"deep": [{"img": {"bytes": None, "path": path}}]} for name, path in places.items()}
    (tmp_path / "data").mkdir()
    table = pa.Table.from_pylist([row], schema=datasets.Features(features).arrow_schema)
    with pa.OSFile(str(tmp_path / "data/x.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    contacted: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: contacted.append(address))
    monkeypatch.setattr(datasets.Image, "decode_example", lambda *_: pytest.fail("an image was decoded"))
    [found] = hf_datasets._rows(str(tmp_path / "data"), RowSettings())
    assert found == row and contacted == []


@pytest.mark.parametrize("place", ["zip://secret.txt::{data}/x.zip", "{data}/x.zip"])
def test_an_archive_outside_the_folder_is_not_read_through_a_link(place: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with zipfile.ZipFile(tmp_path / "private.zip", "w") as archive:
        archive.writestr("secret.txt", "secret")
    (data / "x.zip").symlink_to(tmp_path / "private.zip")
    found = own_image({"bytes": None, "path": place.format(data=data)}, str(data))
    assert found["bytes"] is None


def test_only_image_columns_are_read(tmp_path: Path, store: MediaStore, read: Read) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "private.png").write_bytes(b"private")
    value = {"bytes": None, "path": str(tmp_path / "private.png")}
    (tmp_path / "data" / "rows.jsonl").write_text(json.dumps({"image": value, "question": value}))
    [(_, found)] = read(Source("datasets", str(tmp_path / "data")))
    assert found["media"] == [f"input:{tmp_path / 'private.png'}"]
    assert found["question"] == value
    with pytest.raises(MediaNotAllowed):
        store.open_bytes(found["media"][0])


@pytest.fixture
def deaf_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A server in the hub's place that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield server


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("org/fotos", True),
        ("hf://org/fotos", False),
        *(pytest.param(name, True, marks=pytest.mark.faults) for name in ("fotos", "hf://org/fotos")),
        *(pytest.param(name, False, marks=pytest.mark.faults) for name in ("fotos", "org/fotos")),
    ],
)
def test_a_hub_that_does_not_answer_is_told_within_seconds(
    is_there: bool, name: str, deaf_hub: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hf_datasets, "HUB_TIMEOUT_S", 0.1)
    if not is_there:
        deaf_hub.close()
    began = time.monotonic()
    with pytest.raises(InputError, match=rf"{name} is neither .*\(the Hub at {constants.ENDPOINT} does not answer: ."):
        DataSets().find(name, tmp_path / name, RowSettings())
    assert time.monotonic() - began < 10


def test_a_hub_that_is_not_to_be_asked_is_not(
    deaf_hub: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="fotos is neither") as refused:
        DataSets().find("fotos", tmp_path / "fotos", RowSettings())
    assert "does not answer" not in str(refused.value)
    deaf_hub.setblocking(False)
    with pytest.raises(BlockingIOError):
        deaf_hub.accept()


class HubServer(BaseHTTPRequestHandler):
    """A server in the Hub's place that knows the commits of the revisions of ``org/set``."""

    commits: dict[str, str]

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        revision = self.path.partition("/revision/")[2].partition("?")[0] or "main"
        body = json.dumps({"id": "org/set", "sha": self.commits[revision]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The commits of the revisions of ``org/set``, as a server in the Hub's place returns them."""
    HubServer.commits = {"main": "a" * 40, "v1": "a" * 40}
    with HTTPServer(("127.0.0.1", 0), HubServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        opened = SimpleNamespace(features=None, info=SimpleNamespace(splits=None))
        monkeypatch.setattr(hf_datasets, "open_data_set", lambda name, rows: opened)
        yield HubServer.commits
        server.shutdown()


def test_a_set_on_the_hub_has_the_identity_of_its_commit(commits: dict[str, str], tmp_path: Path) -> None:
    def found(name: str) -> str:
        return DataSets().find(name, tmp_path / name, RowSettings()).fingerprint

    names = ["hf://org/set", "hf://datasets/org/set", "hf://org/set@v1", "org/set"]
    [first] = {found(name) for name in names}
    assert found("hf://org/set/rl") != first
    commits["main"] = "b" * 40
    assert found("hf://org/set") != first and found("hf://org/set@v1") == first


def test_a_set_on_the_hub_has_one_identity_for_all_spellings_offline(
    commits: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    names = ["hf://org/set", "hf://datasets/org/set"]
    assert len({DataSets().find(name, tmp_path / name, RowSettings()).fingerprint for name in names}) == 1
