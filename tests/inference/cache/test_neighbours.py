"""Replies of other runs' caches are taken over, bear the name of the run, and are refused where none may be older."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.inference.cache.neighbours import Neighbours
from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.settings import Neighbour

from ..asking import ask, texts
from ..cached_replies import entry

ROOT = Path(__file__).resolve().parents[3]
SINCE = "2026-01-02T03:04:05+00:00"


@pytest.fixture
def folders(models_settings, tmp_path: Path):
    """Settings with the cache of a run folder's name, and as a neighbour of others."""

    def of(name: str, *neighbours: Neighbour, since: str = ""):
        path = str(tmp_path / name / "cache" / "replies.sqlite")
        settings = replace(models_settings(), cache_path=path, neighbours=neighbours, fresh_since=since)
        return settings, Neighbour(name, path, since)

    return of


def contents(folder: Path) -> dict[str, bytes]:
    """The content of each file below a folder, by its path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_what_is_taken_over_bears_the_name_of_the_run(server, folders, text_prompt) -> None:
    server.say("a", "b")
    server.say("c")
    old, look = folders("look")
    assert ask(old, text_prompt(), n=2).call.taken_from == ()
    mine, as_neighbour = folders("full", look)
    taken = ask(mine, text_prompt(), n=3)
    assert (texts(taken), taken.call.taken_from) == (["a", "b", "c"], ("look", "look", ""))
    alone, _ = folders("full")
    again = ask(alone, text_prompt(), n=3)
    assert again.call.taken_from == ("look", "look", ""), "it is in the cache with the reply"
    third = ask(folders("third", as_neighbour)[0], text_prompt(), n=3)
    assert third.call.taken_from == ("full",) * 3, "of several the run that it was taken from"
    assert len(server.seen) == 2


def test_what_is_taken_over_has_the_time_at_which_it_was_made(server, folders, text_prompt) -> None:
    server.say("a")
    (old, look), (mine, full) = folders("look"), folders("full", folders("look")[1])
    begun_s = time.time()
    ask(old, text_prompt())
    ended_s = time.time()
    first = ask(mine, text_prompt()).completions[0]
    again = ask(folders("third", full)[0], text_prompt()).completions[0]
    assert look.name == first.taken_from and begun_s <= first.made_s <= ended_s
    assert again.taken_from == "full" and again.made_s == first.made_s, "not the time of the first copy"
    assert ask(folders("third")[0], text_prompt()).completions[0] == again, "the cache keeps it"


def test_no_reply_from_before_a_fresh_run_is_found(server, folders, text_prompt) -> None:
    for text in ("old", "fresh", "fresher"):
        server.say(text)
    assert ask(folders("run")[0], text_prompt()).text == "old"
    fresh, as_neighbour = folders("run", since=SINCE)
    assert [ask(fresh, text_prompt()).text for _ in range(2)] == ["fresh", "fresh"]
    assert ask(folders("run")[0], text_prompt()).text == "old", "its replies stay"
    assert ask(folders("other", as_neighbour)[0], text_prompt()).text == "fresh"
    assert ask(folders("run", since=SINCE.replace("2026", "2027"))[0], text_prompt()).text == "fresher"
    assert len(server.seen) == 3


def test_a_neighbour_with_a_link_in_its_cache_is_left_out(
    server, folders, text_prompt, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.say("a")
    ReplyCache(folders("mine")[0].cache_path).close()
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent/cache").symlink_to(tmp_path / "mine/cache")
    before = contents(tmp_path / "mine")
    settings, _ = folders("full", folders("sent")[1])
    assert texts(ask(settings, text_prompt())) == ["a"]
    assert "is a link" in caplog.text and contents(tmp_path / "mine") == before


def test_a_reply_of_the_oldest_of_many_runs_is_found(server, folders, text_prompt, tmp_path: Path) -> None:
    server.say("a")
    oldest, its_cache = folders("a")
    assert ask(oldest, text_prompt()).text == "a"
    newer = [folders(f"b{number}") for number in range(30)]
    for settings, _ in newer:
        ReplyCache(settings.cache_path).close()
    mine, _ = folders("mine", *(cache for _, cache in newer), its_cache)
    assert ask(mine, text_prompt()).call.taken_from == ("a",)
    assert len(server.seen) == 1


def test_older_caches_are_not_opened_once_a_reply_is_found(
    server, folders, text_prompt, caplog: pytest.LogCaptureFixture
) -> None:
    server.say("a")
    (newest, found), (older, unopened) = folders("b"), folders("a")
    ReplyCache(older.cache_path).close()
    Path(older.cache_path).write_text("damaged")
    ask(newest, text_prompt())
    assert ask(folders("mine", found, unopened)[0], text_prompt()).call.taken_from == ("b",)
    assert "damaged" not in caplog.text, "it would be reported if it had been opened"


def test_a_run_that_was_deleted_meanwhile_is_not_created_again(server, folders, text_prompt, tmp_path: Path) -> None:
    server.say("a")
    assert ask(folders("mine", folders("gone")[1])[0], text_prompt()).text == "a"
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("lock", [".cache.lock", ".rebuild.lock"])
def test_the_locks_of_a_neighbour_are_not_waited_for(server, folders, text_prompt, tmp_path: Path, lock: str) -> None:
    server.say("a")
    old, its_cache = folders("old")
    ask(old, text_prompt())
    with (tmp_path / "old/cache" / lock).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert ask(folders("mine", its_cache)[0], text_prompt()).call.taken_from == ("old",)


WRITER = """
import os, signal, sys
from groundtrace.inference.cache.replies import ReplyCache
from tests.inference.cached_replies import entry
cache = ReplyCache(sys.argv[1])
cache.put([entry("killed")])
os.kill(os.getpid(), signal.SIGKILL)
"""


def _kill_a_writer(path: str) -> None:
    """Store a reply in a cache with a process that is then killed, so that the reply is only in the write-ahead log."""
    ended = subprocess.run([sys.executable, "-c", WRITER, path], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL and Path(f"{path}-wal").stat().st_size


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_files_of_a_neighbour_stay_as_they_are(folders, tmp_path: Path, is_killed: bool) -> None:
    settings, its_cache = folders("old")
    with closing(ReplyCache(settings.cache_path)) as cache:
        cache.put([entry("a")])
    if is_killed:
        _kill_a_writer(settings.cache_path)
    before = contents(tmp_path)
    with closing(Neighbours([its_cache])) as neighbours:
        assert set(neighbours.get({"a": "a", "killed": "killed"})) == {"a", *["killed"] * is_killed}
    assert contents(tmp_path) == before


def test_replies_that_a_neighbour_gets_meanwhile_are_found(folders) -> None:
    settings, its_cache = folders("other")
    ReplyCache(settings.cache_path).close()
    with closing(Neighbours([its_cache])) as neighbours:
        for number in range(3):  # the other run is started three times
            with closing(ReplyCache(settings.cache_path)) as cache:
                for key in (f"{number} first", f"{number} second"):
                    assert neighbours.get({key: key}) == {}
                    cache.put([entry(key)])
                    assert set(neighbours.get({key: key})) == {key}
            assert set(neighbours.get({key: key})) == {key}
        assert len(neighbours.get({f"{number} first": f"{number} first" for number in range(3)})) == 3


def test_a_run_that_is_read_while_it_ends_leaves_no_reply_in_the_write_ahead_log(folders) -> None:
    """`beam view` reads the database of a finished run without this log."""
    settings, its_cache = folders("other")
    cache = ReplyCache(settings.cache_path)
    cache.put([entry("a")])
    with closing(Neighbours([its_cache])) as neighbours:
        assert set(neighbours.get({"a": "a"})) == {"a"}
        cache.close()
        with closing(Neighbours([its_cache], unchanged=True)) as finished:
            assert set(finished.get({"a": "a"})) == {"a"}
        assert set(neighbours.get({"a": "a"})) == {"a"}


def test_a_neighbour_is_searched_again_after_a_failure_that_passes(folders, caplog: pytest.LogCaptureFixture) -> None:
    """For example, another process rebuilds the database, and it is missing for a moment."""
    settings, its_cache = folders("old")
    with closing(ReplyCache(settings.cache_path)) as cache:
        cache.put([entry("a")])
    file = Path(settings.cache_path)
    with closing(Neighbours([its_cache])) as neighbours:
        file.rename(file.with_name("away"))
        assert neighbours.get({"a": "a"}) == {}
        file.with_name("away").rename(file)
        assert set(neighbours.get({"a": "a"})) == {"a"}
    assert len(caplog.records) == 1


DAMAGES = [
    (lambda file: file.write_bytes(b"damaged" * 1000), "file is not a database"),
    (lambda file: file.unlink(), "replies.sqlite is missing"),
    (lambda file: os.mkfifo(file.with_name("replies.sqlite-journal")), "but a pipe"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_a_neighbour_that_cannot_be_read_is_named_once_and_not_repaired(
    folders, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage, reason: str
) -> None:
    settings, its_cache = folders("old\nrun")
    with closing(ReplyCache(settings.cache_path)) as cache:
        cache.put([entry("a")])
    damage(Path(settings.cache_path))
    before = contents(tmp_path)
    with closing(Neighbours([its_cache])) as neighbours:
        assert [neighbours.get({"a": "a"}) for _ in range(2)] == [{}, {}]
    [warned] = [record.message for record in caplog.records]
    assert reason in warned and "old\\nrun" in warned and "`beam cache stats`" in warned
    assert contents(tmp_path) == before


def test_a_neighbour_may_have_a_name_that_is_not_utf_8(server, folders, text_prompt) -> None:
    server.say("a")
    old, its_cache = folders(os.fsdecode(b"A\xff"))
    ask(old, text_prompt())
    its_cache = replace(its_cache, name="A")
    assert ask(folders("mine", its_cache)[0], text_prompt()).call.taken_from == ("A",)
