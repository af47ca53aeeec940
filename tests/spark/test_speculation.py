"""Speculative execution: Spark starts a second copy of a slow task, so that two workers do the same at once."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .cluster import WINDOW, Bench, Cluster, started
from .moments import Moments, check_same
from .workers import Worker, waited_for

pytestmark = [pytest.mark.spark, pytest.mark.full]
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.eventLog.enabled": "true",
}
ITEM = "item-000123"
_STARTED = re.compile(r"Starting task (\d+)\.\d+ in stage ([\d.]+) \(TID (\d+)\) \(([\d.]+), executor")
_ENDED = re.compile(r"(?:Finished|Lost) task [\d.]+ in stage [\d.]+ \(TID (\d+)\)")
_BEATEN = re.compile(
    r"Killing attempt \d+ for task [\d.]+ in stage [\d.]+ \(TID (\d+)\) on .* as the attempt \d+ succeeded"
)


@dataclass(frozen=True)
class Attempt:
    """A copy of a task that runs now: its task, and its executor's host."""

    task: tuple[str, str]
    host: str


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark keeps its event logs, one for each job."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, events: Path) -> Iterator[Cluster]:
    """A cluster that starts second copies as soon as it can."""
    properties = EAGER | {"spark.eventLog.dir": events.as_uri()}
    conf = " ".join(f"{name}={value}" for name, value in properties.items())
    with started("spark", tmp_path_factory.mktemp("spark"), SPARK_CONF=conf) as made:
        yield made


@pytest.fixture
def moments(here: Bench, cluster: Cluster, tmp_path: Path) -> Moments:
    here.server.ask("reset", b"")
    return Moments(here, cluster, tmp_path)


def second_copies(events: Path, before: set[Path]) -> int:
    """How many speculative tasks Spark says that it has started since ``before``."""
    started_tasks = 0
    for path in set(events.iterdir()) - before:
        for line in path.read_text("utf-8").splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskStart":
                started_tasks += event["Task Info"]["Speculative"]
    return started_tasks


def log_of_job(cluster: Cluster) -> str:
    """What the driver has said of the job that began last; each counts its tasks anew."""
    return cluster.log("job-server").rpartition("SparkPipelineRunner: Running job")[2]


def running(cluster: Cluster) -> dict[str, Attempt]:
    """The copies of tasks that run now, by number, as the driver's log has them."""
    log = log_of_job(cluster)
    ended = set(_ENDED.findall(log))
    return {
        number: Attempt((stage, task), host)
        for task, stage, number, host in _STARTED.findall(log)
        if number not in ended
    }


def is_done_twice(cluster: Cluster) -> bool:
    """Whether nothing runs but two copies of one task."""
    attempts = list(running(cluster).values())
    return len(attempts) == 2 and len({attempt.task for attempt in attempts}) == 1


def test_both_copies_of_a_slow_task_wait_for_the_same_reply(here, local, cluster, events, moments):
    """The server is slow about one record until there is a second copy of its task. Nothing is asked for twice."""
    whole, requests = local
    before = set(events.iterdir())
    with moments.within("attempt", ITEM):
        process = here.begin("slow-server", cluster.options)
        moments.worker_within("attempt", process)
        waited_for("there is no second copy", lambda: is_done_twice(cluster))
    outcome = here.end("slow-server", process)
    check_same(outcome, whole)
    assert outcome.paid == here.requests() == requests
    assert second_copies(events, before) > 0


def test_the_second_copy_of_a_stopped_worker_wins(here, local, cluster, events, moments):
    """A worker stands still in the middle of its requests. The copy of its task asks for them again, and ends first."""
    whole, requests = local
    before = set(events.iterdir())
    with moments.within("trace"):
        process = here.begin("stopped-worker", cluster.options)
        worker = moments.worker_within("trace", process)
        stop(worker)
        [own] = [number for number, attempt in running(cluster).items() if attempt.host == worker.host]
    try:
        waited_for("the second copy did not win", lambda: own in _BEATEN.findall(log_of_job(cluster)))
    finally:
        worker.process.resume()
    outcome = here.end("stopped-worker", process)
    check_same(outcome, whole)
    assert requests < here.requests() <= requests + WINDOW
    assert here.requests() - WINDOW <= outcome.paid <= here.requests()
    assert second_copies(events, before) > 0


def stop(worker: Worker) -> None:
    """Stop the worker at a moment at which it locks no file: others of this machine would wait for the lock."""

    def stopped() -> bool:
        worker.process.suspend()
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        if not any("WRITE" in fields and str(worker.process.pid) in fields for fields in held):
            return True
        worker.process.resume()
        return False

    waited_for("the worker locks a file all the time", stopped)
