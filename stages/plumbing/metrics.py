"""Counts elements and calls while stages run, in Beam metrics and on a live board for a local progress display.

The namespace ``stage/<name>`` has the counters ``in`` and ``kept``, and ``rejected/<stage>`` has one counter for each
reason. The counts are for display only, because a runner that repeats work counts this work twice. The counts of a
finished run come from :mod:`groundtrace.stages.plumbing.ends` instead.
"""

import functools
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from apache_beam.metrics.metric import Metrics

from groundtrace.schemas.records import Call, Rejected

RATE_OVER_S = 10
"""The time in seconds over which a stage's rate is measured."""


@functools.cache
def _counter(namespace: str, name: str):
    return Metrics.counter(namespace, name)


@dataclass
class StageProgress:
    """Holds the counts of one stage in this process, for display only.

    ``in_flight`` is the number of the stage's in-flight requests (:mod:`groundtrace.inference.flow.in_flight`).
    ``wall_s`` is the stage's share of the run's time in seconds. ``in_flight_s`` is the sum of the seconds that each of
    its requests took. ``wall_s`` and ``in_flight_s`` are set at the end of a run.
    """

    stage: str = ""
    started_s: float = field(default_factory=time.monotonic)
    seen: int = 0
    kept: int = 0
    rejected: int = 0
    in_flight: int = 0
    calls: int = 0
    requests: int = 0
    cached: int = 0
    wall_s: float = 0.0
    in_flight_s: float = 0.0
    _ended: deque[list[int]] = field(default_factory=deque)
    """Pairs of a second of the monotonic clock and the number of elements that left the stage in it; only for the last
    seconds.
    """

    def end(self, now_s: float) -> None:
        """Record that an element has left the stage at the time ``now_s`` (monotonic clock, in seconds)."""
        second = int(now_s)
        if self._ended and self._ended[-1][0] == second:
            self._ended[-1][1] += 1
            return
        self._ended.append([second, 1])
        while self._ended[0][0] <= second - RATE_OVER_S:
            self._ended.popleft()

    def per_second(self, now_s: float) -> float:
        """Return the number of elements per second that left the stage in the last :data:`RATE_OVER_S` seconds.

        ``now_s`` is the time of the monotonic clock in seconds. If the stage began later, the rate is measured from its
        beginning.
        """
        since_s = max(self.started_s, int(now_s) - RATE_OVER_S + 1)
        ended = sum(count for second, count in list(self._ended) if second >= int(since_s))
        return ended / max(now_s - since_s, 1e-3)


_board: dict[str, StageProgress] = {}
_lock = threading.Lock()


def progress(stage: str) -> StageProgress:
    """Return the live counts of a stage in this process."""
    with _lock:
        return _board.setdefault(stage, StageProgress(stage))


def board() -> dict[str, StageProgress]:
    """Return the counts of all stages that have begun in this process, in the order in which they began."""
    with _lock:
        return dict(_board)


def clear_board() -> None:
    """Remove the counts of an earlier run in this process."""
    with _lock:
        _board.clear()


def count_in(stage: str) -> None:
    """Count an element that enters the stage."""
    _counter(f"stage/{stage}", "in").inc()
    progress(stage).seen += 1


def count_kept(stage: str) -> None:
    """Count an element that leaves the stage by its main output."""
    _counter(f"stage/{stage}", "kept").inc()
    live = progress(stage)
    live.kept += 1
    live.end(time.monotonic())


def count_rejected(rejected: Rejected) -> None:
    """Count a rejected element."""
    _counter(f"rejected/{rejected.stage}", rejected.reason).inc()
    live = progress(rejected.stage)
    live.rejected += 1
    live.end(time.monotonic())


def count_call(stage: str, call: Call) -> None:
    """Count a model call of the stage, with its requests and cached replies."""
    live = progress(stage)
    live.calls += call.usage.calls
    live.requests += call.usage.requests
    live.cached += call.usage.cached
