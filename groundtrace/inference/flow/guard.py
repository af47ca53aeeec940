"""Handles servers that do not answer during a run. A guard waits for a server that is down, and ends the run if waiting
does not help.

Outside of a run (training, a single verification) no guard is used, and the caller handles failed calls. A reward
server, which computes rewards for trainers, cannot wait. It uses a :class:`groundtrace.inference.flow.breaker.Breaker`
instead.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

from groundtrace.inference.errors import GATEWAY_STATUSES, CallError, Failure, RunStopped
from groundtrace.inference.flow.checking import (
    CHECK_RETRIES,
    checked,
    described,
    is_refusal,
    what_to_do,
    will_not_serve,
)
from groundtrace.inference.flow.ended_calls import UNSENT, EndedCalls
from groundtrace.inference.flow.notes import RunNotes
from groundtrace.inference.flow.outage_timer import REPORT_EVERY_S, OutageTimer
from groundtrace.inference.flow.retry import MAX_WAIT_S
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.text import printable

UNREACHABLE_IN_A_ROW = 5
"""The number of consecutive attempts without an answer after which the server is checked."""
CALLS_BEHIND = 3
"""The number of calls in a row whose errors show that a server is busy or broken, even if the server passes its check.

Two kinds of errors count: no answer from the server (which includes a status from 502 to 504), and a Retry-After. If
this many different calls in a row get such an error, the server is treated as down. If fewer calls get such an error,
only these calls fail, because their requests may be too large for the server.
"""
FIRST_PROBE_S, MAX_PROBE_S = 0.5, 10.0
SHOWN_S = 2.0
"""The longest wait, in seconds, that is not shown to the user. A person could not read the message in such a short
time.
"""


class Guard:
    """Watches the calls of one endpoint in one process during a run. If the server is down, the calls wait. If it is
    down for longer than the outage timeout (setting ``outage_timeout_s``), the run ends.

    ``name`` is the endpoint's name, ``roles`` are the jobs of its model (such as "judge"), and ``settings`` are its
    settings. The function ``check`` tests the server, and raises CallError if it is down. ``notes`` writes the run's
    notes: files about its requests and servers, which the progress display reads. All methods run on the event loop of
    :mod:`groundtrace.inference.runtime`.
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
        self._outage = OutageTimer(name, self._named, settings.outage_timeout_s, notes)
        self.under_way = 0
        self._stopped: RunStopped | None = None
        self._ended_calls = EndedCalls(name, roles, settings, notes)
        self._unreachable = 0
        self._calls: set[int] = set()
        self._last: CallError | None = None
        self._away = self._behind = self._probing = False
        self._probes = 0
        self._check_lock = asyncio.Lock()
        self._changed = asyncio.Event()

    # The reports of calls

    def tried(self, call: int, error: CallError | None) -> None:
        """Record that an attempt of a request has ended. ``call`` identifies the call to which the attempt belongs.
        ``error`` is the error of the attempt, or None if the attempt returned a reply.
        """
        if self._probing:
            self._probing = False
            self._wake()
        if error is not None and error.unreachable:
            self._unreachable += 1
            self._calls.add(call)
            self._last = error
        elif error is not None and error.asks_to_wait:
            if self._away:
                self._mark_up()  # the server is up, although it answers no request
            self._calls.add(call)
            self._last = error
        elif error is None or error.failure is not Failure.TIMEOUT:
            self._mark_answered()

    def failed(self, error: CallError) -> None:
        """Write a failed attempt to the run's notes. These are files that the progress display reads. ``error`` is the
        error of the attempt.
        """
        self._notes.failed(self._name, error.status or 0, printable(" ".join(str(error).split())))

    def ended(self, error: CallError | None) -> None:
        """Record that a call has ended after all its attempts. ``error`` is the call's error, or None if the call got a
        reply. Raises :class:`RunStopped` if the error means that the run cannot continue.
        """
        if error is not None and error.asks_to_wait and not is_refusal(error) and error.failure not in UNSENT:
            self._outage.forget()  # the next call with a Retry-After gets the whole timeout again
        problem = self._ended_calls.add(error)
        if problem is not None:
            self.stop(problem)

    def _refuse(self, error: CallError) -> None:
        self.stop(what_to_do(self._name, self._roles, self._settings, error))

    def stop(self, message: str, resumable: bool = False) -> None:
        """End the run: raise :class:`RunStopped` with the message, now and in all later calls of this endpoint.
        ``resumable`` is True if the user only has to repeat the command later.
        """
        self._stopped = RunStopped(printable(" ".join(message.split())), resumable)
        self._wake()
        raise self._stopped

    def end(self) -> None:
        """Send no more requests, because the run ends for a reason that does not concern this endpoint. Requests in
        progress may still get replies.
        """
        if self._stopped is None:
            self._stopped = RunStopped("the run was stopped: repeat the command to resume it", resumable=True)
            self._wake()

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Count a request as in progress while the body of the ``with`` statement runs. Raises :class:`RunStopped` if
        the run has been stopped.
        """
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

    async def check(self) -> None:
        """Check the endpoint before its first call. Raises :class:`RunStopped` in these cases:

        - The server refuses the check, or its answer shows that it cannot serve the endpoint's calls.
        - The server is down, and it has never answered any process of this run.
        - The server is down, and the endpoint has no outage timeout (its setting ``outage_timeout_s`` is 0).
        - The server still demands a wait (Retry-After) when the outage timeout has passed, and it has never answered a
          call of any process of this run.
        """
        error = await self._checked(CHECK_RETRIES)
        while error is not None and error.asks_to_wait and self._outage.limit_s:
            try:
                await self.pause(error, FIRST_PROBE_S)
            except CallError:  # the server answers other calls
                break
            error = await self._checked()
        if error is None:
            self._outage.forget()
            self._notes.reached(self._name)
        elif will_not_serve(self._settings, error):
            self._refuse(error)
        elif error.unreachable and self._notes.was_reached(self._name) and self._outage.limit_s:
            self._last = error
            self._mark_down(behind=False)  # another process of this run has reached it, and waits for it too
        elif error.unreachable:
            self._refuse(error)

    async def _checked(self, retries: int = 0) -> CallError | None:
        """Check the endpoint, and repeat a failed check at most ``retries`` times. Returns the error of the last check,
        or None if the check succeeded.
        """
        return await checked(self._check, retries, pause=self.pause)

    # While a server is down

    async def admit(self) -> None:
        """Wait as long as the server is down. The method is called before each attempt of a request. Raises
        :class:`RunStopped` if the outage is longer than the outage timeout (setting ``outage_timeout_s``).

        While several calls wait, only one of them checks the server. If the check succeeds, all calls continue. There
        is one exception: a gateway may answer checks although the server behind it answers no calls. If this has
        happened before (:meth:`_check_again`), a check that succeeds proves nothing. Then the call that has checked the
        server sends its own request alone, and the other calls wait until this request has ended.
        """
        if not self._away and self._unreachable >= UNREACHABLE_IN_A_ROW:
            await self._check_again()
        while self._away and self._stopped is None:
            if self._probing:
                await self._changed.wait()
            elif await self._probe():
                break
        self._go_on()

    async def pause(self, error: CallError, wait_s: float) -> None:
        """Wait before a retry. ``error`` is the error of the failed attempt, and ``wait_s`` is the planned wait in
        seconds. There are three cases:

        - The server demands no wait (its response has no Retry-After): the method waits ``wait_s`` seconds.
        - The server demands a wait, and the endpoint has no outage timeout (its setting ``outage_timeout_s`` is 0): the
          method waits ``wait_s`` seconds, or raises ``error`` if ``wait_s`` is above ``MAX_WAIT_S``.
        - The server demands a wait, and the endpoint has an outage timeout: the method waits ``wait_s`` seconds or as
          long as the server demands, whichever is longer. But it waits at most until the outage timer reaches the
          timeout. The progress display shows a long wait.

        In the third case, the timer may already have reached the timeout. The method then does not wait, but raises an
        error. The error is :class:`RunStopped` if the server has not answered any call of the run, or if at least
        ``CALLS_BEHIND`` calls in a row got either no answer or a Retry-After. Otherwise it is ``error``, so that only
        this call fails.

        The outage timer measures how long the run has waited for the server. It starts with the first Retry-After, or
        when the server is marked as down. It is reset when any call of the endpoint gets an answer without a
        Retry-After. It is also reset when a call has failed because of a Retry-After, so that the next call may wait
        for the whole timeout again. Raises :class:`RunStopped` if the run is stopped.
        """
        if not error.asks_to_wait:
            await self._sleep(wait_s)
        elif not self._outage.limit_s:
            if wait_s > MAX_WAIT_S:
                raise error
            await self._sleep(wait_s)
        else:
            self._outage.begin()
            left_s = self._outage.left_s
            if left_s <= 0 and self._asks_everybody():
                self._give_up(error)
            if left_s <= 0:
                raise error
            await self._sleep(min(left_s, max(wait_s, error.retry_after_s or 0.0)), reason=error)

    def _asks_everybody(self) -> bool:
        return len(self._calls) >= CALLS_BEHIND or not self._ended_calls.any_answered

    async def _sleep(self, seconds: float, reason: CallError | None = None) -> None:
        """Wait for ``seconds``. If a ``reason`` is given, the progress display shows it during a long wait. Raises
        :class:`RunStopped` as soon as the run is stopped."""
        end_s = time.monotonic() + seconds
        self._go_on()
        while (left_s := end_s - time.monotonic()) > 0:
            if reason is not None and left_s > SHOWN_S:
                self._outage.report_periodically(reason)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, REPORT_EVERY_S)):
                    await self._changed.wait()
            self._go_on()

    async def is_away(self, error: CallError) -> bool:
        """Return whether a call failed because the server is down, or because the server asks all calls to wait.
        ``error`` is the call's error after all retries. If the result is True, the call must wait and is then sent
        again. The result is always False if the endpoint has no outage timeout (its setting ``outage_timeout_s`` is 0).
        """
        if not self._outage.limit_s:
            return False
        if not error.unreachable:
            return error.asks_to_wait and self._asks_everybody()
        if not self._away and self._unreachable:
            await self._check_again()
        return self._away

    async def _check_again(self) -> None:
        """Check the server if requests had no answer, and mark the server as down if the check has no answer either.

        If the server answers the check, the count of requests without an answer starts again at zero. There is one
        exception: a gateway may answer the check although the server behind it answers no calls. So the server is
        marked as down all the same if the last error was a gateway's error (status 502 to 504), and at least
        ``CALLS_BEHIND`` calls in a row got either no answer or a Retry-After. A gateway's error counts as no answer.
        """
        async with self._check_lock:
            if self._away or not self._unreachable or not self._outage.limit_s:
                return
            error, last = await self._checked(), self._last
            if error is not None and error.unreachable:
                self._last = error
                self._mark_down(behind=False)
            elif last is not None and last.status in GATEWAY_STATUSES and len(self._calls) >= CALLS_BEHIND:
                self._mark_down(behind=True)
            else:
                self._unreachable = 0

    async def _probe(self) -> bool:
        """Wait until the next check of the server is due, then check the server. Returns whether the call that waits
        here may be sent: True if the server has answered, False if it is still down. Raises :class:`RunStopped` if the
        outage is longer than the outage timeout (setting ``outage_timeout_s``).
        """
        self._probing = True
        try:
            left_s, last = self._outage.left_s, self._last
            if left_s <= 0:
                self._give_up(last)
            self._outage.report(last)
            asked_s = (last.retry_after_s or 0.0) if last is not None else 0.0
            await self._sleep(min(left_s, max(asked_s, min(MAX_PROBE_S, FIRST_PROBE_S * 2**self._probes))), reason=last)
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
            return True  # the other calls wait until this call's attempt has ended
        else:
            self._mark_up()
            return True
        self._probing = False
        self._wake()
        return False

    def _mark_down(self, behind: bool) -> None:
        self._away, self._behind, self._probes = True, behind, 0
        self._outage.begin()
        self._outage.report(self._last)

    def _mark_up(self) -> None:
        """Record that the server is up again, so that calls are sent to it.

        The server may still reject all requests, e.g. with a Retry-After. So this method does not reset the timer that
        measures the outage. :meth:`_mark_answered` resets it when the server has answered a request.
        """
        self._away = self._probing = False
        self._unreachable = 0
        self._calls.clear()
        self._outage.report_end()
        self._wake()

    def _mark_answered(self) -> None:
        self._outage.forget()
        self._unreachable = 0
        self._calls.clear()
        if self._away:
            self._mark_up()

    def _give_up(self, last: CallError | None) -> None:
        waited, setting = f"{self._outage.limit_s:g} s", f"endpoints.{self._name}.outage_timeout_s"
        what = "start it again" if last is None or last.unreachable else "when it answers again"
        self.stop(
            f"{self._named}: out of service for {waited}: {last}. All replies so far are kept: {what}, run the same "
            f"command to continue ({setting} is the time to wait)",
            resumable=True,
        )

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
