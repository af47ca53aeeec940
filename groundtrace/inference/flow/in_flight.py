"""Counts the requests in flight for each stage, for the progress display.

A context variable holds the stage's tally (its counter). A coroutine sets the variable once, for itself and for the
tasks that it starts. If several stages wait for a request, the request is counted for the stage that sends it.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Tally(Protocol):
    """Holds the number of requests in flight of a ``stage``. Only the event loop of
    :mod:`groundtrace.inference.runtime` changes the number. Any thread may read it."""

    stage: str
    in_flight: int


_tally: ContextVar[Tally | None] = ContextVar("tally", default=None)


def count_for(tally: Tally) -> None:
    """Count the later requests of this task, and of the tasks that it starts, in ``tally`` (the counter of a stage)."""
    _tally.set(tally)


def stage_of_call() -> str:
    """Return the stage for which this task makes its calls. Returns "" outside of a stage."""
    tally = _tally.get()
    return "" if tally is None else tally.stage


@contextlib.contextmanager
def one_in_flight() -> Iterator[None]:
    """Count one request as in flight while the body of the ``with`` statement runs."""
    tally = _tally.get()
    if tally is None:
        yield
        return
    tally.in_flight += 1
    try:
        yield
    finally:
        tally.in_flight -= 1
