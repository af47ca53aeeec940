"""Several worker processes at one server: one request for a reply, one quota, one budget; some are killed."""

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .workers import Worker, workers

pytestmark = pytest.mark.faults

KEYS = [f"answer {number}" for number in range(500)]


def asked_of(server) -> Counter[str]:
    """How often the server was asked each thing."""
    return Counter(seen.body["messages"][-1]["content"][-1]["text"] for seen in server.seen if seen.body)


def shuffled(count: int) -> list[list[str]]:
    orders = [list(KEYS) for _ in range(count)]
    for seed, order in enumerate(orders):
        random.Random(seed % 2).shuffle(order)  # two and two go through them in the same order, the worst case
    return orders


def wait_for(server, requests: int) -> None:
    deadline_s = time.monotonic() + 60
    while len(server.seen) < requests:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_four_workers_send_one_request_for_each_reply(server, tmp_path: Path) -> None:
    """And they keep to what the endpoint takes at once."""
    server.takes_s = 0.02
    with workers(tmp_path, server.base_url, shuffled(4), max_concurrency=10) as started:
        said = said_by(started)
    assert set(asked_of(server).values()) == {1}
    assert len(server.seen) == len(KEYS)
    assert all(each["texts"] == said[0]["texts"] and not each["failed"] for each in said)
    assert said[0]["texts"].keys() == set(KEYS)
    assert 10 // 4 < server.most_at_once <= 10


def test_after_a_kill_only_what_was_in_flight_is_sent_again(server, tmp_path: Path) -> None:
    server.takes_s = 0.05
    with workers(tmp_path, server.base_url, shuffled(3), callers=8, max_concurrency=12) as started:
        for worker in started:
            worker.begin()
        wait_for(server, 150)
        started[0].kill()
        said = [worker.said() for worker in started[1:]]
    twice = sum(count - 1 for count in asked_of(server).values())
    assert twice <= 8  # the killed worker's callers
    assert all(each["texts"] == said[0]["texts"] and not each["failed"] for each in said)
    assert said[0]["texts"].keys() == set(KEYS)


@pytest.mark.parametrize("killed", [0, 1])
def test_one_comes_while_all_places_are_in_use_and_one_of_the_two_is_killed(
    server, tmp_path: Path, killed: int
) -> None:
    """64 calls of 60 s are in flight. The second asks for the same and for more, and sends nothing until it may."""
    server.takes_s = 60.0
    mine, others = KEYS[:64], KEYS[:100]
    with workers(tmp_path, server.base_url, [mine, others], callers=100, max_concurrency=64) as started:
        started[0].begin()
        wait_for(server, 64)
        started[1].begin()
        time.sleep(2)
        assert len(server.seen) == 64
        started[killed].kill()
        if killed == 0:
            wait_for(server, 128)  # what the killed one asked for, or was free: 64 places in all
            server.let_go()
        else:
            time.sleep(2)
            server.let_go()
        said = started[1 - killed].said()
    assert said["texts"].keys() == set(others if killed == 0 else mine) and not said["failed"]
    twice = sum(count - 1 for count in asked_of(server).values())
    assert twice == (64 if killed == 0 else 0)
    assert len(server.seen) == len(said["texts"]) + twice


def test_a_suspended_worker_costs_nothing_and_breaks_no_limit(server, tmp_path: Path) -> None:
    """The other one waits for what it asked for, and asks for nothing twice."""
    server.takes_s = 0.05
    with workers(tmp_path, server.base_url, shuffled(2), callers=8, max_concurrency=12) as started:
        for worker in started:
            worker.begin()
        wait_for(server, 100)
        started[0].process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        started[0].process.send_signal(signal.SIGCONT)
        said = [worker.said() for worker in started]
    assert set(asked_of(server).values()) == {1} and len(server.seen) == len(KEYS)
    assert server.most_at_once <= 12
    assert all(each["texts"] == said[0]["texts"] and not each["failed"] for each in said)


def test_workers_keep_one_budget(server, tmp_path: Path) -> None:
    """A reply takes 15 tokens. The one with little to ask leaves the rest of the budget to the one with much."""
    server.takes_s, server.lists_models = 0.01, True
    asked = [KEYS[:300], KEYS[300:305]]
    with workers(tmp_path, server.base_url, asked, tokens=4000) as started:
        said = said_by(started)
    replies = sum(len(each["texts"]) for each in said)
    failed = [line for each in said for line in each["failed"]]
    assert replies + len(failed) == 305
    assert all(line.startswith("BudgetUsedUp: the budget is used up:") for line in failed)
    assert replies == len(server.seen)
    estimate = 400  # more than one request is thought to take: the prompt's estimate and what replies took
    assert 4000 - estimate <= 15 * replies <= 4000


def said_by(started: list[Worker]) -> list[dict[str, Any]]:
    """What workers say that begin together."""
    for worker in started:
        worker.begin()
    return [worker.said() for worker in started]
