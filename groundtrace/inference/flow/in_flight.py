"""Counts the requests in progress for each stage (step of a pipeline), for the progress display.

A context variable holds the stage's counter, the tally. A coroutine sets the variable once, for itself and for the
tasks that it starts. If several stages wait for a request, the request is counted for the stage that sends it.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol


class Tally(Protocol):
    """Holds the number of requests in progress of one stage (a step of a pipeline). ``stage`` is the name of the stage,
    and ``in_flight`` is the number. Only the event loop of :mod:`groundtrace.inference.runtime` changes the number. Any
    thread may read it.
    """

    stage: str
    in_flight: int


_tally: ContextVar[Tally | None] = ContextVar("tally", default=None)


def count_for(tally: Tally) -> None:
    """Count all later requests of the current asyncio task for one stage (a step of a pipeline). The requests of the
    tasks that this task starts later are counted too. ``tally`` is the stage's counter.
    """
    _tally.set(tally)


def stage_of_call() -> str:
    """Return the name of the stage (the step of a pipeline) for which the current asyncio task makes its calls. Returns
    "" if the task does not work for a stage.
    """
    tally = _tally.get()
    return "" if tally is None else tally.stage


@contextlib.contextmanager
def one_in_flight() -> Iterator[None]:
    """Count one request as in progress for the current stage (step of a pipeline) while the body of the ``with``
    statement runs. Outside of a stage, nothing is counted.
    """
    tally = _tally.get()
    if tally is None:
        yield
        return
    tally.in_flight += 1
    try:
        yield
    finally:
        tally.in_flight -= 1
