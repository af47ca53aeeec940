"""Telling Ctrl-C from an error, and being stopped from being killed."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
SAME_STOP_S = 2.0
"""A terminal that is closed, and `timeout`, send their signal twice: so soon after the first it is no second stop."""


def is_interrupt(error: BaseException | None) -> bool:
    """Whether the error is a KeyboardInterrupt or was raised because of one.

    Beam raises a RuntimeError in place of one that a stage gets, and modules an ImportError of one while they load.
    """
    seen: set[int] = set()  # a chain may lead back into itself
    while error is not None and id(error) not in seen and not isinstance(error, KeyboardInterrupt):
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt)


@contextlib.contextmanager
def stopped_like_an_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt meanwhile, so that what stands in temporary folders is removed.

    Only in a main thread, and each only where it has not been given another meaning: nohup has SIGHUP ignored.
    """
    plain = [number for number in STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    stop = _interrupting()
    try:
        before = {number: signal.signal(number, stop) for number in plain}
    except ValueError:  # not the main thread, which alone may say
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupting() -> Callable[[int, FrameType | None], None]:
    """A handler that raises KeyboardInterrupt, once for signals that are one stop."""
    last_s = float("-inf")

    def come(_: int, __: FrameType | None) -> None:
        nonlocal last_s
        if time.monotonic() - last_s > SAME_STOP_S:
            last_s = time.monotonic()
            raise KeyboardInterrupt

    return come
