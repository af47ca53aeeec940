"""Uris stay inside their roots, drawn files appear whole, and decoded pixels are kept within bounds."""

from __future__ import annotations

import io
import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from groundtrace.storage.places import RemotePath
from groundtrace.vision.decode import Limits, UndecodableMedia
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore, sniff_kind


def png(shade: int, side: int = 10) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (side, side), (shade, shade, shade)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    (tmp_path / "data" / "images").mkdir(parents=True)
    (tmp_path / "data" / "images" / "a b.png").write_bytes(png(7))
    (tmp_path / "secret.txt").write_bytes(b"secret")
    return MediaStore(str(tmp_path / "data"), str(tmp_path / "run"))


HEADS = {
    "jpeg": (b"\xff\xd8\xff\xe0", "image"),
    "png": (b"\x89PNG\r\n\x1a\n", "image"),
    "gif": (b"GIF89a", "image"),
    "webp": (b"RIFF\0\0\0\0WEBPVP8 ", "image"),
    "tiff": (b"MM\0*\0\0\0\x08", "image"),
    "bmp": (b"BM\x36\0\0\0" + bytes(4) + b"\x36\0\0\0\x28\0\0\0", "image"),
    "ppm": (b"P6\n2 2\n255\n", "image"),
    "avif": (b"\0\0\0\x1cftypavif", "image"),
    "mp4": (b"\0\0\0\x18ftypisom", "video"),
    "mov": (b"\0\0\0\x14ftypqt  ", "video"),
    "old mov": (b"\0\0\0\x08wide\0\0", "video"),
    "avi": (b"RIFF\0\0\0\0AVI LIST", "video"),
    "mkv and webm": (b"\x1aE\xdf\xa3\x01", "video"),
    "flv": (b"FLV\x01\x05", "video"),
    "mpeg ts": ((b"G" + bytes(187)) * 2, "video"),
    "m4a": (b"\0\0\0\x18ftypM4A ", None),
    "wav": (b"RIFF\0\0\0\0WAVEfmt ", None),
    "a word that begins like a bitmap": (b"BMW is a car maker from Bavaria", None),
    "text": (b"Good morning", None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize("name", HEADS)
def test_sniff_kind(name: str) -> None:
    head, kind = HEADS[name]
    assert sniff_kind(head) == kind


@given(st.binary(max_size=400))
def test_sniff_kind_takes_any_bytes(head: bytes) -> None:
    assert sniff_kind(head) in ("image", "video", None)


def test_reads_input_by_relative_path(store: MediaStore) -> None:
    assert store.open_bytes("input:images/a b.png") == png(7)
    assert store.open_bytes("input:./images//a b.png") == png(7)


@pytest.mark.parametrize(
    "uri",
    [
        "input:/etc/passwd",
        "input:../secret.txt",
        "input:images/../../secret.txt",
        "input:images\\..\\secret.txt",
        "input:C:/secret.txt",
        "input:",
        "input:a\0b",
        "input:a\ud800b",
        "input:http://example.org/a.png",
        "http://example.org/a.png",
        "file:///etc/passwd",
        "images/a.png",
        "run:cache/replies.db",
        "run:media/../run.json",
        f"run:media/{'A' * 64}.png",
        f"run:media/{'a' * 64}.png\n",
        "",
    ],
)
def test_nothing_outside_the_roots(store: MediaStore, uri: str) -> None:
    with pytest.raises(MediaNotAllowed):
        store.open_bytes(uri)


def test_a_file_that_may_not_be_read(store: MediaStore, tmp_path: Path) -> None:
    (tmp_path / "data" / "images" / "a b.png").chmod(0)
    with as_nobody(), pytest.raises(MediaNotAllowed, match=r"no permission to read 'input:images/a b\.png'"):
        store.open_bytes("input:images/a b.png")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions hold for root too while this lasts."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)


def test_the_kind_of_a_file_by_its_beginning(store: MediaStore, tmp_path: Path) -> None:
    (tmp_path / "data" / "clip").write_bytes(b"\x1aE\xdf\xa3" + bytes(9999))
    assert [store.kind_of(f"input:{name}") for name in ("images/a b.png", "clip")] == ["image", "video"]
    with pytest.raises(MediaMissing):
        store.kind_of("input:none.png")
    with pytest.raises(MediaNotAllowed):
        store.kind_of("input:../secret.txt")


def test_a_recorded_image_is_the_file_that_the_run_read(store: MediaStore) -> None:
    uri, data = "input:images/a b.png", png(7)
    assert store.open_recorded(uri, sha256_bytes(data)) == data
    for digest in (None, "", sha256_bytes(png(8)), sha256_bytes(data).upper()):
        with pytest.raises(UndecodableMedia, match="is not the file that the run read: restore this"):
            store.open_recorded(uri, digest)
    store.limits = Limits(max_bytes=len(data) - 1)
    with pytest.raises(UndecodableMedia, match="too_large"):
        store.open_recorded(uri, sha256_bytes(data))
    with pytest.raises(MediaNotAllowed):
        store.open_recorded("input:../secret.txt", sha256_bytes(b"secret"))
    with pytest.raises(MediaMissing):
        store.open_recorded("input:none.png", sha256_bytes(b""))


def test_links_are_followed_within_the_data_folder(store: MediaStore, tmp_path: Path) -> None:
    (tmp_path / "data" / "in.png").symlink_to(tmp_path / "data" / "images" / "a b.png")
    (tmp_path / "data" / "ring").symlink_to(tmp_path / "data" / "ring")
    with pytest.raises(MediaMissing):
        store.open_bytes("input:ring")
    assert store.open_bytes("input:in.png") == png(7)


@pytest.mark.parametrize("through", ["out.png", "out/b.png", "twice.png", "next.png", "gone.png", "relative.png"])
def test_a_link_that_leaves_the_data_folder_is_refused(store: MediaStore, tmp_path: Path, through: str) -> None:
    """Also by a folder, by way of another link, to a folder whose name begins alike, and to nothing."""
    data = tmp_path / "data"
    for folder in ("elsewhere", "data2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "b.png").write_bytes(png(3))
    (data / "out.png").symlink_to(tmp_path / "elsewhere" / "b.png")
    (data / "out").symlink_to(tmp_path / "elsewhere")
    (data / "twice.png").symlink_to("out.png")
    (data / "next.png").symlink_to(tmp_path / "data2" / "b.png")
    (data / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (data / "relative.png").symlink_to("../elsewhere/b.png")
    for read in (store.open_bytes, store.kind_of):
        with pytest.raises(MediaNotAllowed, match=r"is a link that leaves the data folder: copy its target into"):
            read(f"input:{through}")


def test_the_data_folder_may_be_a_link(store: MediaStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("data")
    linked = MediaStore(str(tmp_path / "link"), store.run_root)
    assert linked.open_bytes("input:images/a b.png") == png(7)


def snapshot(hub: Path, name: str) -> Path:
    """A data set in the Hub's cache, with a folder ``images`` whose files are links; its revision's folder."""
    revision = hub / name / "snapshots" / "0123abc"
    (revision / "images").mkdir(parents=True)
    (hub / name / "blobs").mkdir()
    (hub / name / "blobs" / "f00").write_bytes(png(3))
    (revision / "images" / "b.png").symlink_to("../../../blobs/f00")
    return revision


def test_a_snapshot_of_the_hub_is_a_folder_of_links(tmp_path: Path) -> None:
    revision = snapshot(tmp_path, "datasets--me--mine")
    for root, uri in ((revision, "input:images/b.png"), (revision / "images", "input:b.png")):
        assert MediaStore(str(root), str(tmp_path / "run")).open_bytes(uri) == png(3)


@pytest.mark.parametrize(
    "target", ["../../other/blobs/f00", "../../../blobs/f00", "../../blobs/deep/f00", "../other/a.png", "../../token"]
)
def test_a_link_from_a_snapshot_to_anything_else_is_refused(tmp_path: Path, target: str) -> None:
    """Another data set's files, another revision's, and what stands beside the blobs or below them."""
    revision = snapshot(tmp_path, "mine")
    snapshot(tmp_path, "other")
    for file in ("blobs/f00", "mine/blobs/deep/f00", "mine/snapshots/other/a.png", "mine/token"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(png(4))
    (revision / "c.png").symlink_to(Path("..") / target if target.startswith("../../other") else target)
    with pytest.raises(MediaNotAllowed, match="is a link that leaves the data folder"):
        MediaStore(str(revision), str(tmp_path / "run")).open_bytes("input:c.png")


@pytest.mark.parametrize("uri", ["input:no.png", "input:images", "input:images/a b.png/x", "input:" + "a" * 300])
def test_missing_files(store: MediaStore, uri: str) -> None:
    with pytest.raises(MediaMissing):
        store.open_bytes(uri)


def test_a_link_to_a_device_of_the_system_is_refused(store: MediaStore, tmp_path: Path) -> None:
    """It says that it is a plain file, and cannot be read."""
    (tmp_path / "data" / "mem.png").symlink_to("/proc/self/mem")
    with pytest.raises(MediaNotAllowed, match=r"'input:mem\.png' is a link that leaves the data folder"):
        store.open_bytes("input:mem.png")
    system = MediaStore("/proc/self", store.run_root)
    with pytest.raises(MediaNotAllowed, match=r"'input:mem' cannot be read: Input/output error"):
        system.open_bytes("input:mem")


def test_too_large_is_found_before_reading(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    store = MediaStore(str(tmp_path), str(tmp_path), limits=Limits(max_bytes=10))
    with pytest.raises(UndecodableMedia) as error:
        store.pixels("input:a.png")
    assert error.value.kind == "too_large"
    assert store.open_bytes("input:a.png") == png(1)


def test_drawn_files_are_named_by_content(store: MediaStore, tmp_path: Path) -> None:
    uri = store.write_drawn(b"abc", "png")
    assert uri == f"run:media/{sha256_bytes(b'abc')}.png"
    assert store.open_bytes(uri) == b"abc"
    file = tmp_path / "run" / "media" / f"{sha256_bytes(b'abc')}.png"
    written_ns = file.stat().st_mtime_ns
    assert store.write_drawn(b"abc", "png") == uri
    assert file.stat().st_mtime_ns == written_ns
    file.write_bytes(b"a")  # what a full disk might leave
    assert store.write_drawn(b"abc", "png") == uri
    assert store.open_bytes(uri) == b"abc"
    assert [p.name for p in file.parent.iterdir()] == [file.name]
    file.write_bytes(b"xyz")  # damaged, though as long as it was
    with pytest.raises(UndecodableMedia, match=r"has changed since it was written: run again"):
        store.open_bytes(uri)
    assert store.write_drawn(b"abc", "png") == uri
    assert store.open_bytes(uri) == b"abc"


@pytest.mark.parametrize("ext", ["", ".png", "PNG", "../x", "p/g"])
def test_extensions_are_plain(store: MediaStore, ext: str) -> None:
    with pytest.raises(ValueError, match="extension"):
        store.write_drawn(b"abc", ext)


def test_many_writers_of_the_same_picture(store: MediaStore, tmp_path: Path) -> None:
    data = bytes(200_000)
    start = threading.Barrier(8)

    def write(_: int) -> bytes:
        start.wait()
        return store.open_bytes(store.write_drawn(data, "png"))

    with ThreadPoolExecutor(8) as pool:
        assert all(read == data for read in pool.map(write, range(8)))
    assert len(list((tmp_path / "run" / "media").iterdir())) == 1


def test_pixels_are_kept_within_bounds(tmp_path: Path) -> None:
    for shade in range(4):
        (tmp_path / f"{shade}.png").write_bytes(png(shade))
    store = MediaStore(str(tmp_path), str(tmp_path), cache_bytes=2 * 300)
    first = store.pixels("input:0.png")
    store.pixels("input:1.png")
    assert store.pixels("input:0.png") is first
    store.pixels("input:2.png")  # pushes out 1, which was used longest ago
    assert store.pixels("input:0.png") is first
    store.pixels("input:1.png")
    store.pixels("input:2.png")
    assert store.pixels("input:0.png") is not first
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1


def test_a_cache_too_small_for_one_picture_still_decodes(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(3))
    store = MediaStore(str(tmp_path), str(tmp_path), cache_bytes=0)
    assert store.pixels("input:a.png").tolist() == np.full((10, 10, 3), 3).tolist()
    with pytest.raises(ValueError, match="negative"):
        MediaStore("a", "b", cache_bytes=-1)


def test_threads_share_a_store(tmp_path: Path) -> None:
    for shade in range(10):
        (tmp_path / f"{shade}.png").write_bytes(png(shade))
    store = MediaStore(str(tmp_path), str(tmp_path), cache_bytes=3 * 300)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: int(store.pixels(f"input:{i % 10}.png")[0, 0, 0]), range(200)))
    assert found == [i % 10 for i in range(200)]


def test_pickles_without_pixels(store: MediaStore) -> None:
    store.pixels("input:images/a b.png")
    data = pickle.dumps(store)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert (again.input_root, again.run_root, again.cache_bytes) == (
        store.input_root,
        store.run_root,
        store.cache_bytes,
    )
    assert again.open_bytes("input:images/a b.png") == png(7)


def test_roots_in_a_store(bucket: RemotePath) -> None:
    (bucket / "data/a[1].png").write_bytes(png(5))
    store = pickle.loads(pickle.dumps(MediaStore(f"{bucket}/data", f"{bucket}/run", storage=bucket.storage)))
    assert store.pixels("input:a[1].png")[0, 0].tolist() == [5, 5, 5]
    assert store.kind_of("input:a[1].png") == "image"
    uri = store.write_drawn(b"abc", "gz")
    assert store.write_drawn(b"abc", "gz") == uri
    assert store.open_bytes(uri) == b"abc"
    [file] = (bucket / "run/media").iterdir()
    file.write_bytes(b"xyz")
    with pytest.raises(UndecodableMedia, match="has changed"):
        store.open_bytes(uri)
    assert store.write_drawn(b"abc", "gz") == uri
    assert [path.read_bytes() for path in (bucket / "run/media").iterdir()] == [b"abc"]
    with pytest.raises(MediaMissing):
        store.open_bytes("input:b.png")
    with pytest.raises(MediaNotAllowed):
        store.open_bytes("input:../b.png")
    size = len(png(5))
    assert store.open_bytes("input:a[1].png", max_bytes=size) == png(5)
    with pytest.raises(UndecodableMedia, match=f"{size} bytes, the limit is {size - 1}"):
        store.open_bytes("input:a[1].png", max_bytes=size - 1)
