"""The reply cache: durable, shared between processes, and never wrong, whatever was cut off it."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.cache import CacheEntry, ReplyCache
from inference.request import Completion

LONG = "reply \N{SNOWMAN} " * 1500  # several pages of a SQLite file
CHILD = """
import os, signal, sys
from inference.cache import CacheEntry, ReplyCache
from inference.request import Completion
path, first, last, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
cache = ReplyCache(path)
for n in range(first, last):
    text = f"text {n} " * (1 + n % 50)
    cache.put([CacheEntry(f"key {n}", "policy", "p.v1", "m", 100, Completion(text, f"why {n}"))])
    print(n, flush=True)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def entry(key: str, text: str = "text", finish: str = "stop", max_tokens: int = 100) -> CacheEntry:
    return CacheEntry(key, "policy", "p.v1", "m", max_tokens, Completion(text, f"why {key}", finish))


def child_completion(n: int) -> Completion:
    return Completion(f"text {n} " * (1 + n % 50), f"why {n}")


def child(path: Path, first: int, last: int, end: str = "") -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", CHILD, str(path), str(first), str(last), end]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


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
    assert cache.get(["b", "a", "c"], 100) == {
        "a": Completion("x\0\n\N{SNOWMAN}", "why a", "stop"),
        "b": Completion("", "why b", "stop"),
    }
    assert cache.get([], 100) == {}
    assert cache.count() == 2


def test_a_lone_surrogate_in_a_reply_is_kept(opened: Opened) -> None:
    cache = opened()
    cache.put([entry("a", "cut emoji \ud83d")])
    assert cache.get(["a"], 1)["a"].text == "cut emoji \ud83d"


def test_another_cache_on_the_file_sees_it_at_once(opened: Opened) -> None:
    writer, reader = opened(), opened()
    writer.put([entry("a")])
    assert set(reader.get(["a"], 100)) == {"a"}


def test_closed_and_opened_again(opened: Opened, path: Path) -> None:
    cache = ReplyCache(str(path))
    cache.put([entry("a", LONG)])
    cache.close()
    assert opened().get(["a"], 100)["a"].text == LONG


def test_the_newer_of_two_replies_counts(opened: Opened) -> None:
    cache = opened()
    cache.put([entry("a", "old")])
    cache.put([entry("a", "new")])
    assert (cache.get(["a"], 100)["a"].text, cache.count()) == ("new", 1)


@pytest.mark.parametrize(
    ("finish", "kept_with", "asked_with", "found"),
    [
        ("length", 100, 101, False),
        ("length", 100, 100, True),
        ("length", 100, 50, True),
        ("stop", 100, 10_000, True),
        ("stop", 100, 1, True),
    ],
)
def test_a_truncated_reply_is_missing_for_a_larger_budget(
    opened: Opened, finish: str, kept_with: int, asked_with: int, found: bool
) -> None:
    cache = opened()
    cache.put([entry("a", "text", finish, kept_with)])
    assert bool(cache.get(["a"], asked_with)) is found


def test_a_larger_budget_replaces_a_truncated_reply(opened: Opened) -> None:
    cache = opened()
    cache.put([entry("a", "cut o", "length", 10), entry("b", "good", "stop", 10)])
    cache.put([entry("a", "cut off no more", "stop", 1000)])
    assert [completion.text for completion in cache.get("ab", 1000).values()] == ["cut off no more", "good"]


@pytest.mark.parametrize(
    "worse", [entry("a", "cut", "length", 10), entry("a", "cut later", "length", 50)], ids=["shorter", "longer"]
)
@pytest.mark.parametrize("better", [entry("a", "whole", "stop", 100), entry("a", "cut last", "length", 80)])
def test_a_truncated_reply_never_replaces_a_better_one(opened: Opened, better: CacheEntry, worse: CacheEntry) -> None:
    """As when two processes ask at once with different budgets."""
    cache = opened()
    cache.put([better])
    cache.put([worse])
    assert cache.get(["a"], 80) == {"a": better.completion}


def test_a_failed_put_leaves_the_cache_usable(opened: Opened) -> None:
    cache = opened()
    with pytest.raises(sqlite3.Error):
        cache.put([entry("a"), CacheEntry(None, "r", "p", "m", 1, Completion("b"))])  # type: ignore[arg-type]
    assert cache.count() == 0
    cache.put([entry("c")])
    assert set(cache.get(["a", "c"], 100)) == {"c"}


def test_many_threads(opened: Opened) -> None:
    cache = opened()

    def work(first: int) -> None:
        for n in range(first, first + 40):
            cache.put([entry(str(n), f"text {n}")])
            cache.get([str(n)], 100)

    threads = [Thread(target=work, args=(first,)) for first in range(0, 160, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = cache.get([str(n) for n in range(160)], 100)
    assert {key: completion.text for key, completion in kept.items()} == {str(n): f"text {n}" for n in range(160)}


def test_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = ReplyCache(":memory:")
    cache.put([entry("a")])
    assert cache.count() == 1
    cache.close()
    assert list(tmp_path.iterdir()) == []


def test_a_process_killed_after_put_has_kept_it(opened: Opened, path: Path) -> None:
    process = child(path, 0, 30, "killed")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    expected = {f"key {n}": child_completion(n) for n in range(30)}
    assert opened().get(list(expected), 100) == expected


def test_a_process_killed_among_puts_has_kept_what_it_said(opened: Opened, path: Path) -> None:
    process = child(path, 0, 1_000_000)
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(200)]
    os.kill(process.pid, signal.SIGKILL)
    said += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    process.stdout.close()
    process.wait(timeout=60)
    assert said == list(range(len(said)))
    cache = opened()
    assert cache.count() in (len(said), len(said) + 1)
    for n in said:
        assert cache.get([f"key {n}"], 100) == {f"key {n}": child_completion(n)}
    cache.put([entry("after")])
    assert set(cache.get(["after"], 100)) == {"after"}


def test_two_processes_write_at_once(opened: Opened, path: Path) -> None:
    processes = [child(path, 0, 300), child(path, 200, 500)]
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0]
    cache = opened()
    assert cache.count() == 500
    expected = {f"key {n}": child_completion(n) for n in range(500)}
    assert cache.get(list(expected), 100) == expected
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Completion]]:
    """A folder with a whole file, one with a file whose replies stand in its log only, and the replies."""
    entries = [entry(f"key {n}", LONG[: n * 199]) for n in range(60)]
    whole, logged = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("logged")
    cache = ReplyCache(str(whole / "r.sqlite"))
    for each in entries:
        cache.put([each])
    cache.close()
    source = tmp_path_factory.mktemp("source")
    cache = ReplyCache(str(source / "r.sqlite"))
    for each in entries:
        cache.put([each])
    for name in ("r.sqlite", "r.sqlite-wal"):
        shutil.copy(source / name, logged / name)
    cache.close()
    return whole, logged, {each.key: each.completion for each in entries}


def replies_of(folder: Path, expected: dict[str, Completion]) -> list[str]:
    """The keys that the cache finds, each with its right reply; raises what the cache raises."""
    cache = ReplyCache(str(folder / "r.sqlite"))
    kept = []
    try:
        for key in expected:
            found = cache.get([key], 100)
            assert found in ({}, {key: expected[key]})
            kept += found
        cache.put([entry("later")])
        assert set(cache.get(["later"], 100)) == {"later"}
        return kept
    finally:
        cache.close()


def cut_copy(folder: Path, name: str, share: float, target: Path) -> None:
    """A copy of the folder in which file ``name`` ends early."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    size = (target / name).stat().st_size
    os.truncate(target / name, int(size * share))


CUT = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@CUT
@given(share=st.floats(0, 1))
def test_a_cut_log_loses_its_end_only(written, tmp_path: Path, share: float) -> None:
    _, logged, expected = written
    cut_copy(logged, "r.sqlite-wal", share, tmp_path / "cut")
    kept = replies_of(tmp_path / "cut", expected)
    assert kept == list(expected)[: len(kept)]
    assert len(kept) == len(expected) or share < 1


@CUT
@given(share=st.floats(0, 1))
def test_a_cut_file_is_reported_or_opens_without_wrong_replies(written, tmp_path: Path, share: float) -> None:
    whole, _, expected = written
    cut_copy(whole, "r.sqlite", share, tmp_path / "cut")
    try:
        replies_of(tmp_path / "cut", expected)
    except (sqlite3.DatabaseError, ValueError) as error:
        assert str(error)


def test_a_file_that_is_no_cache_is_reported(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database, but a text that someone put there" * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        ReplyCache(str(path))
    assert path.read_bytes().startswith(b"no database")
