"""Counts elements and calls while stages run, in Beam metrics and in a table of this process (the board), which the
progress display of a local run shows.

The Beam namespace ``stage/<name>`` has the counters ``in`` and ``kept``. The namespace ``rejected/<stage>`` has one
counter for each reason. The counts are for display only, because a runner that repeats work counts this work twice. The
counts of a finished run come from :mod:`groundtrace.stages.plumbing.ends` instead.
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
    """Holds the live counts of one stage (step of the pipeline) in this process, for display only.

    Attributes:
        stage: the stage's name.
        started_s: the time at which the stage began, in seconds of the monotonic clock.
        seen: the number of elements that entered the stage.
        kept: the number of elements that the stage passed on.
        rejected: the number of elements that the stage rejected.
        in_flight: the number of its requests in progress, i.e. sent and not yet answered
            (:mod:`groundtrace.inference.flow.in_flight`).
        calls: the number of its model calls.
        requests: the number of requests that were sent to endpoints.
        cached: the number of replies that needed no request, because they came from the cache, or from an equal call
            that was already in progress.
        wall_s: this stage's part of the run's duration in seconds. The time in which several stages work simultaneously
            is divided among them. It is set at the end of a run.
        in_flight_s: the sum of the durations of its requests in seconds. It is set at the end of a run.
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
    """Pairs of a second of the monotonic clock and the number of elements that left the stage in this second.

    Only the last seconds are kept.
    """

    def end(self, now_s: float) -> None:
        """Record that one element (such as a question) has left the stage (step of the pipeline), kept or rejected.
        ``now_s`` is the time of the monotonic clock in seconds.
        """
        second = int(now_s)
        if self._ended and self._ended[-1][0] == second:
            self._ended[-1][1] += 1
            return
        self._ended.append([second, 1])
        while self._ended[0][0] <= second - RATE_OVER_S:
            self._ended.popleft()

    def per_second(self, now_s: float) -> float:
        """Return the mean number of elements per second that left the stage (step of the pipeline) in the last
        :data:`RATE_OVER_S` seconds.

        ``now_s`` is the time of the monotonic clock in seconds. If the stage began less than :data:`RATE_OVER_S`
        seconds ago, the mean is computed over the time since its beginning.
        """
        since_s = max(self.started_s, int(now_s) - RATE_OVER_S + 1)
        ended = sum(count for second, count in list(self._ended) if second >= int(since_s))
        return ended / max(now_s - since_s, 1e-3)


_board: dict[str, StageProgress] = {}
_lock = threading.Lock()


def progress(stage: str) -> StageProgress:
    """Return the live counts of the stage (step of the pipeline) with the name ``stage`` in this process. They are
    created at the first call.
    """
    with _lock:
        return _board.setdefault(stage, StageProgress(stage))


def board() -> dict[str, StageProgress]:
    """Return the live counts of all stages (steps of the pipeline) that have begun in this process, by the stage's
    name, in the order in which they began.
    """
    with _lock:
        return dict(_board)


def clear_board() -> None:
    """Remove the live counts of all stages (steps of the pipeline), so that an earlier run in this process does not
    appear in the next one.
    """
    with _lock:
        _board.clear()


def count_in(stage: str) -> None:
    """Count one element, usually a draft (a question with its data), that enters the stage with the name ``stage``."""
    _counter(f"stage/{stage}", "in").inc()
    progress(stage).seen += 1


def count_kept(stage: str) -> None:
    """Count one element (such as a question) that a stage passes on and does not reject. ``stage`` is the name of the
    stage (step of the pipeline). The stage passes the element on through its main output ``kept``, or through another
    output that the stage defines.
    """
    _counter(f"stage/{stage}", "kept").inc()
    live = progress(stage)
    live.kept += 1
    live.end(time.monotonic())


def count_rejected(rejected: Rejected) -> None:
    """Count one rejected record, under the stage (step of the pipeline) that rejected it and the reason."""
    _counter(f"rejected/{rejected.stage}", rejected.reason).inc()
    live = progress(rejected.stage)
    live.rejected += 1
    live.end(time.monotonic())


def count_call(stage: str, call: Call) -> None:
    """Add a model call to the live counts of the stage (step of the pipeline) with the name ``stage``, with its
    requests and cached replies.
    """
    live = progress(stage)
    live.calls += call.usage.calls
    live.requests += call.usage.requests
    live.cached += call.usage.cached
