"""Which process asks for a reply: one at a time, until it is there, was given up, or the process is gone."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import groundtrace.inference.cache.claims
from groundtrace.inference.cache.claims import CLAIM_S
from groundtrace.inference.cache.replies import CacheEntry, ReplyCache
from groundtrace.inference.cache.shared import SegmentStore
from groundtrace.inference.request import Completion

CHILD = """
import sys, time
from groundtrace.inference.cache.replies import ReplyCache
print(ReplyCache(sys.argv[1]).claim(["a", "b"], 100), flush=True)
time.sleep(60)
"""


def entry(key: str, max_tokens: int = 100, finish_reason: str = "stop") -> CacheEntry:
    return CacheEntry(key, "policy", "p.v1", "m", max_tokens, Completion(f"of {key}", finish_reason=finish_reason))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "replies.sqlite"


@pytest.fixture
def opened(path: Path):
    """Open the cache as another process does; all are closed at the end."""
    caches: list[ReplyCache] = []

    def build() -> ReplyCache:
        caches.append(ReplyCache(str(path)))
        return caches[-1]

    yield build
    for cache in caches:
        cache.close()


Opened = Callable[[], ReplyCache]


def rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [key for (key,) in db.execute("SELECT key FROM claims ORDER BY key")]


def test_one_asks_and_the_other_finds_the_reply(opened: Opened, path: Path) -> None:
    one, two = opened(), opened()
    assert one.claim(["a"], 100) == {}
    assert two.claim(["a"], 100) is None
    one.put([entry("a")])
    assert rows(path) == []
    found = two.claim(["a"], 100)
    assert found is not None
    assert found["a"].completion.text == "of a"
    assert rows(path) == []


def test_what_was_given_up_can_be_asked_for(opened: Opened) -> None:
    one, two = opened(), opened()
    assert one.claim(["a"], 100) == {}
    one.release(["a"])
    assert two.claim(["a"], 100) == {}
    assert one.claim(["a"], 100) is None


def test_all_of_the_keys_or_none(opened: Opened, path: Path) -> None:
    one, two = opened(), opened()
    two.put([entry("c")])
    assert one.claim(["b"], 100) == {}
    assert two.claim(["a", "b", "c"], 100) is None
    assert rows(path) == ["b"]
    one.put([entry("b")])
    found = two.claim(["a", "b", "c"], 100)
    assert found is not None
    assert found.keys() == {"b", "c"}
    assert rows(path) == ["a"]


def test_a_truncated_reply_is_there_for_its_budget_only(opened: Opened) -> None:
    one, two = opened(), opened()
    one.put([entry("a", 100, "length")])
    served = two.claim(["a"], 100)
    assert served is not None
    assert served.keys() == {"a"}
    assert one.claim(["a"], 200) == {}
    assert two.claim(["a"], 200) is None
    assert two.claim(["a"], 100) == served  # what is there is not waited for


def test_one_process_may_claim_a_key_again(opened: Opened) -> None:
    one, two = opened(), opened()
    assert one.claim(["a"], 100) == one.claim(["a"], 200) == {}
    one.put([entry("a", 100, "length")])
    one.release(["a"])
    assert two.claim(["a"], 200) is None
    one.release(["a"])
    assert two.claim(["a"], 200) == {}


def test_a_release_of_what_is_not_claimed_does_nothing(opened: Opened) -> None:
    one, two = opened(), opened()
    assert one.claim(["a"], 100) == {}
    two.release(["a", "b"])
    two.put([entry("b")])
    assert two.claim(["a"], 100) is None


def test_a_claim_that_is_not_renewed_ends(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = opened(), opened()
    clock_s = 1000.0
    monkeypatch.setattr(groundtrace.inference.cache.claims.time, "time", lambda: clock_s)
    assert one.claim(["a"], 100) == {}
    clock_s += CLAIM_S - 1
    one.renew_claims()
    clock_s += CLAIM_S - 1
    assert two.claim(["a"], 100) is None
    clock_s += 1
    assert two.claim(["a"], 100) == {}
    one.renew_claims()
    one.release(["a"])  # it is the other's
    assert one.claim(["a"], 100) is None


def test_a_claim_from_before_the_clock_was_set_back_counts_no_more(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = opened(), opened()
    assert one.claim(["a"], 100) == {}
    monkeypatch.setattr(groundtrace.inference.cache.claims.time, "time", lambda: 1000.0)
    assert two.claim(["a"], 100) == {}


def test_the_claims_of_a_killed_process_go_when_nobody_else_is_there(opened: Opened, path: Path) -> None:
    killed = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "{}\n"
    beside = opened()
    assert beside.claim(["a"], 100) is None
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    another = opened()
    assert another.claim(["b"], 100) is None  # it is not known that the one that asked is gone
    beside.close()
    another.close()
    assert opened().claim(["a"], 100) == {}


def test_alone_nothing_is_waited_for(opened: Opened) -> None:
    cache = opened()
    assert cache.claim(["a"], 100) == {}
    cache.close()
    assert opened().claim(["a"], 100) == {}


def test_a_process_that_closes_its_cache_claims_nothing_any_more(opened: Opened) -> None:
    one, two = opened(), opened()
    assert one.claim(["a", "b"], 100) == {}
    one.close()
    one.release(["a"])
    assert two.claim(["a"], 100) == {}


def test_a_database_without_claims_takes_them(opened: Opened, path: Path) -> None:
    opened().close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE claims")
    assert opened().claim(["a"], 100) == {}


def test_a_cache_in_memory_has_no_other_process() -> None:
    cache = ReplyCache(":memory:")
    assert cache.claim(["a"], 100) == {}
    cache.release(["a"])
    cache.renew_claims()
    cache.close()


def test_the_processes_of_one_machine_share_claims_where_the_cache_is_elsewhere(tmp_path: Path) -> None:
    """Two machines do not: each has a copy of its own."""
    stores = [SegmentStore(str(tmp_path / "far"), str(tmp_path / here)) for here in ("one", "one", "two")]
    try:
        assert [store.claim(["a"], 100) for store in stores] == [{}, None, {}]
        stores[0].renew_claims()
        stores[0].release(["a"])
        assert stores[1].claim(["a"], 100) == {}
    finally:
        for store in stores:
            store.close()
