"""The shared cache: what one store puts the others find, and nothing but whole segments is taken in."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import CacheEntry, CacheInUse, ReplyCache
from groundtrace.inference.cache.shared import (
    SegmentStore,
    local_folder_of,
    merge,
    open_cache,
    prune_segments,
    shared_location,
)
from groundtrace.inference.cache.shared_files import SegmentFiles
from groundtrace.inference.request import Completion
from groundtrace.storage.places import Place, RemotePath, StorageError, StorageSettings, StoreUnavailable
from groundtrace.storage.uploads import Uploads

from ...stores.faults import between

CHILD = """
import os, signal, sys
from groundtrace.inference.cache.replies import CacheEntry
from groundtrace.inference.request import Completion
from groundtrace.inference.cache.shared import SegmentStore
store = SegmentStore(sys.argv[1], sys.argv[2])
store.put([CacheEntry("from the dead", "policy", "p.v1", "m", 100, Completion("text"))])
os.kill(os.getpid(), signal.SIGKILL)
"""


def entry(key: str, text: str = "text", finish: str = "stop", max_tokens: int = 100) -> CacheEntry:
    return CacheEntry(key, "policy", "p.v1", "m", max_tokens, Completion(text, f"\ud83d {key}", finish))


@pytest.fixture(params=["mounted", "s3", pytest.param("gs", marks=pytest.mark.stores)])
def shared(request: pytest.FixtureRequest, tmp_path: Path, new_bucket: Callable[..., RemotePath]) -> Place:
    return (tmp_path if request.param == "mounted" else new_bucket(request.param)) / "shared"


@pytest.fixture
def location(shared: Place) -> str:
    return str(shared)


@pytest.fixture
def segments(shared: Place) -> Place:
    return shared / "segments"


@pytest.fixture
def opened(tmp_path: Path, location: str) -> Iterator[Callable[..., SegmentStore]]:
    """Open a store with a named local folder; all are closed at the end."""
    stores: list[SegmentStore] = []

    def build(name: str = "a", uploads: Uploads | None = None) -> SegmentStore:
        stores.append(SegmentStore(location, str(tmp_path / name), uploads))
        return stores[-1]

    yield build
    for store in stores:
        store.close()


Opened = Callable[..., SegmentStore]


@pytest.fixture
def uploads_every() -> Iterator[Callable[[float], Uploads]]:
    """Make uploads with an interval in seconds; all are closed at the end, or their threads would go on."""
    with contextlib.ExitStack() as closing:

        def build(every_s: float) -> Uploads:
            uploads = Uploads(every_s)
            closing.callback(uploads.close)
            return uploads

        yield build


Every = Callable[[float], Uploads]


def wait_until(holds: Callable[[], bool]) -> None:
    """Poll for at most 20 s; raises when it never holds."""
    deadline, pause = time.monotonic() + 20, threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.01)


def test_two_stores_find_each_others_replies(opened: Opened, segments: Place) -> None:
    one, other = opened("a"), opened("b")
    one.put([entry("1", "first")])
    other.put([entry("2", "second")])
    assert one.get("12").keys() == {"1"}
    for store in (one, other, one):
        store.synchronize()
    assert one.get("12") == other.get("12")
    assert {key: kept.completion for key, kept in one.get("12").items()} == {
        "1": Completion("first", "\ud83d 1"),
        "2": Completion("second", "\ud83d 2"),
    }
    assert len(list(segments.iterdir())) == 2
    for store in (one, other, one):
        store.synchronize()
    assert len(list(segments.iterdir())) == 2, "a store uploaded what it had taken in"


def test_stores_that_are_open_exchange_replies_by_themselves(opened: Opened, uploads_every: Every) -> None:
    uploads = uploads_every(0.02)
    one, other = opened("a", uploads), opened("b", uploads)
    one.put([entry("1")])
    wait_until(lambda: other.count() == 1)


def test_what_a_closed_store_had_is_found_on_another_machine(opened: Opened) -> None:
    store = opened("a")
    store.put([entry(str(n)) for n in range(2000)])
    store.close()
    store.close()
    assert opened("b").count() == 2000


def test_a_killed_process_has_its_replies_uploaded_by_the_next(opened: Opened, tmp_path: Path, location: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, location, str(tmp_path / "a")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert opened("b").count() == 0
    assert set(opened("a").get(["from the dead"])) == {"from the dead"}
    assert opened("c").count() == 1


def test_torn_and_foreign_segments_are_passed_over_and_counted(opened: Opened, segments: Place) -> None:
    one = opened("a")
    one.put([entry("1")])
    one.close()
    [whole] = segments.iterdir()
    torn = segments / f"20200101T000000000000-{'a' * 32}.jsonl.zz"
    torn.write_bytes(whole.read_bytes()[:-9])
    (segments / f"20200101T000000000001-{'b' * 32}.jsonl.zz").write_bytes(b"no zlib")
    (segments / f"20200101T000000000002-{'c' * 32}.jsonl.zz").write_bytes(zlib.compress(b"no lines\nof ours"))
    (segments / "notes.txt").write_bytes(b"someone's")
    other = opened("b")
    assert (other.count(), other.torn, other.foreign) == (1, 2, 1)
    assert other.damaged_lines == 2
    torn.write_bytes(whole.read_bytes())  # it was still being written
    other.synchronize()
    assert other.torn == 1


@pytest.mark.parametrize("shared", ["mounted"], indirect=True)
def test_an_upload_that_fails_is_tried_again_and_raises_at_close(
    opened: Opened, uploads_every: Every, tmp_path: Path, location: str
) -> None:
    segments = tmp_path / "shared" / "segments"
    uploads = uploads_every(0.02)
    store = SegmentStore(location, str(tmp_path / "a"), uploads)
    segments.parent.mkdir(exist_ok=True)
    segments.write_bytes(b"a file where the folder should be")
    store.put([entry("1")])
    with pytest.raises(OSError, match=r"director|exist"):
        store.synchronize()
    assert set(store.get("1")) == {"1"}
    segments.unlink()
    wait_until(lambda: segments.is_dir() and len(list(segments.glob("*.zz"))) == 1)
    for file in segments.iterdir():
        file.unlink()
    segments.rmdir()
    segments.write_bytes(b"again")
    store.put([entry("2")])
    uploads.close()
    with pytest.raises(OSError, match=r"director|exist"):
        store.close()
    segments.unlink()
    assert opened("a").count() == 2
    assert opened("b").get("2").keys() == {"2"}


def test_a_location_that_is_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        SegmentStore(str(tmp_path / "file"), str(tmp_path / "a"))
    ReplyCache(str(tmp_path / "a" / "replies.sqlite"), exclusive=True).close()


def test_a_location_that_no_store_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere:// is not supported"):
        SegmentStore("nowhere://bucket/a", str(tmp_path / "a"))


@pytest.mark.parametrize("scheme", ["s3", pytest.param("gs", marks=pytest.mark.faults)])
def test_a_store_that_is_away_loses_no_reply(
    scheme: str,
    request: pytest.FixtureRequest,
    new_bucket: Callable[..., RemotePath],
    uploads_every: Every,
    tmp_path: Path,
) -> None:
    with between(request.getfixturevalue(f"{scheme}_url")) as (url, faults):
        location = f"{new_bucket(scheme, url)}/odd [name]*"
        impatient = StorageSettings(endpoint_url=url, gs_endpoint_url=url, retry_s=0.3)
        uploads = uploads_every(0.05)
        store = SegmentStore(location, str(tmp_path / "a"), uploads, impatient)
        store.put([entry("1")])
        faults.fail_for(1.5)
        store.put([entry("2")])
        wait_until(lambda: faults.failed > 1)
        store.put([entry("3")])
        wait_until(lambda: not faults.is_failing())
        uploads.close()
        store.close()
        store = SegmentStore(location, str(tmp_path / "a"), storage=impatient)
        store.put([entry("4")])
        faults.fail_for(60)
        with pytest.raises(StoreUnavailable):
            store.close()
        faults.fail_for(0)
        for name, keys in (("b", set("123")), ("a", set("1234")), ("c", set("1234"))):
            other = SegmentStore(location, str(tmp_path / name), storage=impatient)
            assert other.get("1234").keys() == keys
            other.close()


def test_merging_keeps_every_reply(opened: Opened, location: str, segments: Place) -> None:
    one, other = opened("a"), opened("b")
    for n in range(5):
        one.put([entry(str(n), "cut", "length", n + 1)])
        one.synchronize()
    other.put([entry("0", "whole")])
    other.synchronize()
    assert len(list(segments.iterdir())) == 6
    assert merge(SegmentFiles(location)) == (6, 0)
    assert len(list(segments.iterdir())) == 1
    assert merge(SegmentFiles(location)) == (0, 0)
    for store in (one, other, opened("c")):
        store.synchronize()
        assert store.count() == 5
        assert store.get("0")["0"].completion.text == "whole"


def test_merging_among_a_writer_and_a_reader(opened: Opened, uploads_every: Every, location: str) -> None:
    writing = uploads_every(0.01)
    writer, reader = opened("a", writing), opened("b", uploads_every(0.01))
    for n in range(60):
        writer.put([entry(f"key {n}")])
        if n % 10 == 5:
            merge(SegmentFiles(location))
    writing.close()
    writer.close()
    wait_until(lambda: reader.count() == 60)
    assert opened("d").count() == 60


def test_what_is_pruned_stays_away(opened: Opened, tmp_path: Path, location: str) -> None:
    store = opened("a")
    store.put([entry(str(n), finish="length" if n % 2 else "stop") for n in range(10)])

    def keep(logged) -> bool:  # type: ignore[no-untyped-def]
        return logged.entry.completion.finish_reason != "length"

    with pytest.raises(CacheInUse):
        prune_segments(location, str(tmp_path / "a"), keep)
    store.close()
    assert prune_segments(location, str(tmp_path / "a"), keep) == 5
    for name in ("a", "b"):
        assert opened(name).get("0123456789").keys() == set("02468")


def test_a_lost_note_of_what_was_uploaded_costs_a_second_upload_only(opened: Opened, tmp_path: Path) -> None:
    store = opened("a")
    store.put([entry("1")])
    store.close()
    (tmp_path / "a" / "uploaded.json").write_bytes(b"{")
    assert opened("a").count() == 1
    assert opened("b").count() == 1


def test_open_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_bucket: Callable[..., RemotePath]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    memory, local = open_cache(":memory:"), open_cache(str(tmp_path / "c" / "replies.sqlite"))
    assert (type(memory), type(local)) == (ReplyCache, ReplyCache)
    far = new_bucket("s3") / "far"
    remote = open_cache(f"{far}/replies.sqlite")
    assert isinstance(remote, SegmentStore)
    remote.put([entry("1")])
    for cache in (memory, local, remote):
        cache.close()
    assert len(list((far / "segments").iterdir())) == 1
    folder = local_folder_of(str(far))
    assert folder != local_folder_of(str(far), StorageSettings(endpoint_url="http://elsewhere"))
    assert folder.parent == tmp_path / "home" / "groundtrace"
    assert (folder / "replies.sqlite").is_file()
    assert shared_location("gs://b/run/cache/replies.sqlite") == "gs://b/run/cache"
    assert shared_location(str(tmp_path / "replies.sqlite")) is None
    (tmp_path / "loop").symlink_to("loop")
    assert shared_location(str(tmp_path / "loop/replies.sqlite")) is None
    assert not (tmp_path / "c" / "segments").exists()
