"""Which process asks for a reply: one at a time, until it is there, was given up, or the process is gone."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.cache.replies import CachedReply, CacheEntry, ReplyCache
from groundtrace.inference.coordination.claims import Claims
from groundtrace.inference.coordination.peers import LOOK_S, Peers
from groundtrace.inference.request import Completion

CHILD = """
import asyncio, sys
from pathlib import Path
from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.coordination.claims import Claims
from groundtrace.inference.coordination.peers import Peers
async def main():
    claims = Claims(Peers(Path(sys.argv[1]) / "coordination"), ReplyCache(sys.argv[1] + "/replies.sqlite"))
    async with claims.holding(["a", "b"], 100) as found:
        print(found, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


def entry(key: str, max_tokens: int = 100, finish_reason: str = "stop") -> CacheEntry:
    return CacheEntry(key, "policy", "p.v1", "m", max_tokens, Completion(f"of {key}", finish_reason=finish_reason))


class Process:
    """What one process has of a cache."""

    def __init__(self, folder: Path) -> None:
        self.cache = ReplyCache(str(folder / "replies.sqlite"))
        self.peers = Peers(folder / "coordination")
        self.claims = Claims(self.peers, self.cache)
        self.held: dict[tuple[str, ...], AsyncExitStack] = {}

    async def ask(self, *keys: str, max_tokens: int = 100, had_joined: bool = True) -> dict[str, CachedReply]:
        """Claim the keys, and give what is there."""
        held = AsyncExitStack()
        found = await held.enter_async_context(self.claims.holding(keys, max_tokens, had_joined))
        self.held[keys] = held
        return found

    async def waits(self, *keys: str, max_tokens: int = 100) -> bool:
        """Whether these keys are claimed by another process."""
        try:
            async with asyncio.timeout(0.1), self.claims.holding(keys, max_tokens):
                return False
        except TimeoutError:
            return True

    async def leave(self, *keys: str) -> None:
        await self.held.pop(keys).aclose()

    def close(self) -> None:
        self.peers.close()
        self.cache.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[], Process]]:
    every: list[Process] = []

    def build() -> Process:
        every.append(Process(tmp_path))
        return every[-1]

    yield build
    for each in every:
        each.close()


Started = Callable[[], Process]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def rows(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "coordination/peers.sqlite")) as db:
        return [key for (key,) in db.execute("SELECT key FROM claims ORDER BY key")]


def test_one_asks_and_the_other_finds_the_reply(started: Started, tmp_path: Path) -> None:
    async def main() -> None:
        one, two = started(), started()
        assert await one.ask("a") == {}
        assert rows(tmp_path) == []  # alone, in memory
        waiting = asyncio.create_task(two.ask("a"))
        await asyncio.sleep(0.2)
        assert not waiting.done() and rows(tmp_path) == ["a"]
        one.cache.put([entry("a")])
        await one.leave("a")
        assert (await waiting)["a"].completion.text == "of a"
        assert rows(tmp_path) == []

    run(main())


def test_the_replies_of_a_process_that_ended_before_this_one_joined(started: Started) -> None:
    """It may have put them after this process had looked into the cache, and nobody is there any more."""

    async def main() -> None:
        one, two = started(), started()
        assert await one.ask("a") == {} and not two.peers.has_joined
        one.cache.put([entry("a")])
        await one.leave("a")
        one.peers.close()
        found = await two.ask("a", "b", had_joined=two.peers.has_joined)
        assert list(found) == ["a"] and two.peers.has_joined

    run(main())


def test_what_was_given_up_can_be_asked_for(started: Started) -> None:
    async def main() -> None:
        one, two = started(), started()
        await one.ask("a")
        assert await two.waits("a")
        await one.leave("a")
        assert await two.ask("a") == {}
        assert await one.waits("a")

    run(main())


def test_all_of_the_keys_or_none(started: Started, tmp_path: Path) -> None:
    async def main() -> None:
        one, two = started(), started()
        two.cache.put([entry("c")])
        await one.ask("b")
        waiting = asyncio.create_task(two.ask("a", "b", "c"))
        await asyncio.sleep(0.2)
        assert rows(tmp_path) == ["b"]
        one.cache.put([entry("b")])
        await one.leave("b")
        assert (await waiting).keys() == {"b", "c"}
        assert rows(tmp_path) == ["a"]

    run(main())


def test_a_truncated_reply_is_there_for_its_budget_only(started: Started) -> None:
    async def main() -> None:
        one, two = started(), started()
        one.cache.put([entry("a", 100, "length")])
        await two.ask("other")
        assert await one.ask("a", max_tokens=200) == {}
        assert await two.waits("a", max_tokens=200)
        assert (await two.ask("a", max_tokens=100)).keys() == {"a"}  # what is there is not waited for

    run(main())


def test_one_process_may_claim_a_key_again(started: Started) -> None:
    async def main() -> None:
        one, two = started(), started()
        assert await one.ask("a") == await one.ask("a", "b") == {}
        await one.leave("a")
        assert await two.waits("a")
        await one.leave("a", "b")
        assert await two.ask("a") == {}

    run(main())


def test_a_process_that_ends_claims_nothing_any_more(started: Started) -> None:
    async def main() -> None:
        one, two = started(), started()
        await one.ask("a", "b")
        assert await two.waits("a")
        one.close()
        assert await two.ask("a") == {}

    run(main())


@pytest.mark.faults
def test_what_a_killed_process_asked_for_is_asked_for_by_the_next(started: Started, tmp_path: Path) -> None:
    killed = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "{}\n"

    async def main() -> None:
        beside = started()
        assert await beside.waits("a")
        killed.kill()
        killed.communicate()
        assert await asyncio.wait_for(beside.ask("a"), 3 * LOOK_S) == {}

    run(main())


def test_a_cache_in_memory_has_no_other_process() -> None:
    async def main() -> None:
        claims = Claims(Peers(None), ReplyCache(":memory:"))
        async with claims.holding(["a"], 100) as found:
            assert found == {}

    run(main())
