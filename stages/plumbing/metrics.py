"""What the stages count: Beam metrics, which every runner adds up, and a live board for a local progress display.

Metrics stand in the namespaces ``stage/<name>`` (in, kept), ``rejected/<stage>`` (one counter per reason) and
``ledger/<role>/<stage>`` (requests, cached, retries, tokens, cost in millionths of a dollar), and
``agreement/<scorer>`` (one counter per pair of labels that two judges gave).
"""

import functools
import threading
import time
from dataclasses import dataclass, field

from apache_beam.metrics.metric import Metrics

from schemas.records import Call, Rejected
from schemas.usage import USAGE_FIELDS


@functools.cache
def _counter(namespace: str, name: str):
    return Metrics.counter(namespace, name)


@dataclass
class StageProgress:
    """What one stage has done in this process, for display only."""

    started_s: float = field(default_factory=time.monotonic)
    seen: int = 0
    kept: int = 0
    rejected: int = 0
    in_flight: int = 0
    requests: int = 0
    cached: int = 0


_board: dict[str, StageProgress] = {}
_lock = threading.Lock()


def progress(stage: str) -> StageProgress:
    """The live figures of a stage in this process."""
    with _lock:
        return _board.setdefault(stage, StageProgress())


def board() -> dict[str, StageProgress]:
    """All stages that this process has begun, in the order in which they began."""
    with _lock:
        return dict(_board)


def clear_board() -> None:
    """Forget the figures of an earlier run in this process."""
    with _lock:
        _board.clear()


def count_in(stage: str) -> None:
    """One element entered the stage."""
    _counter(f"stage/{stage}", "in").inc()
    progress(stage).seen += 1


def count_kept(stage: str) -> None:
    """One element left the stage by its main output."""
    _counter(f"stage/{stage}", "kept").inc()
    progress(stage).kept += 1


def count_rejected(rejected: Rejected) -> None:
    """One element was rejected."""
    _counter(f"rejected/{rejected.stage}", rejected.reason).inc()
    progress(rejected.stage).rejected += 1


def count_agreement(scorer: str, first: str, second: str) -> None:
    """Two judges were asked the same; the labels that they gave."""
    _counter(f"agreement/{scorer}", f"{first}/{second}").inc()


def count_call(stage: str, call: Call) -> None:
    """One call of a model, as the ledger sees it."""
    namespace = f"ledger/{call.role}/{stage}"
    for name in USAGE_FIELDS:
        value = getattr(call.usage, name)
        if value and name.endswith("_usd"):  # a counter holds whole numbers
            name, value = name.replace("_usd", "_microusd"), round(value * 1_000_000)
        if value:
            _counter(namespace, name).inc(value)
    live = progress(stage)
    live.requests += call.usage.requests
    live.cached += call.usage.cached
