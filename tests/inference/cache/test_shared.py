"""The shared cache: what one store puts the others find, and nothing but whole segments is taken in."""

import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apache_beam.io.localfilesystem import LocalFileSystem

from inference.cache.replies import CacheEntry, CacheInUse, ReplyCache
from inference.cache.shared import SegmentStore, local_folder_of, open_cache, prune_segments, shared_location
from inference.request import Completion

NEVER_S = 3600.0
CHILD = """
import os, signal, sys
from inference.cache.replies import CacheEntry
from inference.request import Completion
from inference.cache.shared import SegmentStore
store = SegmentStore(sys.argv[1], sys.argv[2], 3600.0)
store.put([CacheEntry("from the dead", "policy", "p.v1", "m", 100, Completion("text"))])
os.kill(os.getpid(), signal.SIGKILL)
"""


class ShelfFileSystem(LocalFileSystem):
    """A remote store for the tests: ``rack://`` in front of a local path, registered by being a subclass."""

    @classmethod
    def scheme(cls) -> str:
        return "rack"

    def _path_open(self, path, mode, mime_type="", compression_type="auto"):  # type: ignore[no-untyped-def]
        return super()._path_open(path.removeprefix("rack://"), mode, mime_type, compression_type)

    def create(self, path, mime_type="", compression_type="auto"):  # type: ignore[no-untyped-def]
        return super().create(path.removeprefix("rack://"), mime_type, compression_type)

    def exists(self, path: str) -> bool:
        return super().exists(path.removeprefix("rack://"))

    def size(self, path: str) -> int:
        return super().size(path.removeprefix("rack://"))

    def metadata(self, path: str):  # type: ignore[no-untyped-def]
        found = super().metadata(path.removeprefix("rack://"))
        found.path = path
        return found

    def _list(self, dir_or_prefix: str):  # type: ignore[no-untyped-def]
        for found in super()._list(dir_or_prefix.removeprefix("rack://")):
            found.path = f"rack://{found.path}"
            yield found

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        plain = [[n.removeprefix("rack://") for n in names] for names in (source_file_names, destination_file_names)]
        super().rename(*plain)

    def delete(self, paths: list[str]) -> None:
        super().delete([path.removeprefix("rack://") for path in paths])


def entry(key: str, text: str = "text", finish: str = "stop", max_tokens: int = 100) -> CacheEntry:
    return CacheEntry(key, "policy", "p.v1", "m", max_tokens, Completion(text, f"\ud83d {key}", finish))


@pytest.fixture(params=["", "rack://"], ids=["mounted", "remote"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}{tmp_path}/shared"


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    return tmp_path / "shared" / "segments"


@pytest.fixture
def opened(tmp_path: Path, location: str) -> Iterator[Callable[..., SegmentStore]]:
    """Open a store with a named local folder; all are closed at the end."""
    stores: list[SegmentStore] = []

    def build(name: str = "a", every_s: float = NEVER_S) -> SegmentStore:
        stores.append(SegmentStore(location, str(tmp_path / name), every_s))
        return stores[-1]

    yield build
    for store in stores:
        store.close()


Opened = Callable[..., SegmentStore]


def wait_until(holds: Callable[[], bool]) -> None:
    """Poll for at most 20 s; raises when it never holds."""
    deadline, pause = time.monotonic() + 20, threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.01)


def test_two_stores_find_each_others_replies(opened: Opened, segments: Path) -> None:
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


def test_stores_that_are_open_exchange_replies_by_themselves(opened: Opened) -> None:
    one, other = opened("a", 0.02), opened("b", 0.02)
    one.put([entry("1")])
    wait_until(lambda: other.count() == 1)


def test_what_a_closed_store_had_is_found_on_another_machine(opened: Opened) -> None:
    store = opened("a")
    store.put([entry(str(n)) for n in range(2000)])
    store.close()
    store.close()
    assert opened("b").count() == 2000


def test_a_killed_process_has_its_replies_uploaded_by_the_next(opened: Opened, tmp_path: Path, location: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, f"{tmp_path}/shared", str(tmp_path / "a")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert opened("b").count() == 0
    assert set(opened("a").get(["from the dead"])) == {"from the dead"}
    assert opened("c").count() == 1


def test_torn_and_foreign_segments_are_passed_over_and_counted(opened: Opened, segments: Path) -> None:
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


def test_an_upload_that_fails_is_tried_again_and_raises_at_close(
    opened: Opened, tmp_path: Path, segments: Path, location: str
) -> None:
    store = SegmentStore(location, str(tmp_path / "a"), 0.02)
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


def test_a_location_with_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pattern"):
        SegmentStore("gs://bucket/a*", str(tmp_path / "a"))


def test_compaction_keeps_every_reply(opened: Opened, segments: Path) -> None:
    one, other = opened("a"), opened("b")
    for n in range(5):
        one.put([entry(str(n), "cut", "length", n + 1)])
        one.synchronize()
    other.put([entry("0", "whole")])
    other.synchronize()
    assert len(list(segments.iterdir())) == 6
    assert one.compact() == 6
    assert len(list(segments.iterdir())) == 1
    assert one.compact() == 0
    for store in (one, other, opened("c")):
        store.synchronize()
        assert store.count() == 5
        assert store.get("0")["0"].completion.text == "whole"


def test_compaction_among_a_writer_and_a_reader(opened: Opened, tmp_path: Path) -> None:
    writer, reader, third = opened("a", 0.01), opened("b", 0.01), opened("c")
    for n in range(60):
        writer.put([entry(f"key {n}")])
        if n % 10 == 5:
            third.compact()
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


def test_open_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    memory, local = open_cache(":memory:"), open_cache(str(tmp_path / "c" / "replies.sqlite"))
    assert (type(memory), type(local)) == (ReplyCache, ReplyCache)
    remote = open_cache(f"rack://{tmp_path}/far/replies.sqlite")
    assert isinstance(remote, SegmentStore)
    remote.put([entry("1")])
    for cache in (memory, local, remote):
        cache.close()
    assert len(list((tmp_path / "far" / "segments").iterdir())) == 1
    folder = local_folder_of(f"rack://{tmp_path}/far")
    assert folder.parent == tmp_path / "home" / "groundtrace"
    assert (folder / "replies.sqlite").is_file()
    assert shared_location("gs://b/run/cache/replies.sqlite") == "gs://b/run/cache"
    assert shared_location(str(tmp_path / "replies.sqlite")) is None
    assert not (tmp_path / "c" / "segments").exists()
