"""Replies of other runs' caches are taken over, bear the name of the run, and are refused where none may be older."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.settings import Neighbour

from ..asking import ask, texts

SINCE = "2026-01-02T03:04:05+00:00"


@pytest.fixture
def folders(models_settings, tmp_path: Path):
    """Settings with the cache of a run folder's name, and as a neighbour of others."""

    def of(name: str, *neighbours: Neighbour, since: str = ""):
        path = str(tmp_path / name / "cache" / "replies.sqlite")
        settings = replace(models_settings(), cache_path=path, neighbours=neighbours, fresh_since=since)
        return settings, Neighbour(name, path, since)

    return of


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
    (tmp_path / "sent/cache").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "sent/cache/replies.sqlite").touch()
    (tmp_path / "sent/cache/log").symlink_to(tmp_path / "mine")
    settings, _ = folders("full", folders("sent")[1])
    assert texts(ask(settings, text_prompt())) == ["a"]
    assert "is a link" in caplog.text and not any((tmp_path / "mine").iterdir())


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


def test_older_caches_are_not_opened_once_a_reply_is_found(server, folders, text_prompt, tmp_path: Path) -> None:
    server.say("a")
    (newest, found), (older, unopened) = folders("b"), folders("a")
    ReplyCache(older.cache_path).close()
    lock = tmp_path / "a/cache/.cache.lock"
    lock.unlink()
    ask(newest, text_prompt())
    assert ask(folders("mine", found, unopened)[0], text_prompt()).call.taken_from == ("b",)
    assert not lock.exists()


def test_a_run_that_was_deleted_meanwhile_is_not_created_again(server, folders, text_prompt, tmp_path: Path) -> None:
    server.say("a")
    assert ask(folders("mine", folders("gone")[1])[0], text_prompt()).text == "a"
    assert not (tmp_path / "gone").exists()
