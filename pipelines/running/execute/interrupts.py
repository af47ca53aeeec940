"""Lets SIGTERM and SIGHUP end a command as Ctrl-C does."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
SAME_STOP_S = 2.0
"""A closed terminal and `timeout` send their signal twice. Two signals within this time count as one."""


@contextlib.contextmanager
def stopped_like_an_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt in the body, so that temporary folders are removed.

    This holds only in the main thread, and only for a signal that has its default handler: nohup ignores SIGHUP.
    """
    plain = [number for number in STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    stop = _interrupting()
    try:
        before = {number: signal.signal(number, stop) for number in plain}
    except ValueError:  # not the main thread: only that can set handlers
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupting() -> Callable[[int, FrameType | None], None]:
    """Return a handler that raises KeyboardInterrupt only once for all signals within :data:`SAME_STOP_S`."""
    last_s = float("-inf")

    def come(_: int, __: FrameType | None) -> None:
        nonlocal last_s
        if time.monotonic() - last_s > SAME_STOP_S:
            last_s = time.monotonic()
            raise KeyboardInterrupt

    return come
