"""Quotas that several processes share: places by work, in even parts; one schedule of requests and tokens a minute."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import groundtrace.inference.flow.quota
from groundtrace.inference.flow.limits import BURST_S, ConcurrencyLimit
from groundtrace.inference.flow.quota import LEASE_S, Quota, QuotaMember, Quotas, QuotaState, divided
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.settings import EndpointSettings
from groundtrace.storage.remote_path import RemotePath

from .skipping import now_s, run

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


steps = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 40), st.floats(0, 1), st.floats(0, LEASE_S / 20)), max_size=80
)


@examples(max_examples=200)
@given(st.integers(1, 20), steps)
def test_all_places_held_are_never_more_than_there_are(most: int, beats: list[tuple[str, int, float, float]]) -> None:
    """As long as each says in time how many requests it still has under way."""
    shared, share, inside, time_s = QuotaState(), dict.fromkeys("abcd", 0), dict.fromkeys("abcd", 0), 100.0
    for name, work, ended, pause_s in beats:
        time_s += pause_s
        for each in "abcd":
            if each in shared.members:
                shared.members[each].until_s = time_s + LEASE_S
        inside[name] -= round(ended * inside[name])
        wanted = max(work, inside[name])
        share[name], due = shared.lease(name, inside[name], min(most, wanted), most, time_s)
        assert share[name] <= due
        inside[name] = max(inside[name], min(share[name], work))
        assert sum(inside.values()) <= most
        assert sum(member.places for member in shared.members.values()) <= most


def test_a_lost_process_holds_its_places_for_the_lease() -> None:
    shared = QuotaState()
    assert shared.lease("lost", 8, 8, 8, 100.0) == (8, 8)
    assert shared.lease("other", 0, 8, 8, 100.0 + LEASE_S - 0.1)[0] == 0
    assert shared.lease("other", 0, 8, 8, 100.0 + LEASE_S)[0] == 8
    assert shared.members.keys() == {"other"}


def test_a_lease_from_before_the_clock_was_set_back_counts_no_more() -> None:
    shared = QuotaState({"lost": QuotaMember(8, 8, 10_000.0)})
    assert shared.lease("other", 0, 8, 8, 100.0) == (8, 8)


class Worker:
    """Keeps ``callers`` requests of one second each at the concurrency of its quota, all counted in ``under_way``."""

    def __init__(self, path: Path, under_way: list["Worker"], most: int = 12, **limits: Any) -> None:
        settings = EndpointSettings("openai", "m", max_concurrency=most, **limits)
        self.concurrency = ConcurrencyLimit(most)
        self.quota = Quota(settings, self.concurrency, path)
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "quota.json"


def test_alone_a_process_has_all_places_at_once(path: Path) -> None:
    async def main() -> int:
        worker = Worker(path, [])
        worker.work(callers=20)
        await asyncio.sleep(0.01)
        under_way = len(worker.under_way)
        await worker.stop()
        return under_way

    assert run(main()) == 12


def test_places_move_to_whoever_has_work(path: Path) -> None:
    async def main() -> None:
        under_way: list[Worker] = []
        one, two, three = (Worker(path, under_way) for _ in range(3))

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

    run(main())


def test_what_is_given_back_can_be_had_at_once(path: Path) -> None:
    async def main() -> None:
        one, two = Worker(path, []), Worker(path, [])
        one.work(callers=12, calls=1)
        await asyncio.gather(*one.tasks)
        one.quota.close()
        two.work(callers=12)
        await asyncio.sleep(0.01)
        assert len(two.under_way) == 12
        await two.stop()
        one.work(callers=12)  # a request that comes later joins again
        await asyncio.sleep(0.01)
        assert not one.under_way
        await asyncio.sleep(2)
        assert len(one.under_way) == 12
        await one.stop()

    run(main())


def test_one_that_stands_idle_leaves(path: Path) -> None:
    async def main() -> None:
        worker = Worker(path, [])
        worker.work(callers=1, calls=1)
        await asyncio.gather(*worker.tasks)
        await asyncio.sleep(1)
        assert json.loads(path.read_text("utf-8"))["members"] == {}

    run(main())


def test_requests_and_tokens_a_minute_are_one_schedule(path: Path) -> None:
    async def main(**limits: Any) -> list[float]:
        workers = [Worker(path, [], most=100, **limits) for _ in range(3)]
        workers[0].work(callers=5, calls=20, tokens=100)
        workers[1].work(callers=5, calls=20, tokens=100)
        for worker in workers:
            await asyncio.gather(*worker.tasks)
            worker.quota.close()
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
        await asyncio.sleep(100)
        await one.quota.take(1000)
        one.quota.correct(9000)
        await two.quota.take(1000)
        return now_s()

    assert run(main()) == pytest.approx(109.0)


def test_what_the_last_replies_took_counts_for_the_next_command(path: Path) -> None:
    async def main(begin_s: float, tokens: int) -> float:
        worker = Worker(path, [], tokens_per_minute=60_000)
        await asyncio.sleep(begin_s)
        await worker.quota.take(1000)
        waited_s = now_s() - begin_s
        worker.quota.correct(tokens - 1000)
        worker.quota.close()
        return waited_s

    assert run(main(100.0, 10_000)) == 0
    assert run(main(5.0, 10**15)) == pytest.approx(9.0, abs=0.5), "whatever the clock of another boot says"
    assert run(main(0.0, 1000)) == pytest.approx(600.0, abs=0.5), "a count that cannot be true is not waited for"


def test_who_waits_holds_nothing_that_is_to_come(path: Path) -> None:
    """One that is stopped while it waits neither keeps others waiting nor makes up for it afterwards."""

    async def main() -> list[float]:
        stopped, other = (Worker(path, [], most=100, requests_per_minute=60) for _ in range(2))
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
        return began_s

    assert run(main()) == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0], abs=0.02)


def test_requests_that_wait_for_tokens_do_not_come_in_a_burst(path: Path) -> None:
    async def main() -> list[float]:
        worker = Worker(path, [], most=100, requests_per_minute=30, tokens_per_minute=600_000)
        await worker.quota.take(1000)
        worker.quota.correct(450_000)
        worker.work(callers=60, calls=1, tokens=1000)
        await asyncio.gather(*worker.tasks)
        return worker.began_s

    began_s = run(main())
    assert began_s[0] == pytest.approx(44, abs=1)
    assert began_s[-1] - began_s[0] >= 59 * 2 - BURST_S - 1e-6


def test_where_no_file_can_be_had_the_limits_are_the_process_s(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    async def main() -> int:
        worker = Worker(tmp_path / "file" / "quota.json", [])
        worker.work(callers=20)
        await asyncio.sleep(0.01)
        under_way = len(worker.under_way)
        await worker.stop()
        return under_way

    assert run(main()) == 12
    assert "each worker process applies the endpoint's limits separately" in caplog.text


def test_where_machines_share_the_file_time_is_the_world_s(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groundtrace.inference.flow.quota, "on_network", lambda folder: folder == path.parent)

    async def main() -> float:
        worker = Worker(path, [])
        worker.work(callers=1)
        await asyncio.sleep(0.01)
        await worker.stop()
        [member] = json.loads(path.read_text("utf-8"))["members"].values()
        return member["until_s"]

    assert run(main()) == pytest.approx(time.time() + LEASE_S, abs=60)


def test_a_damaged_file_is_begun_anew(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"members": 3}' + " " * 5000, "utf-8")

    async def main() -> int:
        worker = Worker(path, [])
        worker.work(callers=20)
        await asyncio.sleep(0.01)
        path.write_text("[", "utf-8")
        await asyncio.sleep(2)
        under_way = len(worker.under_way)
        await worker.stop()
        return under_way

    assert run(main()) == 12


@pytest.mark.parametrize(
    ("other", "fields", "files"),
    [
        ("e", {}, 1),
        ("e", {"timeout_s": 5.0}, 1),
        ("f", {}, 2),
        ("e", {"base_url": "http://b/v1"}, 2),
        ("e", {"max_concurrency": 3}, 2),
    ],
)
def test_endpoints_of_one_name_and_place_are_one(
    tmp_path: Path, other: str, fields: dict[str, Any], files: int
) -> None:
    async def main() -> int:
        quotas = Quotas(str(tmp_path / "replies.sqlite"))
        for name, changed in (("e", {}), (other, fields)):
            with quotas.of(name):
                flow = Flow(EndpointSettings("openai", "m", **{"base_url": "http://a/v1", **changed}))
            await flow.concurrency.enter()
        quotas.close()
        return len(list(tmp_path.glob("quota-*.json")))

    assert run(main()) == files


def test_with_a_cache_in_memory_an_endpoint_has_its_quota_for_itself() -> None:
    async def main() -> int:
        with Quotas(":memory:").of("e"):
            flow = Flow(EndpointSettings("openai", "m", max_concurrency=3))
        return len([await flow.concurrency.enter() for _ in range(3)])

    assert run(main()) == 3


def test_machines_with_a_cache_on_object_storage_have_parts(
    bucket: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundtrace.inference.flow.machines.BEAT_S", 0.05)
    monkeypatch.setattr("groundtrace.inference.flow.machines.JOIN_S", 0.5)

    async def entered(concurrency: ConcurrencyLimit) -> int:
        asking = [asyncio.ensure_future(concurrency.enter()) for _ in range(9)]
        while not concurrency.inside:
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        for each in asking:
            each.cancel()
        return concurrency.inside

    async def main() -> tuple[int, int]:
        machines = []
        for name in ("one", "two"):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
            machines.append(Quotas(f"{bucket}/cache/replies.sqlite", bucket.storage))
        gates = []
        for quotas in machines:
            with quotas.of("e"):
                gates.append(Flow(EndpointSettings("openai", "m", max_concurrency=7)).concurrency)
        alone = await entered(gates[0])
        for _ in range(2):  # in the first round the second machine joins, while the first one's requests are under way
            for concurrency in gates:
                while concurrency.inside:
                    concurrency.leave(0)
            await asyncio.gather(*(entered(concurrency) for concurrency in gates))
        for quotas in machines:
            quotas.close()
        return alone, sum(concurrency.inside for concurrency in gates)

    assert asyncio.run(main()) == (7, 7)
    assert len(list(tmp_path.rglob("quota-*.json"))) == 2
