"""Moments of a run on a cluster: it is held while workers are within a stage, and what is lost then is counted."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from .cluster import RECORDS, Bench, Cluster, Outcome
from .workers import Worker, ports_of, waited_for, workers_of

ASKING = ("attempt", "trace")
"""Stages that ask the server, which holds their requests."""
DONE_BEFORE = {"ingest": 60, "split": 60, "write": 1}
"""Stages that ask nobody, and how many calls a worker makes before it is held."""


@dataclass(frozen=True)
class Moments:
    """How runs of ``here`` on the cluster are held; ``holds`` is the folder of holding/sitecustomize.py."""

    here: Bench
    cluster: Cluster
    holds: Path

    @contextmanager
    def within(self, stage: str, item: str = "") -> Iterator[None]:
        """A run that comes to the stage stays there until the block ends; ``item`` is the only one that is held."""
        if stage in DONE_BEFORE:
            (self.holds / stage).write_text(str(DONE_BEFORE[stage]))
        else:
            self.here.server.ask("hold", json.dumps({"kind": stage, "item": item}).encode())
        try:
            yield
        finally:
            (self.holds / stage).unlink(missing_ok=True)
            for path in self.holds.glob(f"{stage}-*"):
                path.unlink()
            self.here.server.ask("release", b"")

    def worker_within(self, stage: str, process: "subprocess.Popen[str]") -> Worker:
        """A worker of the run ``process`` that is within the stage now; waits for it."""

        def look() -> Worker | None:
            assert process.poll() is None, process.communicate()
            return self._held(stage) if stage in DONE_BEFORE else self._asking(stage)

        return waited_for(f"no worker within {stage}", look)

    def _asking(self, kind: str) -> Worker | None:
        """The worker with the most requests of this kind that are held."""
        ports = [asked["peer"] for asked in self.unanswered() if asked["kind"] == kind and asked["held"]]
        own = {worker: worker.ports() for worker in workers_of(self.cluster)}
        asking = {worker: sum(port in found for port in ports) for worker, found in own.items()}
        return max(asking, key=lambda worker: asking[worker]) if any(asking.values()) else None

    def _held(self, stage: str) -> Worker | None:
        held = {int(path.name.rpartition("-")[2]) for path in self.holds.glob(f"{stage}-*")}
        return next((worker for worker in workers_of(self.cluster) if worker.process.pid in held), None)

    def unanswered(self) -> list[dict[str, Any]]:
        """The requests that the server has not answered yet, as its log has them."""
        return [asked for asked in self.here.server.ask("log") if not asked["end_s"]]

    def lost(self, workers: list[Worker]) -> int:
        """How many requests are lost with these workers, whose executors are gone.

        Waits for the workers to end. The server will answer nobody who could note what the reply has cost.
        """
        waited_for("a worker outlives its executor", lambda: all(map(Worker.has_ended, workers)))
        asked = self.unanswered()
        alive = psutil.Process(self.cluster.pid("pool")).children(recursive=True)
        ports = set[int]().union(*map(ports_of, alive))
        return sum(each["peer"] not in ports for each in asked)


def check_same(outcome: Outcome, local: Outcome) -> None:
    """The same files, and a ``run.json`` that is balanced and tells the same of records and calls."""
    assert outcome.code == 0, outcome.said
    assert outcome.ends == outcome.counts["input"] == RECORDS
    assert (outcome.counts, outcome.files) == (local.counts, local.files)
    assert outcome.funnel == local.funnel
    assert outcome.calls == local.calls, "the ledger holds each call once"
