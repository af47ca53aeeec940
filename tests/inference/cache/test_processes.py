"""The reply cache among several processes, some of them killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.request import Completion

from ..cached_replies import OLD, entry, found

CHILD = """
import os, signal, sys
from groundtrace.inference.cache.replies import CacheEntry, ReplyCache
from groundtrace.inference.request import Completion
path, first, last, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
cache = ReplyCache(path)
for n in range(first, last):
    text = f"text {n} " * (1 + n % 50)
    cache.put([CacheEntry(f"key {n}", "policy", "p.v1", "m", 100, Completion(text, f"why {n}"))])
    print(n, flush=True)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def child_completion(n: int) -> Completion:
    return Completion(f"text {n} " * (1 + n % 50), f"why {n}")


def child(path: Path, first: int, last: int, end: str = "") -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", CHILD, str(path), str(first), str(last), end]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def old_database(path: Path, replies: int) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(OLD)
        for n in range(replies):
            body = json.dumps({"text": f"old {n}", "reasoning": "\ud83d", "finish_reason": "stop"})
            db.execute("INSERT INTO replies VALUES (?,?,?,?,?,?,?)", (f"key {n}", "policy", "p.v1", "m", 9, 5.0, body))
    db.close()


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


@pytest.mark.faults
def test_a_process_killed_after_put_has_kept_it(opened: Opened, path: Path) -> None:
    process = child(path, 0, 30, "killed")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    expected = {f"key {n}": child_completion(n) for n in range(30)}
    assert found(opened(), expected) == expected


@pytest.mark.faults
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
        assert found(cache, [f"key {n}"]) == {f"key {n}": child_completion(n)}
    cache.put([entry("after")])
    assert set(cache.get(["after"])) == {"after"}


@pytest.mark.slow
def test_two_processes_write_at_once(opened: Opened, path: Path) -> None:
    processes = [child(path, 0, 300), child(path, 200, 500)]
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0]
    cache = opened()
    assert cache.count() == 500
    expected = {f"key {n}": child_completion(n) for n in range(500)}
    assert found(cache, expected) == expected
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.faults
def test_a_writer_killed_again_and_again_loses_nothing(opened: Opened, path: Path) -> None:
    said = 0
    for round_number in range(4):
        process = child(path, said, 1_000_000)
        assert process.stdout is not None
        for _ in range(7 * round_number + 1):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split("\n")[:-1]
        process.stdout.close()
        process.wait(timeout=60)
        said += 7 * round_number + 1 + len(rest)
    cache = opened()
    expected = {f"key {n}": child_completion(n) for n in range(said)}
    assert found(cache, expected) == expected
    assert cache.damaged_lines <= 4


@pytest.mark.slow
def test_two_processes_write_while_a_third_reads(opened: Opened, path: Path) -> None:
    reader, seen = opened(), 0
    processes = [child(path, 0, 200), child(path, 200, 400)]
    while any(process.poll() is None for process in processes):
        now = found(reader, [f"key {n}" for n in range(400)])
        assert len(now) >= seen
        assert all(completion == child_completion(int(key[4:])) for key, completion in now.items())
        seen = len(now)
    for process in processes:
        process.communicate(timeout=60)
    assert reader.count() == 400


@pytest.mark.slow
def test_processes_bring_one_old_database_up_to_date_at_once(opened: Opened, path: Path) -> None:
    old_database(path, 50)
    processes = [child(path, 100 * n, 100 * n + 20) for n in range(1, 4)]
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert opened().count() == 110
