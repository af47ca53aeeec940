"""What a run does about an endpoint that does not serve: it waits for a server that went away, and ends where that
cannot help.

Outside a run (training, a single verification) there is no guard, and a failed call is the caller's to deal with; where
nobody can wait there is a :class:`groundtrace.inference.flow.breaker.Breaker` in its place.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Protocol

from groundtrace.inference.errors import GATEWAY_STATUSES, CallError, Failure, RunStopped
from groundtrace.inference.flow.checking import (
    CHECK_RETRIES,
    checked,
    described,
    is_refusal,
    what_to_do,
    will_not_serve,
)
from groundtrace.inference.flow.notes import RunNotes
from groundtrace.inference.flow.patience import TELL_EVERY_S, Patience
from groundtrace.inference.flow.retry import MAX_WAIT_S
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.text import printable

UNREACHABLE_IN_A_ROW = 5
"""So many tries without an answer between them, and the server is looked for."""
CALLS_BEHIND = 3
"""A server that lists its models and answers 502 to 504 is away when so many different calls met that in a row, and so
is one that asks all of them to wait. Fewer may be requests that are too much for it: those fail by themselves."""
REFUSED_IN_A_ROW = 8
"""A server that has answered before may refuse one request, for what it shows; so many in a row are the endpoint's."""
NEVER_ANSWERED = 20
"""So many calls that failed for good, and none answered in the whole run: the role does not answer."""
FIRST_PROBE_S, MAX_PROBE_S = 0.5, 10.0
SHOWN_S = 2.0
"""A shorter wait that a server asks for is over before anybody could read of it."""

_AT_ONCE = frozenset({401, 402})
_UNSENT = frozenset({Failure.UNSUPPORTED, Failure.UNKNOWN_LABEL, Failure.REFUSED})


class CallWatcher(Protocol):
    """What watches the calls of one endpoint. All methods run on the event loop of
    :mod:`groundtrace.inference.runtime`.
    """

    async def over(self) -> None:
        """Return when a try may be sent. Raises :class:`groundtrace.inference.errors.CallError` or RunStopped where
        none may.
        """
        ...

    async def pause(self, error: CallError, wait_s: float) -> None:
        """Wait before a try that failed is made again. Raises the error, or RunStopped, where it is not to be."""
        ...

    def sending(self) -> contextlib.AbstractContextManager[None]:
        """A request is under way meanwhile. Raises RunStopped where nothing more is to be sent."""
        ...

    async def is_away(self, error: CallError) -> bool:
        """Whether a call that failed for good is to be sent again once the server is back."""
        ...

    def tried(self, call: int, error: CallError | None) -> None:
        """One try of a call has ended, with a reply (None) or an error."""
        ...

    def failed(self, error: CallError) -> None:
        """One try of a call has failed."""
        ...

    def ended(self, error: CallError | None) -> None:
        """A call has ended. Raises RunStopped where its error means that there is no use in going on."""
        ...


class Guard:
    """Watches the calls of one endpoint in one process. ``check`` asks the server whether it is there.

    All methods run on the event loop of :mod:`groundtrace.inference.runtime`.
    """

    def __init__(
        self,
        name: str,
        roles: tuple[str, ...],
        settings: EndpointSettings,
        check: Callable[[], Awaitable[object]],
        notes: RunNotes,
    ) -> None:
        self._name, self._settings, self._check, self._notes = name, settings, check, notes
        self._roles, self._named = roles, described(name, roles, settings)
        self._patience = Patience(name, self._named, settings.outage_timeout_s, notes)
        self.under_way = 0
        self._stopped: RunStopped | None = None
        self._answered = False
        self._failed_calls = self._refused = self._unreachable = 0
        self._calls: set[int] = set()
        self._last: CallError | None = None
        self._away = self._behind = self._probing = False
        self._probes = 0
        self._looking = asyncio.Lock()
        self._changed = asyncio.Event()

    # What calls report

    def tried(self, call: int, error: CallError | None) -> None:
        """One try of a call has ended, with a reply (None) or an error."""
        if self._probing:
            self._probing = False
            self._wake()
        if error is not None and error.unreachable:
            self._unreachable += 1
            self._calls.add(call)
            self._last = error
        elif error is not None and error.asks_to_wait:
            if self._away:
                self._come()  # it is there, though it answers nobody
            self._calls.add(call)
            self._last = error
        elif error is None or error.failure is not Failure.TIMEOUT:
            self._back()

    def failed(self, error: CallError) -> None:
        """One try of a call has failed, which whoever watches the run is to see."""
        self._notes.failed(self._name, error.status or 0, printable(" ".join(str(error).split())))

    def ended(self, error: CallError | None) -> None:
        """A call has ended. Raises :class:`RunStopped` where its error means that there is no use in going on."""
        if error is None:
            self._refused = 0
            if not self._answered:
                self._answered = True
                self._notes.reached(f"{self._name}:answered")
            return
        if is_refusal(error):
            self._refused += 1
            if error.status in _AT_ONCE or not self._has_answered() or self._refused >= REFUSED_IN_A_ROW:
                self._refuse(error)
        elif error.failure not in _UNSENT:
            if error.asks_to_wait:
                self._patience.forget()  # whoever is asked to wait next has waited for nothing yet
            self._failed_calls += 1
            if self._failed_calls >= NEVER_ANSWERED and not self._has_answered():
                self.stop(
                    f"{self._named}: no call was answered in {self._failed_calls}; the last: {error}. "
                    f"See to the server, or let another endpoint play the role"
                )

    def _has_answered(self) -> bool:
        return self._answered or self._notes.was_reached(f"{self._name}:answered")

    def _refuse(self, error: CallError) -> None:
        self.stop(what_to_do(self._name, self._roles, self._settings, error))

    def stop(self, message: str, resumable: bool = False) -> None:
        """End the run: every call of this endpoint raises from now on. Raises :class:`RunStopped`."""
        self._stopped = RunStopped(printable(" ".join(message.split())), resumable)
        self._wake()
        raise self._stopped

    def end(self) -> None:
        """The run ends, for another reason: nothing more is sent, and what is under way may come."""
        if self._stopped is None:
            self._stopped = RunStopped("the run was stopped", resumable=True)
            self._wake()

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """A request is under way while the body runs. Raises :class:`RunStopped` where nothing more is to be sent."""
        self._go_on()
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1

    def _go_on(self) -> None:
        if self._stopped is not None:
            raise RunStopped(*self._stopped.args)

    # Before the first call

    async def look(self) -> None:
        """Check the endpoint. Raises :class:`RunStopped` where it refuses, was never reached in this run, or goes on
        asking to wait.
        """
        error = await self._checked(CHECK_RETRIES)
        while error is not None and error.asks_to_wait and self._patience.limit_s:
            try:
                await self.pause(error, FIRST_PROBE_S)
            except CallError:  # others are answered
                break
            error = await self._checked()
        if error is None:
            self._patience.forget()
            self._notes.reached(self._name)
        elif will_not_serve(self._settings, error):
            self._refuse(error)
        elif error.unreachable and self._notes.was_reached(self._name) and self._patience.limit_s:
            self._last = error
            self._leave(behind=False)  # another process of this run has seen it, and waits for it too
        elif error.unreachable:
            self._refuse(error)

    async def _checked(self, retries: int = 0) -> CallError | None:
        """What is wrong with the endpoint by its own check."""
        return await checked(self._check, retries, pause=self.pause)

    # While a server is away

    async def over(self) -> None:
        """Wait as long as the server is away. Raises :class:`RunStopped` when that takes too long.

        One of those who wait looks for the server; where only requests can tell, its own is sent ahead of the others.
        """
        if not self._away and self._unreachable >= UNREACHABLE_IN_A_ROW:
            await self._look_again()
        while self._away and self._stopped is None:
            if self._probing:
                await self._changed.wait()
            elif await self._probe():
                break
        self._go_on()

    async def pause(self, error: CallError, wait_s: float) -> None:
        """Wait before what failed is tried again: ``wait_s``, or longer where the server asks for it (Retry-After).

        From the first time that it asks until it answers anybody it is waited for as one that is away: whoever watches
        the run sees it, and it raises :class:`RunStopped` when that takes too long. Raises the error where nobody is to
        wait for a server, and where it asks this call alone.
        """
        if not error.asks_to_wait:
            await self._sleep(wait_s)
        elif not self._patience.limit_s:
            if wait_s > MAX_WAIT_S:
                raise error
            await self._sleep(wait_s)
        else:
            self._patience.begin()
            left_s = self._patience.left_s
            if left_s <= 0 and self._asks_everybody():
                self._give_up(error)
            if left_s <= 0:
                raise error
            await self._sleep(min(left_s, max(wait_s, error.retry_after_s or 0.0)), told=error)

    def _asks_everybody(self) -> bool:
        return len(self._calls) >= CALLS_BEHIND or not self._has_answered()

    async def _sleep(self, seconds: float, told: CallError | None = None) -> None:
        """Wait, and show all the while why. Raises :class:`RunStopped` as soon as the run is to stop."""
        end_s = time.monotonic() + seconds
        self._go_on()
        while (left_s := end_s - time.monotonic()) > 0:
            if told is not None and left_s > SHOWN_S:
                self._patience.tell_now_and_then(told)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, TELL_EVERY_S)):
                    await self._changed.wait()
            self._go_on()

    async def is_away(self, error: CallError) -> bool:
        """Whether a call that failed for good has failed because the server is away, or asks everybody to wait, so that
        it is to wait too.
        """
        if not self._patience.limit_s:
            return False
        if not error.unreachable:
            return error.asks_to_wait and self._asks_everybody()
        if not self._away and self._unreachable:
            await self._look_again()
        return self._away

    async def _look_again(self) -> None:
        """Find out whether a server that does not answer is away."""
        async with self._looking:
            if self._away or not self._unreachable or not self._patience.limit_s:
                return
            error, last = await self._checked(), self._last
            if error is not None and error.unreachable:
                self._last = error
                self._leave(behind=False)
            elif last is not None and last.status in GATEWAY_STATUSES and len(self._calls) >= CALLS_BEHIND:
                self._leave(behind=True)
            else:
                self._unreachable = 0

    async def _probe(self) -> bool:
        """Look for the server once, after a while. True where this call is to go on."""
        self._probing = True
        try:
            left_s, last = self._patience.left_s, self._last
            if left_s <= 0:
                self._give_up(last)
            self._patience.tell(last)
            asked_s = (last.retry_after_s or 0.0) if last is not None else 0.0
            await self._sleep(min(left_s, max(asked_s, min(MAX_PROBE_S, FIRST_PROBE_S * 2**self._probes))), told=last)
            self._probes += 1
            if not self._away:
                return True
            error = await self._checked()
        except BaseException:
            self._probing = False
            self._wake()
            raise
        if error is not None and error.unreachable:
            self._last = error
        elif self._behind:
            return True  # who waits looks on until this call's try has ended
        else:
            self._come()
            return True
        self._probing = False
        self._wake()
        return False

    def _leave(self, behind: bool) -> None:
        self._away, self._behind, self._probes = True, behind, 0
        self._patience.begin()
        self._patience.tell(self._last)

    def _come(self) -> None:
        """The server is there; how long it was away is forgotten when it has answered a request."""
        self._away = self._probing = False
        self._unreachable = 0
        self._calls.clear()
        self._patience.tell_end()
        self._wake()

    def _back(self) -> None:
        self._patience.forget()
        self._unreachable = 0
        self._calls.clear()
        if self._away:
            self._come()

    def _give_up(self, last: CallError | None) -> None:
        waited, setting = f"{self._patience.limit_s:g} s", f"endpoints.{self._name}.outage_timeout_s"
        what = "start it again, and" if last is None or last.unreachable else "when it answers again,"
        self.stop(
            f"{self._named}: away for {waited}: {last}. All replies so far are kept: {what} the "
            f"same command goes on ({setting} says how long to wait)",
            resumable=True,
        )

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_guard: ContextVar[CallWatcher | None] = ContextVar("guard", default=None)


def guard_of_call() -> CallWatcher | None:
    """What watches the calls of the endpoint that this task asks; None where nothing does."""
    return _guard.get()


@contextlib.contextmanager
def guarded_by(guard: CallWatcher | None) -> Iterator[None]:
    """Requests that this task, and the tasks that it starts, send in the body are watched by the guard."""
    before = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(before)
