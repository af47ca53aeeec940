"""SIGINT, SIGTERM and SIGHUP while a training runs: they end it where nothing is torn apart."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """One of :data:`SIGNALS` came; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Stops:
    """Raises :class:`Stopped` in the main thread when a signal comes, but not while it is held back.

    Used as a context, outside of which signals do what they did before.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._noted: int | None = None
        self._before: dict[int, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> "Stops":
        if threading.current_thread() is threading.main_thread():  # Python allows no other to set handlers
            heard = [number for number in SIGNALS if not _is_nohup(number)]
            self._before = {number: signal.signal(number, self._come) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """From here on a signal is only noted."""
        self._is_held = True

    def release(self) -> None:
        """Let signals through again. Raises Stopped for one that came meanwhile."""
        self._is_held = False
        if self._noted is not None:
            number, self._noted = self._noted, None
            raise Stopped(number)

    def _come(self, number: int, _: FrameType | None) -> None:
        if not self._is_held:
            raise Stopped(number)
        self._noted = number


def _is_nohup(number: int) -> bool:
    """Whether whoever started this process wants it to outlive its terminal."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
