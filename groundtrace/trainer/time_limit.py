"""Ends code that another person sent with a model, such as a chat template, if this code computes for too long."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


class TooLong(Exception):
    """Raised in the body of :func:`at_most` if the body computes for too long."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise :class:`TooLong` in the body of the ``with`` if the process computes for too long while the body runs.

    ``seconds`` is the maximum CPU time. The time in which the process is stopped (as by Ctrl-Z) does not count. A call
    of a C function, such as the power of two large numbers, is not ended before it returns. Only the main thread can be
    interrupted: in other threads, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)  # repeated, in case that a destructor swallows the error
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise TooLong
