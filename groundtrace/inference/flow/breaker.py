"""What a server that scores for others does about an endpoint that is away: its calls fail at once, so that its clients
are told in time and ask again.

It knows by its own look, and by tries without an answer. Whoever uses it looks again now and then: nothing else ends an
outage.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.checking import checked
from groundtrace.inference.flow.retry import impatient

UNREACHABLE_IN_A_ROW = 3
"""So many tries without an answer between them, and the server is looked for."""
LOOK_TIMEOUT_S = 5.0


class Breaker:
    """The calls of one endpoint in one process. ``check`` asks the server whether it is there.

    See :class:`groundtrace.inference.flow.guard.CallWatcher`. All methods run on the event loop of
    :mod:`groundtrace.inference.runtime`.
    """

    def __init__(self, check: Callable[[], Awaitable[object]]) -> None:
        self._check = check
        self._unreachable = 0
        self._away: CallError | None = None
        self._looking = asyncio.Lock()

    async def look(self, retries: int = 0, timeout_s: float = LOOK_TIMEOUT_S) -> CallError | None:
        """What is wrong with the endpoint by its check; from now on its calls fail while it does not answer."""
        async with self._looking:
            error = await checked(self._check, retries, timeout_s)
            is_away = error is not None and (error.unreachable or error.failure is Failure.TIMEOUT)
            self._away, self._unreachable = error if is_away else None, 0
            return error

    async def over(self) -> None:
        """Raises CallError (``AWAY``) while the server does not answer."""
        if self._away is None and self._unreachable >= UNREACHABLE_IN_A_ROW:
            await self.look()
        if self._away is not None:
            raise CallError(Failure.AWAY, self._away.message, unreachable=True)

    async def pause(self, error: CallError, wait_s: float) -> None:
        """Wait before a try is made again; a server that asks for long is not waited for."""
        await impatient(error, wait_s)

    def sending(self) -> contextlib.AbstractContextManager[None]:
        """Nothing is kept from being sent that :meth:`over` let pass."""
        return contextlib.nullcontext()

    async def is_away(self, error: CallError) -> bool:
        """No call waits."""
        return False

    def tried(self, call: int, error: CallError | None) -> None:
        """One try of a call has ended, with a reply (None) or an error."""
        if error is None or not error.unreachable:
            self._unreachable = 0
        else:
            self._unreachable += 1

    def failed(self, error: CallError) -> None:
        """One try of a call has failed: :meth:`tried` says it too."""

    def ended(self, error: CallError | None) -> None:
        """A call has ended; what its error means is its caller's to say."""
