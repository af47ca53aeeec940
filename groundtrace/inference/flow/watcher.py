"""Defines the interface of a watcher: an object that watches the calls of one endpoint and handles a server that is
down. There are two kinds of watchers. While the server is down, a guard makes calls wait, and a circuit breaker makes
calls fail immediately. The module also finds the watcher of the current task.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol

from groundtrace.inference.errors import CallError


class CallWatcher(Protocol):
    """Defines the interface of an object that watches the calls of one endpoint (a model to which requests are sent)
    and handles a server that is down. All methods run on the event loop of :mod:`groundtrace.inference.runtime`.
    """

    async def admit(self) -> None:
        """Wait until an attempt of a request may be sent. The method is called before each attempt.

        If the server is down, a circuit breaker does not wait, but raises
        :class:`groundtrace.inference.errors.CallError`. A guard waits until the server is up. It raises RunStopped if
        this wait takes too long, or if the run has been stopped.
        """
        ...

    async def pause(self, error: CallError, wait_s: float) -> None:
        """Wait before a retry. ``error`` is the error of the failed attempt, and ``wait_s`` is the planned wait in
        seconds. Raises ``error`` if the wait would be too long. Raises RunStopped if the whole run must stop.
        """
        ...

    def sending(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that counts a request as in progress while the body of the ``with`` statement runs.
        The context manager raises RunStopped if the run has ended.
        """
        ...

    async def is_away(self, error: CallError) -> bool:
        """Return whether a failed call must wait until the server is up, and must then be sent again. ``error`` is the
        call's error after all retries.
        """
        ...

    def tried(self, call: int, error: CallError | None) -> None:
        """Record that an attempt of a request has ended. ``call`` identifies the call to which the request belongs.
        ``error`` is the error of the attempt, or None if the attempt returned a reply.
        """
        ...

    def failed(self, error: CallError) -> None:
        """Report a failed attempt of a request, e.g. to the display of the run's progress. ``error`` is the error of
        the attempt. For the same attempt, :meth:`tried` is called as well.
        """
        ...

    def ended(self, error: CallError | None) -> None:
        """Record that a call has ended after all its attempts. ``error`` is the call's error, or None if the call got a
        reply. Raises RunStopped if the error means that the run cannot continue.
        """
        ...


_guard: ContextVar[CallWatcher | None] = ContextVar("guard", default=None)


def guard_of_call() -> CallWatcher | None:
    """Return the object that watches the calls of the current asyncio task, and handles a server that is down. Returns
    None if the calls are not watched.
    """
    return _guard.get()


@contextlib.contextmanager
def guarded_by(guard: CallWatcher | None) -> Iterator[None]:
    """Let ``guard`` watch requests to a model, and handle a server that is down, while the body of the ``with`` runs.

    The requests are those of the current asyncio task, and of the tasks that this task starts. If ``guard`` is None,
    these requests are not watched.
    """
    before = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(before)
