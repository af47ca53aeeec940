"""A cache whose files were cut, changed or removed: nothing is lost while only one of the two stores is hurt."""

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.inference.cache.replies import CacheEntry, ReplyCache
from groundtrace.inference.request import Completion

NAME = "replies.sqlite"
EXAMPLES = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
REPLIES = {
    f"key {n:02}": Completion(f"reply {n} \N{SNOWMAN} " * (n * 67 % 100 + 300 * (n == 7)), f"why {n}")
    for n in range(10)
}


def entry(key: str, completion: Completion) -> CacheEntry:
    return CacheEntry(key, "policy", "p.v1", "m", 100, completion)


def fill(cache: ReplyCache) -> None:
    for key, completion in REPLIES.items():
        cache.put([entry(key, completion)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A cache that was closed, and one whose process died: replies in SQLite's log, as a whole or in part moved."""
    found = {name: tmp_path_factory.mktemp(name) / "cache" for name in ("closed", "died", "moved")}
    cache = ReplyCache(str(found["closed"] / NAME))
    fill(cache)
    cache.close()
    source = tmp_path_factory.mktemp("source")
    cache = ReplyCache(str(source / NAME))
    fill(cache)
    shutil.copytree(source, found["died"])
    with sqlite3.connect(source / NAME) as db:
        assert db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0] == 0
    db.close()
    shutil.copytree(source, found["moved"])
    cache.close()
    return found


def all_replies(folder: Path) -> dict[str, Completion]:
    """What the cache holds, after a check that it takes new replies."""
    cache = ReplyCache(str(folder / NAME))
    try:
        cache.put([entry("later", Completion("new"))])
        kept = {key: each.completion for key, each in cache.get([*REPLIES, "later"]).items()}
        assert kept.pop("later") == Completion("new")
        assert cache.count() == len(kept) + 1
        return kept
    finally:
        cache.close()


def copied(folder: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*-shm"))
    return target


@pytest.mark.faults
@pytest.mark.parametrize("state", ["closed", "died", "moved"])
def test_a_database_cut_at_any_byte_loses_nothing(folders: dict[str, Path], tmp_path: Path, state: str) -> None:
    size_bytes = (folders[state] / NAME).stat().st_size
    for cut in range(0, size_bytes, 97 if state == "closed" else 97 * 5):
        folder = copied(folders[state], tmp_path / "cut")
        os.truncate(folder / NAME, cut)
        assert all_replies(folder) == REPLIES, cut


@pytest.mark.faults
@pytest.mark.parametrize("state", ["died", "moved"])
@EXAMPLES
@given(share=st.floats(0, 1))
def test_sqlites_own_log_cut_anywhere_loses_nothing(
    folders: dict[str, Path], tmp_path: Path, state: str, share: float
) -> None:
    folder = copied(folders[state], tmp_path / "cut")
    wal = folder / f"{NAME}-wal"
    os.truncate(wal, int(wal.stat().st_size * share))
    assert all_replies(folder) == REPLIES


@pytest.mark.faults
@pytest.mark.parametrize("state", ["closed", "died"])
@EXAMPLES
@given(share=st.floats(0, 1))
def test_a_cut_log_costs_nothing_while_the_database_is_whole(
    folders: dict[str, Path], tmp_path: Path, state: str, share: float
) -> None:
    folder = copied(folders[state], tmp_path / "cut")
    [log] = (folder / "log").iterdir()
    os.truncate(log, int(log.stat().st_size * share))
    assert all_replies(folder) == REPLIES
    assert all_replies(folder) == REPLIES


@EXAMPLES
@given(share=st.floats(0, 1), flip=st.integers(1, 255))
def test_changed_bytes_of_the_database_give_no_wrong_reply(
    folders: dict[str, Path], tmp_path: Path, share: float, flip: int
) -> None:
    folder = copied(folders["closed"], tmp_path / "cut")
    data = bytearray((folder / NAME).read_bytes())
    where = int((len(data) - 1) * share)
    for offset in range(where, min(where + 40, len(data))):
        data[offset] ^= flip
    (folder / NAME).write_bytes(data)
    cache = ReplyCache(str(folder / NAME))
    kept = {key: found.completion for key, found in cache.get(REPLIES).items()}
    cache.close()
    assert {key: REPLIES[key] for key in kept} == kept  # one whose key was hit may be missing, and is asked for again


@pytest.mark.faults
@EXAMPLES
@given(cut=st.floats(0, 1), log_cut=st.floats(0, 1))
def test_with_both_cut_what_is_found_is_right(
    folders: dict[str, Path], tmp_path: Path, cut: float, log_cut: float
) -> None:
    folder = copied(folders["closed"], tmp_path / "cut")
    [log] = (folder / "log").iterdir()
    os.truncate(log, int(log.stat().st_size * log_cut))
    os.truncate(folder / NAME, int((folder / NAME).stat().st_size * cut))
    kept = all_replies(folder)
    assert {key: REPLIES[key] for key in kept} == kept


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"no database, but a text that someone put there" * 100),
        lambda file: sqlite3.connect(file).executescript("DROP TABLE replies; CREATE TABLE replies (a); VACUUM"),
        lambda file: sqlite3.connect(file).executescript("UPDATE replies SET body = 'no JSON', crc = NULL; VACUUM"),
        lambda file: sqlite3.connect(file).executescript("UPDATE replies SET body = replace(body, 'reply', 'other')"),
    ],
    ids=["removed", "emptied", "text", "other tables", "other bodies", "changed bodies"],
)
def test_a_file_that_is_no_cache_is_put_aside(
    folders: dict[str, Path], tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = copied(folders["closed"], tmp_path / "cut")
    harm(folder / NAME)
    assert all_replies(folder) == REPLIES


def test_the_damaged_file_is_kept_and_one_line_says_so(
    folders: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(folders["closed"], tmp_path / "cut")
    (folder / NAME).write_bytes(b"a thesis" * 1000)
    with caplog.at_level(logging.WARNING):
        assert all_replies(folder) == REPLIES
    [record] = [record for record in caplog.records if record.name == "groundtrace.inference.cache.replies"]
    assert "was damaged (the cache file is not an SQLite database); rebuilt with 10 replies" in record.getMessage()
    assert (folder / f"{NAME}.damaged").read_bytes() == b"a thesis" * 1000
    assert sorted(each.name for each in folder.iterdir()) == [
        ".cache.lock", ".rebuild.lock", "log", NAME, f"{NAME}.damaged",
    ]  # fmt: skip


def test_damage_while_two_have_it_open(
    folders: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(folders["closed"], tmp_path / "cut")
    one, other = ReplyCache(str(folder / NAME)), ReplyCache(str(folder / NAME))
    os.truncate(folder / NAME, 4096 * 2)
    for cache, key in ((one, "a"), (other, "b"), (one, "c")):
        assert {k: kept.completion for k, kept in cache.get(REPLIES).items()} == REPLIES
        cache.put([entry(key, Completion(key))])
    assert set(one.get("abc")) == set(other.get("abc")) == set("abc")
    one.close()
    other.close()
    assert len([record for record in caplog.records if record.name == "groundtrace.inference.cache.replies"]) == 1
    cache = ReplyCache(str(folder / NAME))
    assert cache.count() == len(cache.get([*REPLIES, *"abc"])) == len(REPLIES) + 3
    cache.close()


def test_the_whole_folder_removed_while_open(tmp_path: Path) -> None:
    cache = ReplyCache(str(tmp_path / "cache" / NAME))
    fill(cache)
    shutil.rmtree(tmp_path / "cache")
    assert cache.get(REPLIES) == {}
    cache.put([entry("a", Completion("a"))])
    cache.close()
    cache = ReplyCache(str(tmp_path / "cache" / NAME))
    assert set(cache.get("a")) == {"a"}
    cache.close()
