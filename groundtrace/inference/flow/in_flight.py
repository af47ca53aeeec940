"""For whom requests are sent: which stage a call is made for, and how many requests are under way for it, for display.

Who that is travels in a context variable: a coroutine says once whom its requests are counted for, and so do the tasks
that it starts. A request that several wait for is counted for the one that sends it.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Tally(Protocol):
    """Holds the count of a ``stage``. Only the loop of :mod:`groundtrace.inference.runtime` changes it; any thread may
    read it.
    """

    stage: str
    in_flight: int


_tally: ContextVar[Tally | None] = ContextVar("tally", default=None)


def count_for(tally: Tally) -> None:
    """Count on ``tally`` what this task, and the tasks that it starts, send from now on."""
    _tally.set(tally)


def stage_of_call() -> str:
    """The stage that this task makes its calls for; "" outside of any."""
    tally = _tally.get()
    return "" if tally is None else tally.stage


@contextlib.contextmanager
def one_in_flight() -> Iterator[None]:
    """One request is in flight while the body runs."""
    tally = _tally.get()
    if tally is None:
        yield
        return
    tally.in_flight += 1
    try:
        yield
    finally:
        tally.in_flight -= 1
