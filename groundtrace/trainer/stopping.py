"""Handles SIGINT, SIGTERM and SIGHUP during training: a signal never interrupts an update or a checkpoint."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """The process received one of :data:`SIGNALS`; ``number`` is the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Stops:
    """Raises :class:`Stopped` in the main thread when a signal arrives; between hold and release, defers it.

    Used as a context manager; on exit the previous signal handlers are restored.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._noted: int | None = None
        self._before: dict[int, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> "Stops":
        if threading.current_thread() is threading.main_thread():  # only the main thread can set handlers
            heard = [number for number in SIGNALS if not _is_nohup(number)]
            self._before = {number: signal.signal(number, self._come) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """Defer signals until :meth:`release`."""
        self._is_held = True

    def release(self) -> None:
        """Stop deferring signals. Raises Stopped if one was deferred."""
        self._is_held = False
        if self._noted is not None:
            number, self._noted = self._noted, None
            raise Stopped(number)

    def _come(self, number: int, _: FrameType | None) -> None:
        if not self._is_held:
            raise Stopped(number)
        self._noted = number


def _is_nohup(number: int) -> bool:
    """Whether the signal is SIGHUP and this process ignores it, as after ``nohup``."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
