"""Machines that share an endpoint through a store: each has its part, and the parts are never more than the whole."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from groundtrace.inference.flow import machines
from groundtrace.inference.flow.limits import ConcurrencyLimit
from groundtrace.inference.flow.machines import Machines
from groundtrace.inference.flow.quota import Quota
from groundtrace.inference.settings import EndpointSettings
from groundtrace.storage.remote_path import RemotePath

from .skipping import now_s, run

Make = Callable[[str], Machines]


@pytest.fixture
def make(bucket: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes one of the machines whose folder has this name. They look every 50 ms, and wait for a second to join."""
    monkeypatch.setattr(machines, "BEAT_S", 0.05)
    monkeypatch.setattr(machines, "JOIN_S", 1.0)
    made: list[Machines] = []

    def making(name: str) -> Machines:
        made.append(Machines(bucket / "machines", tmp_path / name))
        made[-1].used()
        return made[-1]

    yield making
    for each in made:
        each.close()


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_one_alone_has_everything(make: Make, bucket: RemotePath) -> None:
    alone = make("a")
    until(lambda: alone.part(7) == 7)
    assert alone.count == 1
    alone.close()
    assert not list((bucket / "machines").iterdir())
    assert alone.part(7) == 0


def test_several_have_parts_that_make_up_the_whole(make: Make) -> None:
    first = make("a")
    until(lambda: first.part(64) == 64)
    others = [make("b"), make("c")]
    assert [each.part(64) for each in others] == [0, 0]
    until(lambda: first.count == 3)
    until(lambda: all(each.part(64) for each in others))
    # between two turns of the remainder, nobody has it
    for most, parts in ((64, [21, 21, 22]), (3, [1, 1, 1]), (2, [0, 1, 1]), (1, [0, 0, 1])):
        until(lambda most=most, parts=parts: sorted(each.part(most) for each in (first, *others)) == parts)
    others[0].close()
    until(lambda: first.count == others[1].count == 2)
    assert first.part(64) == others[1].part(64) == 32


def test_whoever_joins_waits_until_the_others_have_seen_it(make: Make) -> None:
    first = make("a")
    until(lambda: first.part(8) == 8)
    second = make("b")
    while not second.part(8):
        assert first.part(8) + second.part(8) <= 8
    until(lambda: (first.part(8), second.part(8)) == (4, 4))


def test_who_is_too_slow_to_look_has_no_part_when_another_has_joined(make: Make) -> None:
    first = make("a")
    until(lambda: first.part(8) == 8)
    with pytest.MonkeyPatch.context() as slow:
        looking = threading.Event()
        slow.setattr(first, "_beat", lambda *_: (looking.set(), time.sleep(3)))
        assert looking.wait(30)
        second = make("b")
        until(lambda: second.part(8) > 0)
        assert (first.part(8), second.part(8)) == (0, 4)
    until(lambda: (first.part(8), second.part(8)) == (4, 4))


def part_seen_at(rank: int, store_s: float, tmp_path: Path) -> int:
    """What one of two machines has of 7 places that has looked when the store's clock said so."""
    objects = [tmp_path / f"{name}.1.json" for name in "ab"]
    folder = SimpleNamespace(listed=lambda: dict.fromkeys(objects, SimpleNamespace(st_mtime=store_s)))
    machine = Machines(cast(RemotePath, folder), tmp_path)
    machine._beat("ab"[rank], cast(RemotePath, objects[rank]), b"")
    machine._joined_s = 0
    return machine.part(7)


def test_an_odd_place_goes_round_and_is_nobodys_while_it_does(tmp_path: Path) -> None:
    begin_s = 1_000_000 * machines.TURN_S
    seen = [
        (seconds, [part_seen_at(rank, begin_s + seconds, tmp_path) for rank in (0, 1)])
        for seconds in range(-10, int(machines.TURN_S) + 20)
    ]
    for first_s, (first, _) in seen:
        for second_s, (_, second) in seen:
            if abs(first_s - second_s) < machines.JOIN_S:  # both still hold
                assert first + second <= 7
    turns = [next(parts for at_s, parts in seen if at_s == seconds) for seconds in (-1, 30, int(machines.TURN_S) + 18)]
    assert turns in ([[4, 3], [3, 4], [4, 3]], [[3, 4], [4, 3], [3, 4]])


def test_processes_of_one_machine_are_one(make: Make) -> None:
    first, second = make("a"), make("a")
    until(lambda: first.part(9) == 9 and second.part(9) == 9)
    second.close()
    until(lambda: first.count == 1)
    assert first.part(9) == 9


def test_a_lost_machine_is_left_out_and_then_deleted(
    make: Make, bucket: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, listed = bucket / "machines/lost.1.json", RemotePath.listed
    lost.write_bytes(b"{}")
    age_s = machines.LEASE_S + 1

    def aged(self: RemotePath) -> object:
        return {
            path: replace(stat, st_mtime=stat.st_mtime - age_s) if stat and path == lost else stat
            for path, stat in listed(self).items()
        }

    monkeypatch.setattr(RemotePath, "listed", aged)
    alone = make("a")
    until(lambda: alone.part(5) == 5)
    assert lost.exists()
    age_s = machines.FORGOTTEN_S + 60
    until(lambda: not lost.exists())


def test_without_the_store_there_is_soon_no_part(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = make("a")
    until(lambda: alone.part(5) == 5)
    with monkeypatch.context() as away:
        away.setattr(RemotePath, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError("away")))
        alone.used()
        until(lambda: alone.part(5) == 0)
    alone.used()
    until(lambda: alone.part(5) == 5)


def test_who_has_no_work_leaves_its_part_to_the_others(
    make: Make, bucket: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "LEASE_S", 0.3)
    alone = make("a")
    until(lambda: alone.part(5) == 5)
    until(lambda: not list((bucket / "machines").iterdir()))
    assert alone.part(5) == 0
    alone.used()
    until(lambda: alone.part(5) == 5)


class Two(Machines):
    """Two machines, whatever there is."""

    def __init__(self) -> None:
        pass

    @property
    def count(self) -> int:
        return 2

    def used(self) -> None:
        pass

    def part(self, most: int) -> int:
        return most // 2


def test_a_quota_is_that_of_the_machine(tmp_path: Path) -> None:
    async def measure() -> tuple[int, float]:
        settings = EndpointSettings("openai", "m", max_concurrency=6, requests_per_minute=60)
        concurrency = ConcurrencyLimit(6, adaptive=False)
        quota = Quota(settings, concurrency, tmp_path / "quota.json", Two())
        asking = [asyncio.ensure_future(concurrency.enter()) for _ in range(5)]
        await asyncio.sleep(1)
        inside, began_s = concurrency.inside, now_s()
        for _ in range(3):
            await quota.take(1)
        seconds = now_s() - began_s
        for each in asking:
            each.cancel()
        quota.close()
        return inside, seconds

    assert run(measure()) == (3, pytest.approx(3.0))
