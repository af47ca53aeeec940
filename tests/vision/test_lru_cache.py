import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.vision.lru_cache import LruCache


def asked(recent: LruCache[str], keys: str) -> str:
    """The keys that were computed, in order, when these are asked for one after the other."""
    computed: list[str] = []

    def compute(key: str) -> str:
        computed.append(key)
        return key * 2

    for key in keys:
        assert recent.of(key, lambda key=key: compute(key)) == key * 2
    return "".join(computed)


@pytest.mark.parametrize(
    ("limit", "keys", "computed"),
    [
        (2, "aaa", "a"),
        (2, "abab", "ab"),
        (2, "abca", "abca"),  # c took the place of a
        (2, "abacab", "abcb"),  # a was used after b, so that c took the place of b
        (1, "aabb", "ab"),
        (0, "aa", "aa"),
    ],
)
def test_the_least_recently_used_goes_first(limit: int, keys: str, computed: str) -> None:
    assert asked(LruCache(limit), keys) == computed


@given(st.integers(1, 4), st.lists(st.sampled_from("abcdefg"), max_size=30))
def test_what_is_kept_are_the_last_used(limit: int, keys: list[str]) -> None:
    recent: LruCache[str] = LruCache(limit)
    order: list[str] = []
    for key in keys:
        assert (asked(recent, key) == key) == (key not in order[-limit:])
        order = [each for each in order if each != key] + [key]


@pytest.mark.parametrize(
    ("limit", "keys", "computed"),
    [
        (4, "abab", "ab"),  # each takes 2
        (3, "abab", "abab"),
        (1, "aa", "aa"),  # larger than all there is
    ],
)
def test_the_bound_may_be_on_sizes(limit: int, keys: str, computed: str) -> None:
    assert asked(LruCache(limit, size_of=len), keys) == computed


def test_what_is_too_large_sends_nothing_away() -> None:
    recent: LruCache[str] = LruCache(3, size_of=len)
    recent.of("small", lambda: "abc")
    assert recent.of("large", lambda: "abcd") == "abcd"
    assert recent.of("small", lambda: "computed again") == "abc"


def test_an_error_is_the_callers_and_nothing_is_kept() -> None:
    recent: LruCache[str] = LruCache(1)
    with pytest.raises(ZeroDivisionError):
        recent.of("a", lambda: str(1 // 0))
    assert recent.of("a", lambda: "a") == "a"


def test_threads_that_ask_at_once_share_one_value() -> None:
    recent: LruCache[list[int]] = LruCache(8)
    barrier = threading.Barrier(8)
    found: list[list[int]] = []

    def compute() -> list[int]:
        barrier.wait()  # all compute it before any keeps it
        return []

    threads = [threading.Thread(target=lambda: found.append(recent.of("a", compute))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(value) for value in found}) == 1
    assert len(found) == 8
