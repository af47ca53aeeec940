"""Quotas that several processes share: places by work, in even parts; one schedule of requests and tokens a minute."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from groundtrace.inference.coordination.peers import Peers
from groundtrace.inference.coordination.quota import Quota, divided, leased, shared_with
from groundtrace.inference.errors import RunStopped
from groundtrace.inference.flow.limits import BURST_S, ConcurrencyLimit
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.settings import EndpointSettings

from ..skipping import now_s, run

NAMES = "abcdefgh"


def by_size(wanted: Sequence[int], most: int) -> list[int]:
    parts = divided(most, dict(zip(NAMES, wanted, strict=False)), 0)
    return [parts[name] for name in NAMES[: len(wanted)]]


@pytest.mark.parametrize(
    ("most", "wanted", "expected"),
    [
        (64, [64], [64]),
        (64, [0], [64]),
        (64, [64, 64], [32, 32]),
        (64, [64, 64, 64, 64], [16, 16, 16, 16]),
        # who has little to do leaves the rest to the others
        (64, [4, 64, 64], [4, 30, 30]),
        (64, [0, 0, 64], [0, 0, 64]),
        (10, [2, 100, 3], [2, 5, 3]),
        # what nobody wants is divided evenly
        (64, [0, 0], [32, 32]),
        (10, [1, 3], [4, 6]),
    ],
)
def test_places_are_divided_by_work(most: int, wanted: list[int], expected: list[int]) -> None:
    assert by_size(wanted, most) == expected


@pytest.mark.parametrize(("most", "processes", "expected"), [(10, 4, [2, 2, 3, 3]), (2, 4, [0, 0, 1, 1]), (1, 1, [1])])
def test_odd_places_go_to_some(most: int, processes: int, expected: list[int]) -> None:
    assert sorted(by_size([most] * processes, most)) == expected


@examples(max_examples=200)
@given(st.integers(1, 100), st.lists(st.integers(0, 100), min_size=1, max_size=8), st.integers(0, 1000))
def test_all_places_are_given_and_work_goes_first(most: int, wanted: list[int], turn: int) -> None:
    names = dict(zip(NAMES, wanted, strict=False))
    parts = divided(most, names, turn)
    assert sum(parts.values()) == most
    lacking = [name for name in names if parts[name] < names[name]]
    for name in lacking:
        assert all(parts[other] <= max(parts[name] + 1, names[other]) for other in names)
        assert all(parts[other] <= parts[name] + 1 or parts[other] <= names[other] for other in names)


def test_nobody_is_left_without_a_place_for_good() -> None:
    turns = [divided(1, dict.fromkeys("abc", 5), turn) for turn in range(3)]
    assert all(any(parts[name] for parts in turns) for name in "abc")


steps = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 40), st.floats(0, 1)), max_size=80)


@examples(max_examples=200)
@given(st.integers(1, 20), steps)
def test_all_places_held_are_never_more_than_there_are(most: int, beats: list[tuple[str, int, float]]) -> None:
    """As long as each says how many requests it still has under way."""
    members, inside = dict[str, tuple[int, int]](), dict.fromkeys("abcd", 0)
    for turn, (name, work, ended) in enumerate(beats):
        inside[name] -= round(ended * inside[name])
        wanted = min(most, max(work, inside[name]))
        share, due = leased(most, {other: held for other, held in members.items() if other != name}, name, wanted, turn)
        assert share <= due
        members[name] = max(share, inside[name]), wanted
        inside[name] = max(inside[name], min(share, work))
        assert sum(inside.values()) <= most
        assert sum(held for held, _ in members.values()) <= most


class Worker:
    """Keeps ``callers`` requests of one second each at the concurrency of its quota, all counted in ``under_way``."""

    def __init__(self, folder: Path, under_way: list["Worker"], most: int = 12, **limits: Any) -> None:
        settings = EndpointSettings("openai", "m", max_concurrency=most, **limits)
        self.concurrency = ConcurrencyLimit(most)
        self.peers = Peers(folder)
        self.quota = Quota(settings, self.concurrency, self.peers, "e")
        self.under_way, self.began_s = under_way, list[float]()
        self.tasks: list[asyncio.Task[None]] = []

    def work(self, callers: int, calls: int = 1000, tokens: int = 0) -> None:
        self.tasks = [asyncio.create_task(self._call(calls, tokens)) for _ in range(callers)]

    async def _call(self, calls: int, tokens: int) -> None:
        for _ in range(calls):
            token = await self.concurrency.enter()
            try:
                await self.quota.take(tokens)
                self.under_way.append(self)
                self.began_s.append(now_s())
                await asyncio.sleep(1)
                self.under_way.remove(self)
            finally:
                self.concurrency.leave(token)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.under_way[:] = [each for each in self.under_way if each is not self]

    def leave(self) -> None:
        self.peers.close()


def until(happened: Callable[[], object]) -> None:
    """Wait in real time, as another process takes it: the loop's clock stands still."""
    end_s = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < end_s
        time.sleep(0.002)


def meet(*workers: Worker) -> None:
    """All join, and know of each other."""
    until(lambda: all(worker.peers.join() for worker in workers))
    until(lambda: all(worker.peers.has_peers for worker in workers))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "coordination"


def test_requests_end_if_the_file_cannot_be_used(path: Path) -> None:
    """A timer asks for slots: its error reaches the requests that wait for them."""

    async def main() -> list[Any]:
        one, two = Worker(path, []), Worker(path, [])
        meet(one, two)
        with closing(sqlite3.connect(path / "peers.sqlite")) as db:
            db.execute("DROP TABLE slots")
        one.work(callers=20)
        ended = await asyncio.wait_for(asyncio.gather(*one.tasks, return_exceptions=True), 20)
        one.leave()
        two.leave()
        return ended

    assert {type(each) for each in run(main())} == {RunStopped}


def test_alone_a_process_has_all_places_at_once(path: Path) -> None:
    async def main() -> int:
        worker = Worker(path, [])
        worker.work(callers=20)
        await asyncio.sleep(0.01)
        under_way = len(worker.under_way)
        assert slots(path) == []  # nothing is asked of the file
        await worker.stop()
        worker.leave()
        return under_way

    assert run(main()) == 12


def test_places_move_to_whoever_has_work(path: Path) -> None:
    async def main() -> None:
        under_way: list[Worker] = []
        one, two, three = (Worker(path, under_way) for _ in range(3))
        meet(one, two, three)

        async def after(seconds: float) -> list[int]:
            for _ in range(round(seconds / 0.1)):
                await asyncio.sleep(0.1)
                assert len(under_way) <= 12
            return [each.concurrency.inside for each in (one, two, three)]

        one.work(callers=20)
        assert await after(1) == [12, 0, 0]
        two.work(callers=20)
        assert await after(4) == [6, 6, 0]
        three.work(callers=2)
        assert await after(4) == [5, 5, 2]
        await one.stop()
        assert await after(4) == [0, 10, 2]
        await two.stop()
        await three.stop()
        one.work(callers=20)
        assert await after(4) == [12, 0, 0]
        await one.stop()
        for each in (one, two, three):
            each.leave()

    run(main())


def test_a_second_process_comes_while_all_places_are_in_use_and_goes_again(path: Path) -> None:
    async def main() -> None:
        under_way: list[Worker] = []
        one, two = Worker(path, under_way), Worker(path, under_way)

        async def after(seconds: float) -> list[int]:
            for _ in range(round(seconds / 0.1)):
                await asyncio.sleep(0.1)
                assert len(under_way) <= 12
            return [each.concurrency.inside for each in (one, two)]

        one.work(callers=20)
        assert await after(1) == [12, 0]
        assert not one.peers.has_peers
        meet(one, two)
        two.work(callers=20)
        assert await after(4) == [6, 6]
        await two.stop()
        two.leave()
        until(lambda: not one.peers.has_peers)
        assert await after(4) == [12, 0]
        await one.stop()
        one.leave()

    run(main())


def test_what_is_given_back_can_be_had_at_once(path: Path) -> None:
    async def main() -> None:
        one, two, beside = Worker(path, []), Worker(path, []), Worker(path, [])
        meet(one, two, beside)
        one.work(callers=12, calls=1)
        await asyncio.gather(*one.tasks)
        one.leave()
        two.work(callers=12)
        await asyncio.sleep(0.01)
        assert len(two.under_way) == 12
        await two.stop()
        for each in (two, beside):
            each.leave()

    run(main())


def slots(path: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(path / "peers.sqlite")) as db:
        return db.execute("SELECT held, wanted FROM slots").fetchall()


def test_one_that_stands_idle_gives_its_places_back(path: Path) -> None:
    async def main() -> None:
        worker, beside = Worker(path, []), Worker(path, [])
        meet(worker, beside)
        worker.work(callers=1, calls=1)
        await asyncio.sleep(0.5)
        assert slots(path) == [(12, 1)]
        await asyncio.gather(*worker.tasks)
        await asyncio.sleep(1)
        assert slots(path) == []
        for each in (worker, beside):
            each.leave()

    run(main())


def test_requests_and_tokens_a_minute_are_one_schedule(path: Path) -> None:
    async def main(**limits: Any) -> list[float]:
        workers = [Worker(path, [], most=100, **limits) for _ in range(3)]
        meet(*workers)
        workers[0].work(callers=5, calls=20, tokens=100)
        workers[1].work(callers=5, calls=20, tokens=100)
        for worker in workers:
            await asyncio.gather(*worker.tasks)
        for worker in workers:
            worker.leave()
        return sorted(began_s for worker in workers for began_s in worker.began_s)

    for limits in ({"requests_per_minute": 300}, {"tokens_per_minute": 30_000}):
        began_s = run(main(**limits))
        assert len(began_s) == 200
        assert began_s[-1] - began_s[0] >= (200 - 1) / 5 - BURST_S - 1e-6
        for first, begin_s in enumerate(began_s):
            assert sum(begin_s <= other < begin_s + 10 for other in began_s[first:]) <= 5 * (10 + BURST_S) + 1


def test_true_token_counts_are_heard_of_by_the_others(path: Path) -> None:
    async def main() -> float:
        one, two = (Worker(path, [], tokens_per_minute=60_000) for _ in range(2))
        meet(one, two)
        await asyncio.sleep(100)
        await one.quota.take(1000)
        one.quota.correct(9000)
        await two.quota.take(1000)
        for each in (one, two):
            each.leave()
        return now_s()

    assert run(main()) == pytest.approx(109.0)


def test_what_the_last_replies_took_counts_for_the_next_command(path: Path) -> None:
    async def main(begin_s: float, tokens: int) -> float:
        worker = Worker(path, [], tokens_per_minute=60_000)
        await asyncio.sleep(begin_s)
        await worker.quota.take(1000)
        waited_s = now_s() - begin_s
        worker.quota.correct(tokens - 1000)
        worker.leave()
        return waited_s

    assert run(main(100.0, 10_000)) == 0
    assert run(main(5.0, 10**15)) == pytest.approx(9.0, abs=0.5), "whatever the clock of another boot says"
    assert run(main(0.0, 1000)) == pytest.approx(600.0, abs=0.5), "a count that cannot be true is not waited for"


def test_who_waits_holds_nothing_that_is_to_come(path: Path) -> None:
    """One that is stopped while it waits neither keeps others waiting nor makes up for it afterwards."""

    async def main() -> list[float]:
        stopped, other = (Worker(path, [], most=100, requests_per_minute=60) for _ in range(2))
        meet(stopped, other)
        await stopped.quota.take(0)
        await stopped.quota.take(0)
        waiting = [asyncio.create_task(stopped.quota.take(0)) for _ in range(20)]
        await asyncio.sleep(0.01)
        for each in waiting:
            each.cancel()
        began_s = []
        for _ in range(5):
            await other.quota.take(0)
            began_s.append(now_s())
        for each in (stopped, other):
            each.leave()
        return began_s

    assert run(main()) == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0], abs=0.02)


def test_requests_that_wait_for_tokens_do_not_come_in_a_burst(path: Path) -> None:
    async def main() -> list[float]:
        worker = Worker(path, [], most=100, requests_per_minute=30, tokens_per_minute=600_000)
        await worker.quota.take(1000)
        worker.quota.correct(450_000)
        worker.work(callers=60, calls=1, tokens=1000)
        await asyncio.gather(*worker.tasks)
        worker.leave()
        return worker.began_s

    began_s = run(main())
    assert began_s[0] == pytest.approx(44, abs=1)
    assert began_s[-1] - began_s[0] >= 59 * 2 - BURST_S - 1e-6


@pytest.mark.parametrize(
    ("other", "fields", "endpoints"),
    [
        ("e", {}, 1),
        ("e", {"timeout_s": 5.0}, 1),
        ("f", {}, 2),
        ("e", {"base_url": "http://b/v1"}, 2),
        ("e", {"max_concurrency": 3}, 2),
    ],
)
def test_endpoints_of_one_name_and_place_are_one(
    path: Path, other: str, fields: dict[str, Any], endpoints: int
) -> None:
    async def main() -> None:
        peers = Peers(path)
        for name, changed in (("e", {}), (other, fields)):
            with shared_with(peers, name):
                flow = Flow(EndpointSettings("openai", "m", **{"base_url": "http://a/v1", **changed}))
            await flow.concurrency.enter()
        peers.close()

    run(main())
    with closing(sqlite3.connect(path / "peers.sqlite")) as db:
        assert db.execute("SELECT count(*) FROM rates").fetchone() == (endpoints,)


def test_with_a_cache_in_memory_an_endpoint_has_its_quota_for_itself() -> None:
    async def main() -> int:
        with shared_with(Peers(None), "e"):
            flow = Flow(EndpointSettings("openai", "m", max_concurrency=3))
        return len([await flow.concurrency.enter() for _ in range(3)])

    assert run(main()) == 3
