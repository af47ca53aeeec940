"""Implements a circuit breaker: while a server is down, each call to this server fails immediately. A reward server,
which computes rewards for trainers, uses the breaker. So its clients get an error before their timeout, and can retry.

A server is down if it does not answer a check (:meth:`Breaker.check`). The breaker makes such a check itself after
several attempts without an answer. The breaker regards the server as down until the server answers a later check. So
the caller has to repeat the check from time to time.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.checking import checked
from groundtrace.inference.flow.retry import impatient

UNREACHABLE_IN_A_ROW = 3
"""The number of consecutive attempts without an answer after which the server is checked."""
SHORT_CHECK_TIMEOUT_S = 5.0


class Breaker:
    """Makes calls to one endpoint (a model to which requests are sent) fail immediately while its server is down. The
    function ``check`` tests the server, and raises CallError if it is down.

    The class implements :class:`groundtrace.inference.flow.watcher.CallWatcher`. All methods run on the event loop of
    :mod:`groundtrace.inference.runtime`.
    """

    def __init__(self, check: Callable[[], Awaitable[object]]) -> None:
        self._check = check
        self._unreachable = 0
        self._away: CallError | None = None
        self._check_lock = asyncio.Lock()

    async def check(self, retries: int = 0, timeout_s: float = SHORT_CHECK_TIMEOUT_S) -> CallError | None:
        """Check whether the endpoint's server is up. If the server does not answer, later calls of the endpoint fail
        immediately, until the server answers a later check. ``retries`` is the largest number of repetitions after a
        failed check. ``timeout_s`` is the time limit of each attempt, in seconds. Returns the error, or None if the
        check succeeded.
        """
        async with self._check_lock:
            error = await checked(self._check, retries, timeout_s)
            is_away = error is not None and (error.unreachable or error.failure is Failure.TIMEOUT)
            self._away, self._unreachable = error if is_away else None, 0
            return error

    async def admit(self) -> None:
        """Raise CallError (``AWAY``) if the server is down. The method is called before each attempt of a request.

        If several attempts in a row (:data:`UNREACHABLE_IN_A_ROW`) got no answer, the method checks the server before
        it decides.
        """
        if self._away is None and self._unreachable >= UNREACHABLE_IN_A_ROW:
            await self.check()
        if self._away is not None:
            raise CallError(Failure.AWAY, self._away.message, unreachable=True)

    async def pause(self, error: CallError, wait_s: float) -> None:
        """Wait ``wait_s`` seconds before a retry. ``error`` is the error of the failed attempt. If ``wait_s`` is too
        long (over a minute), ``error`` is raised instead.
        """
        await impatient(error, wait_s)

    def sending(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that does nothing, since a breaker does not count the requests in progress."""
        return contextlib.nullcontext()

    async def is_away(self, error: CallError) -> bool:
        """Return False, which means that a failed call does not wait until the server is up.

        With a breaker, a failed call ends immediately after its last retry. ``error`` is not used.
        """
        return False

    def tried(self, call: int, error: CallError | None) -> None:
        """Record that an attempt of a request has ended. ``error`` is the error of the attempt, or None if the attempt
        returned a reply. ``call`` is not used.
        """
        if error is None or not error.unreachable:
            self._unreachable = 0
        else:
            self._unreachable += 1

    def failed(self, error: CallError) -> None:
        """Do nothing. :meth:`tried` already records each failed attempt."""

    def ended(self, error: CallError | None) -> None:
        """Do nothing when a call has ended. The caller handles the error of a failed call.

        The interface CallWatcher requires this method. ``error`` is not used.
        """
