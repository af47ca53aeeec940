"""Lets the signals SIGTERM and SIGHUP end a command as Ctrl-C does."""

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
"""Two signals within this number of seconds are treated as one.

The reason is that a closed terminal and the program ``timeout`` send their signal twice.
"""
RAISE_AGAIN_S = 0.05
"""The number of seconds after which an interrupt that Python ignored is raised again."""


@contextlib.contextmanager
def stopped_like_an_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt in the body of the ``with`` statement, as Ctrl-C does.

    So temporary folders are removed when a signal stops the command. There are two cases without an effect:

    - If the ``with`` statement is not executed in the main thread, the function has no effect on either signal.
    - If a signal already has a handler of its own, or is ignored, the function has no effect on this signal. For
      example, ``nohup`` makes a process ignore SIGHUP.

    Python ignores each error that is raised in a destructor. If Python ignores a KeyboardInterrupt for this reason, the
    KeyboardInterrupt is raised again after :data:`RAISE_AGAIN_S` seconds.
    """
    plain = [number for number in STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    stop = Interrupting()
    try:
        before = {number: signal.signal(number, stop) for number in plain}
    except ValueError:  # not the main thread: only that can set handlers
        yield
        return
    try:
        with _not_ignored(stop.again):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _not_ignored(again: Callable[[], None]) -> Iterator[None]:
    """Call ``again`` in another thread, a moment later, if Python ignores a KeyboardInterrupt in the ``with`` body.

    Python ignores each exception in a destructor and in the callback of a weak reference. About one signal in 1,500 is
    handled at such a point. Without this function, the run would then continue as if the user had not pressed Ctrl-C.
    """
    before = sys.unraisablehook

    def later() -> None:
        time.sleep(RAISE_AGAIN_S)
        again()

    def come(ignored: "sys.UnraisableHookArgs") -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            before(ignored)
            return
        _thread.start_new_thread(later, ())  # Thread.start would wait here, where an interrupt is ignored, too

    sys.unraisablehook = come
    try:
        yield
    finally:
        sys.unraisablehook = before


class Interrupting:
    """Handles signals by raising KeyboardInterrupt. Register an object of this class as the handler of a signal.

    If several signals arrive within :data:`SAME_STOP_S` seconds, the error is raised only for the first signal.
    ``number`` is the number of the last signal for which the error was raised; None if there was none.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._last_s = float("-inf")

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Raise KeyboardInterrupt, because the signal ``number`` has arrived.

        Nothing is raised if this method has raised it less than :data:`SAME_STOP_S` seconds ago.
        """
        if time.monotonic() - self._last_s > SAME_STOP_S:
            self.number, self._last_s = number, time.monotonic()
            raise KeyboardInterrupt

    def again(self) -> None:
        """Send the latest signal to the main thread again, because Python ignored the KeyboardInterrupt of this signal.

        If this object has not handled a signal yet, SIGINT is sent.

        Call this method in another thread. It sends a real signal, because ``_thread.interrupt_main`` would have no
        effect while the main thread waits for a lock or a reply.
        """
        number, self.number, self._last_s = self.number, None, float("-inf")
        main = threading.main_thread().ident
        assert main is not None  # it runs
        signal.pthread_kill(main, signal.SIGINT if number is None else number)
