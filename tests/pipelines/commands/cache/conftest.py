"""Caches of three replies, and the ``beam cache`` command run on them."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import CacheEntry, ReplyCache
from groundtrace.inference.cache.shared import SegmentStore, local_folder_of
from groundtrace.inference.request import Completion
from groundtrace.pipelines.commands.cache.command import add_cache_parser, run_cache

REPLIES = (
    CacheEntry("a", "policy", "attempt.v1", "small", 100, Completion("three", "because"), 30, 4),
    CacheEntry("b", "policy", "attempt.v1", "small", 100, Completion("cut o", "", "length"), 30, 100),
    CacheEntry("c", "judge", "judge.v1", "large", 50, Completion('emoji \ud83d\n"x"', ""), 7, 1),
)


@pytest.fixture(scope="session")
def replies() -> tuple[CacheEntry, ...]:
    """What the caches hold."""
    return REPLIES


@pytest.fixture(scope="session")
def command() -> Callable[..., int]:
    """``beam cache`` with these words."""

    def command(*arguments: object) -> int:
        parser = argparse.ArgumentParser()
        add_cache_parser(parser.add_subparsers(dest="command"))
        return run_cache(parser.parse_args(["cache", *map(str, arguments)]))

    return command


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with a cache of three replies."""
    cache = ReplyCache(str(tmp_path / "run/cache/replies.sqlite"))
    cache.put(REPLIES)
    cache.close()
    return tmp_path / "run"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A location with the same replies in segments."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    location = tmp_path / "shared"
    store = SegmentStore(str(location), str(local_folder_of(str(location))))
    store.put(REPLIES)
    store.close()
    return location
