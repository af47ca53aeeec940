"""Lets SIGTERM and SIGHUP end a command as Ctrl-C does."""

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
SAME_STOP_S = 2.0
"""A closed terminal and `timeout` send their signal twice. Two signals within this time count as one."""
RAISE_AGAIN_S = 0.02
"""After this time an interrupt that Python ignored is raised again."""


@contextlib.contextmanager
def stopped_like_an_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt in the body, so that temporary folders are removed.

    This holds only in the main thread, and only for a signal that has its default handler: nohup ignores SIGHUP.
    A KeyboardInterrupt that Python ignores (see :func:`_not_ignored`) is raised again.
    """
    plain = [number for number in STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    stop = _interrupting()
    try:
        before = {number: signal.signal(number, stop) for number in plain}
    except ValueError:  # not the main thread: only that can set handlers
        yield
        return
    try:
        with _not_ignored():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _not_ignored() -> Iterator[None]:
    """Raise a KeyboardInterrupt again, a moment later, if Python ignored it.

    Python ignores each exception in a destructor and in the callback of a weak reference: one signal in some 1,500 is
    handled there, and the run would go on as if there were no Ctrl-C.
    """
    before = sys.unraisablehook

    def come(ignored: "sys.UnraisableHookArgs") -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            before(ignored)
            return
        again = threading.Timer(RAISE_AGAIN_S, _thread.interrupt_main)
        again.daemon = True
        again.start()

    sys.unraisablehook = come
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupting() -> Callable[[int, FrameType | None], None]:
    """Return a handler that raises KeyboardInterrupt only once for all signals within :data:`SAME_STOP_S`."""
    last_s = float("-inf")

    def come(_: int, __: FrameType | None) -> None:
        nonlocal last_s
        if time.monotonic() - last_s > SAME_STOP_S:
            last_s = time.monotonic()
            raise KeyboardInterrupt

    return come
