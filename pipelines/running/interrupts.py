"""Distinguishes Ctrl-C from an error, and SIGTERM from SIGKILL."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
SAME_STOP_S = 2.0
"""A closed terminal and `timeout` send their signal twice: within this time, both are one stop."""


def is_interrupt(error: BaseException | None) -> bool:
    """Whether the error is a KeyboardInterrupt or was raised because of one.

    Beam replaces one in a stage by a RuntimeError, and a module that is being loaded by an ImportError.
    """
    seen: set[int] = set()  # a chain of causes may be a cycle
    while error is not None and id(error) not in seen and not isinstance(error, KeyboardInterrupt):
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt)


@contextlib.contextmanager
def stopped_like_an_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt in the body, so that temporary folders are removed.

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
    """A handler that raises KeyboardInterrupt once for all signals within :data:`SAME_STOP_S`."""
    last_s = float("-inf")

    def come(_: int, __: FrameType | None) -> None:
        nonlocal last_s
        if time.monotonic() - last_s > SAME_STOP_S:
            last_s = time.monotonic()
            raise KeyboardInterrupt

    return come
