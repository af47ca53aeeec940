"""Replies that arrive together are put together, and each caller gets its own, or its own error."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.cache.batch import BatchedPuts
from groundtrace.inference.cache.replies import CachedReply, CacheEntry, ReplyCache

from ..cached_replies import entry


class Counted(ReplyCache):
    """Counts the transactions, and the replies that were read."""

    puts: list[int]
    gets = 0

    def put(self, entries: Iterable[CacheEntry]) -> dict[str, CachedReply]:
        entries = list(entries)
        self.puts.append(len(entries))
        return super().put(entries)

    def get(self, keys: Iterable[str]) -> dict[str, CachedReply]:
        self.gets += 1
        return super().get(keys)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Counted]:
    opened = Counted(str(tmp_path / "replies.sqlite"))
    opened.puts = []
    yield opened
    opened.close()


def put(cache: ReplyCache, *each: list[CacheEntry]) -> list[Any]:
    """Put the entries of several callers in one turn of the loop; what each gets."""

    async def main() -> list[Any]:
        puts = BatchedPuts(cache)
        return await asyncio.gather(*(puts.put(entries) for entries in each), return_exceptions=True)

    return asyncio.run(main())


def test_one_transaction_and_nothing_is_read_back(cache: Counted) -> None:
    got = put(cache, [entry("a", "1"), entry("b", "2")], [entry("c", "3")], [])
    assert [{key: kept.completion.text for key, kept in each.items()} for each in got] == [
        {"a": "1", "b": "2"},
        {"c": "3"},
        {},
    ]
    assert (cache.puts, cache.gets) == ([3], 0)
    assert cache.get("abc") == got[0] | got[1]


def test_the_first_reply_counts_for_those_that_come_later(cache: Counted) -> None:
    cache.put([entry("a", "first")])
    got = put(cache, [entry("a", "second")], [entry("b", "one")], [entry("b", "another")])
    assert [kept.completion.text for each in got for kept in each.values()] == ["first", "one", "one"]


def test_a_truncated_reply_is_replaced_within_a_batch(cache: Counted) -> None:
    got = put(cache, [entry("a", "cut", "length")], [entry("a", "whole")])
    assert [each["a"].completion.text for each in got] == ["whole", "whole"]
    assert cache.get(["a"])["a"].completion.text == "whole"


def test_a_reply_that_cannot_be_stored_keeps_no_other_out(cache: Counted) -> None:
    bad = CacheEntry("b", "policy", "p.v1", "m", -1, entry("b").completion)
    got = put(cache, [entry("a")], [bad], [entry("c")])
    assert isinstance(got[1], ValueError)
    assert set(got[0]) | set(got[2]) == set(cache.get("abc")) == {"a", "c"}


def test_what_a_cancelled_caller_put_is_stored(cache: Counted) -> None:
    async def main() -> None:
        puts = BatchedPuts(cache)
        asking = [asyncio.ensure_future(puts.put([entry(key)])) for key in "ab"]
        await asyncio.sleep(0)
        asking[0].cancel()
        await asking[1]

    asyncio.run(main())
    assert set(cache.get("ab")) == {"a", "b"}
