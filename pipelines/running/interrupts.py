"""Telling Ctrl-C from an error, and being stopped from being killed."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


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
    """SIGTERM raises KeyboardInterrupt meanwhile, so that what stands in temporary folders is removed.

    Only in a main thread, and where SIGTERM has not been given another meaning.
    """
    try:
        is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        before = signal.signal(signal.SIGTERM, _interrupt) if is_default else None
    except ValueError:  # not the main thread, which alone may say
        yield
        return
    try:
        yield
    finally:
        if is_default:
            signal.signal(signal.SIGTERM, before)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
