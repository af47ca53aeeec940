"""Defines the interface of a watcher of an endpoint's calls (a guard or a circuit breaker), and finds the watcher of
the current task.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol

from groundtrace.inference.errors import CallError


class CallWatcher(Protocol):
    """Defines the interface of an object that watches the calls of one endpoint. All methods run on the event loop of
    :mod:`groundtrace.inference.runtime`.
    """

    async def admit(self) -> None:
        """Wait until an attempt may be sent. Raises :class:`groundtrace.inference.errors.CallError` or RunStopped if
        it may not be sent.
        """
        ...

    async def pause(self, error: CallError, wait_s: float) -> None:
        """Wait ``wait_s`` seconds or longer before a retry. Raises the error, or RunStopped, if the call must not be
        retried."""
        ...

    def sending(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that counts a request as in flight while the body of the ``with`` statement runs.
        The context manager raises RunStopped if the run has ended."""
        ...

    async def is_away(self, error: CallError) -> bool:
        """Return whether a call must wait until the server is up, and must then be sent again. ``error`` is the call's
        error after all retries.
        """
        ...

    def tried(self, call: int, error: CallError | None) -> None:
        """Record that an attempt of the call with id ``call`` has ended. ``error`` is None if the attempt returned a
        reply."""
        ...

    def failed(self, error: CallError) -> None:
        """Record that an attempt has failed."""
        ...

    def ended(self, error: CallError | None) -> None:
        """Record that a call has ended. Raises RunStopped if the call's error means that the run cannot continue."""
        ...


_guard: ContextVar[CallWatcher | None] = ContextVar("guard", default=None)


def guard_of_call() -> CallWatcher | None:
    """Return the watcher of this task's calls, or None if the calls are not watched."""
    return _guard.get()


@contextlib.contextmanager
def guarded_by(guard: CallWatcher | None) -> Iterator[None]:
    """Let ``guard`` watch the requests of this task, and of the tasks that it starts, while the body of the ``with``
    statement runs."""
    before = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(before)
