"""The reply cache: durable, shared between processes, and never wrong, whatever was cut off it."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from groundtrace.inference.cache.log import read_log
from groundtrace.inference.cache.replies import CachedReply, CacheEntry, CacheInUse, ReplyCache
from groundtrace.inference.request import Completion
from groundtrace.schemas.safe_files import UnsafeFile

from ..cached_replies import OLD, entry, found

LONG = "reply \N{SNOWMAN} " * 1500  # several pages of a SQLite file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "replies.sqlite"


@pytest.fixture
def opened(path: Path):
    """Open the cache, as often as wanted; all are closed at the end."""
    caches: list[ReplyCache] = []

    def build(at: Path = path) -> ReplyCache:
        caches.append(ReplyCache(str(at)))
        return caches[-1]

    yield build
    for cache in caches:
        cache.close()


Opened = Callable[..., ReplyCache]


def test_gives_back_what_was_put(opened: Opened) -> None:
    cache = opened()
    cache.put([entry("a", "x\0\n\N{SNOWMAN}"), entry("b", "")])
    assert found(cache, ["b", "a", "c"]) == {
        "a": Completion("x\0\n\N{SNOWMAN}", "why a", "stop"),
        "b": Completion("", "why b", "stop"),
    }
    assert cache.get([]) == {}
    assert cache.count() == 2


def test_a_lone_surrogate_in_a_reply_is_unreadable(opened: Opened) -> None:
    cache = opened()
    cache.put([entry("a", "cut emoji \ud83d")])
    assert cache.get(["a"])["a"].completion.text == "cut emoji \ufffd"


def test_another_cache_on_the_file_sees_it_at_once(opened: Opened) -> None:
    writer, reader = opened(), opened()
    writer.put([entry("a")])
    assert set(reader.get(["a"])) == {"a"}


def test_closed_and_opened_again(opened: Opened, path: Path) -> None:
    cache = ReplyCache(str(path))
    cache.put([entry("a", LONG)])
    cache.close()
    assert opened().get(["a"])["a"].completion.text == LONG


def test_the_first_of_two_replies_stands(opened: Opened, path: Path) -> None:
    """Also for the one who put the second: what is used and what is kept are the same."""
    one, other = opened(), opened()
    assert one.put([entry("a", "first")])["a"].completion.text == "first"
    standing = other.put([entry("a", "second"), entry("b", "third")])
    assert {key: kept.completion.text for key, kept in standing.items()} == {"a": "first", "b": "third"}
    assert (found(one, ["a"])["a"].text, one.count()) == ("first", 2)
    one.close()
    other.close()
    path.unlink()
    assert found(opened(), ["a"])["a"].text == "first", "rebuilt from the logs, which hold both"


@pytest.mark.parametrize(
    ("finish", "kept_with", "asked_with", "serves"),
    [
        ("length", 100, 101, False),
        ("length", 100, 100, True),
        ("length", 100, 50, True),
        ("stop", 100, 10_000, True),
        ("stop", 100, 1, True),
    ],
)
def test_a_truncated_reply_is_missing_for_a_larger_budget(
    opened: Opened, finish: str, kept_with: int, asked_with: int, serves: bool
) -> None:
    cache = opened()
    cache.put([entry("a", "text", finish, kept_with)])
    assert cache.get(["a"])["a"].serves(asked_with) is serves


def test_a_larger_budget_replaces_a_truncated_reply(opened: Opened) -> None:
    cache = opened()
    cache.put([entry("a", "cut o", "length", 10), entry("b", "good", "stop", 10)])
    cache.put([entry("a", "cut off no more", "stop", 1000)])
    assert [completion.text for completion in found(cache, "ab").values()] == ["cut off no more", "good"]


@pytest.mark.parametrize(
    "worse", [entry("a", "cut", "length", 10), entry("a", "cut later", "length", 50)], ids=["shorter", "longer"]
)
@pytest.mark.parametrize("better", [entry("a", "whole", "stop", 100), entry("a", "cut last", "length", 80)])
def test_a_truncated_reply_never_replaces_a_better_one(opened: Opened, better: CacheEntry, worse: CacheEntry) -> None:
    """As when two processes ask at once with different budgets."""
    cache = opened()
    cache.put([better])
    cache.put([worse])
    assert found(cache, ["a"]) == {"a": better.completion}


def test_a_failed_put_leaves_the_cache_usable(opened: Opened) -> None:
    cache = opened()
    with pytest.raises(ValueError, match="key"):
        cache.put([entry("a"), CacheEntry(None, "r", "p", "m", 1, Completion("b"))])  # type: ignore[arg-type]
    assert cache.count() == 0
    cache.put([entry("c")])
    assert set(cache.get(["a", "c"])) == {"c"}


def test_many_threads(opened: Opened) -> None:
    cache = opened()

    def work(first: int) -> None:
        for n in range(first, first + 40):
            cache.put([entry(str(n), f"text {n}")])
            cache.get([str(n)])

    threads = [Thread(target=work, args=(first,)) for first in range(0, 160, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = found(cache, map(str, range(160)))
    assert {key: completion.text for key, completion in kept.items()} == {str(n): f"text {n}" for n in range(160)}


def test_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = ReplyCache(":memory:")
    cache.put([entry("a")])
    assert cache.count() == 1
    cache.close()
    assert list(tmp_path.iterdir()) == []


def test_more_keys_than_one_query_takes(opened: Opened) -> None:
    cache = opened()
    cache.put([entry(str(n)) for n in range(2500)])
    assert len(cache.get(str(n) for n in range(-100, 40_000))) == 2500
    assert [logged.entry.key for logged in cache.entries()] == sorted(map(str, range(2500)))


def test_tokens_and_logprobs_are_kept(opened: Opened) -> None:
    scored = Completion("three", "", "stop", (-0.25, -1.5))
    opened().put([CacheEntry("a", "judge", "p.v1", "m", 9, scored, 30, 4)])
    assert opened().get(["a"]) == {"a": CachedReply(scored, 9, 30, 4)}


def old_database(path: Path, replies: int) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(OLD)
        for n in range(replies):
            body = json.dumps({"text": f"old {n}", "reasoning": "\ud83d", "finish_reason": "stop"})
            db.execute("INSERT INTO replies VALUES (?,?,?,?,?,?,?)", (f"key {n}", "policy", "p.v1", "m", 9, 5.0, body))
    db.close()


@pytest.mark.parametrize("replies", [0, 700])
def test_a_database_of_before_is_brought_up_to_date(opened: Opened, path: Path, replies: int) -> None:
    old_database(path, replies)
    expected = {f"key {n}": CachedReply(Completion(f"old {n}", "\ud83d"), 9) for n in range(replies)}
    cache = opened()
    assert cache.get(expected) == expected
    cache.put([entry("new")])
    cache.close()
    path.unlink()
    assert opened().count() == replies + 1
    assert opened().get(expected) == expected


def test_kept_exclusively_it_lets_no_other_in(opened: Opened, path: Path) -> None:
    cache = opened()
    with pytest.raises(CacheInUse, match=r"replies\.sqlite"):
        ReplyCache(str(path), exclusive=True)
    cache.close()
    ReplyCache(str(path), exclusive=True).close()


def test_closed_it_says_so(opened: Opened) -> None:
    cache = opened()
    cache.close()
    cache.close()
    with pytest.raises(ValueError, match="closed"):
        cache.count()


def test_what_is_dropped_stays_dropped_when_the_database_is_rebuilt(path: Path) -> None:
    cache = ReplyCache(str(path))
    cache.put([entry(str(n), finish="length" if n % 3 else "stop") for n in range(30)])
    cache.close()
    cache = ReplyCache(str(path), exclusive=True)
    assert cache.rewrite(lambda logged: logged.entry.completion.finish_reason != "length") == 20
    cache.put([entry("later")])
    cache.close()
    path.unlink()
    cache = ReplyCache(str(path))
    assert {logged.entry.key for logged in cache.entries()} == {*map(str, range(0, 30, 3)), "later"}
    cache.close()


LINKS = [
    "log", "coordination", "coordination/.lock", "coordination/peers.sqlite",
    "replies.sqlite", "replies.sqlite-wal", "replies.sqlite-shm", ".cache.lock", ".rebuild.lock",
]  # fmt: skip


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("target", ["elsewhere", "missing"])
def test_no_file_of_the_cache_may_be_a_link(opened: Opened, path: Path, tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x.jsonl").write_text("precious")
    link = path.parent / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / target)
    with pytest.raises(UnsafeFile, match=rf"^{link} is a link, but .*, or remove it$"):
        opened()
    assert [each.name for each in (tmp_path / "elsewhere").iterdir()] == ["x.jsonl"]
    assert not (tmp_path / "missing").exists()


def test_the_folder_of_the_cache_may_be_a_link(opened: Opened, path: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    path.parent.symlink_to(tmp_path / "disk")
    opened().put([entry("a")])
    assert opened().count() == 1 and (tmp_path / "disk" / path.name).exists()


@pytest.mark.parametrize("name", [".cache.lock", ".rebuild.lock"])
def test_the_locks_are_regular_files_of_their_own(opened: Opened, path: Path, name: str) -> None:
    path.parent.mkdir()
    os.mkfifo(path.parent / name)
    with pytest.raises(UnsafeFile, match="but a pipe"):
        opened()
    (path.parent / name).unlink()
    for each in (".cache.lock", ".rebuild.lock"):
        (path.parent / each).unlink(missing_ok=True)
    (path.parent / ".cache.lock").touch()
    (path.parent / ".rebuild.lock").hardlink_to(path.parent / ".cache.lock")
    with pytest.raises(UnsafeFile, match=r"are the same file, .*: remove both$"):
        opened()


@pytest.mark.parametrize(
    "name",
    [
        "replies.sqlite", "replies.sqlite-wal", "replies.sqlite-shm", "replies.sqlite-journal",
        "coordination/.lock", "coordination/peers.sqlite",
    ],
)  # fmt: skip
def test_a_pipe_in_the_cache_is_not_waited_for(opened: Opened, path: Path, name: str) -> None:
    pipe = path.parent / name
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    with pytest.raises(UnsafeFile, match=rf"^{pipe} is not a regular file, but a pipe: move it away$"):
        opened()


def test_only_files_with_the_names_of_logs_are_read_and_deleted(opened: Opened, path: Path) -> None:
    opened().put([entry("a")])
    [log] = (path.parent / "log").iterdir()
    for name in ("letters.jsonl", "20260101T000000000000-1.jsonl"):
        log.with_name(name).write_text("precious")
    os.mkfifo(log.with_name("0.jsonl"))
    cache = ReplyCache(str(path.with_name("other.sqlite")))
    assert (cache.count(), cache.damaged_lines) == (1, 0)
    cache.close()


def test_a_pipe_with_the_name_of_a_log_is_refused(opened: Opened, path: Path) -> None:
    (path.parent / "log").mkdir(parents=True)
    pipe = path.parent / "log" / f"20260101T000000000000-1-{'0' * 32}.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(UnsafeFile, match=rf"^{pipe} is not a regular file, but a pipe: move it away$"):
        list(read_log(pipe))
