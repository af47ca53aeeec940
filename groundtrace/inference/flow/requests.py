"""Controls when requests to one endpoint are sent: it applies retries, adaptive concurrency and rate limits.

An endpoint makes single attempts. :class:`Flow` decides when each attempt is made, and whether to retry. A slot permits
one concurrent request. While a request waits for its retry, it holds no slot, so other requests can be sent. After the
wait, the retry gets a slot before new requests do.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TypeVar

from groundtrace.inference.coordination.quota import quota_of
from groundtrace.inference.errors import NOT_SENT, OVERLOADED, BudgetUsedUp, CallError, Failure
from groundtrace.inference.flow.allowance import allowance_of_call, allowed_by
from groundtrace.inference.flow.arrivals import Arrivals, NotNeeded, Place, Send
from groundtrace.inference.flow.guard import MAX_PROBE_S
from groundtrace.inference.flow.in_flight import one_in_flight
from groundtrace.inference.flow.limits import BytesInFlight, ConcurrencyLimit, Opening
from groundtrace.inference.flow.retry import retried, sleep
from groundtrace.inference.flow.sizes import Sizes
from groundtrace.inference.flow.watcher import guard_of_call
from groundtrace.inference.request import Reply, Request, joined, with_tokens
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.usage import Usage

T = TypeVar("T")
READ_AT_ONCE = 4
_log = logging.getLogger(__name__)


class Flow:
    """Decides when the requests of one endpoint are sent. ``settings`` are the endpoint's settings, with its limits.
    Other worker processes may share these limits.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings
        self.concurrency = ConcurrencyLimit(settings.max_concurrency, settings.adaptive)
        self._opening = Opening(settings.max_concurrency)
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._bytes = BytesInFlight(settings.max_bytes_in_flight)
        self._quota = quota_of(settings, self.concurrency)
        self._sizes = Sizes()
        self._has_warned = False

    @contextlib.asynccontextmanager
    async def holding(self, read: Callable[[], T], size_bytes: Callable[[T], int]) -> AsyncIterator[T]:
        """Read the files of a request (the images and videos of its prompt), and yield them. Until the ``with``
        statement ends, their size counts against the limit of request bodies in memory (setting
        ``max_bytes_in_flight``).

        ``read`` is a function that returns the files. It runs in a thread. ``size_bytes`` is a function that returns
        the size of these files. If the files would exceed the limit now, the method waits.

        The caller makes all attempts of the request within the ``with`` statement, so the bytes are counted only once.
        Two kinds of files are in memory but not counted yet: files that are being read, since their size is not known,
        and files that wait because of the limit. Together they belong to at most ``READ_AT_ONCE`` requests at any time,
        so that the uncounted data stays small.
        """
        async with contextlib.AsyncExitStack() as held:
            async with self._reading:
                data = await asyncio.to_thread(read)
                await held.enter_async_context(self._bytes.holding(size_bytes(data)))
            yield data

    async def collect(self, request: Request, send: Send) -> Reply:
        """Send a request, and return one reply with all its samples. A sample is one text that the model generated for
        the prompt. ``send`` is the function that makes one attempt. Unusable and missing samples are requested again.

        A request for more than ``samples_per_request`` samples is split into parts, which are sent concurrently. The
        samples are numbered in the order in which they arrive. If a part fails, the parts that have already been sent
        are completed. Parts that still wait for their first attempt are then not sent.

        Raises :class:`groundtrace.inference.errors.CallError` if a sample cannot be obtained, and BudgetUsedUp if the
        budget does not suffice for another attempt. ``partial`` of the error holds the samples that did arrive. If the
        request needs a capability that the endpoint's settings do not enable, it is not sent, and CallError is raised.
        """
        reason = _undeclared(self._settings, request)
        if reason:
            message = f"the endpoint's settings do not declare that {self._settings.model} can {reason}"
            raise CallError(Failure.UNSUPPORTED, message, partial=NOT_SENT)
        arrivals = Arrivals(request, self._counting(send))
        one, count = self._settings.samples_per_request, len(request.indices)
        sizes = [min(one, count - before) for before in range(0, count, one)]
        if len(sizes) == 1:
            await self._part(arrivals, count)
        else:
            ended = [self._charged_part(arrivals, n, is_first=not number) for number, n in enumerate(sizes)]
            for error in await asyncio.gather(*ended, return_exceptions=True):
                if isinstance(error, BaseException):
                    raise error
        return arrivals.reply()

    async def _charged_part(self, arrivals: Arrivals, n: int, is_first: bool) -> None:
        """Request one part of the samples (replies to one prompt); ``n`` is the number of samples in this part.

        The caller divides the samples into parts if the endpoint cannot return all of them in one reply. The cost of
        each part is reserved separately in the budget. For the first part (``is_first``), the caller has already
        reserved the cost. ``arrivals`` collects the samples and errors of all parts.
        """
        allowance = allowance_of_call()
        if allowance is None:
            await self._part(arrivals, n)
            return
        part = allowance if is_first else allowance.another()
        try:
            if not is_first:
                await part.begin()
            with allowed_by(part):
                await self._part(arrivals, n)
        except BudgetUsedUp as error:
            arrivals.failed(error)
        finally:
            part.end_request()

    async def _part(self, arrivals: Arrivals, n: int) -> None:
        """Get the samples (generated texts) of one part of a request. ``n`` is the number of samples in this part.

        Samples that are missing in a reply are requested again, until all ``n`` samples have arrived or this part has
        failed. Its error is not raised, but recorded in ``arrivals``. If another part has failed, a request of this
        part that was already sent is completed, with its retries. After that, missing samples are not requested again.
        """
        left = n
        while left > 0:
            place = Place(arrivals)
            try:
                reply = await self._with_retries(arrivals.request, left, place.send)
            except NotNeeded:
                return
            except (CallError, BudgetUsedUp) as error:
                arrivals.failed(error)
                return
            arrivals.add(place, reply)
            left -= len(reply.completions)

    def _counting(self, send: Send) -> Send:
        """Return a function that calls ``send``, and estimates the tokens of the reply if the server does not report
        them."""

        async def counting(request: Request, n: int) -> Reply:
            reply = await send(request, n)
            counted = with_tokens(reply, request.prompt)
            if counted != reply and not self._has_warned:
                self._has_warned = True
                _log.warning(
                    "%s at %s does not report the tokens of its replies: limits, budgets and costs are estimates",
                    self._settings.model,
                    self._settings.base_url,
                )
            return counted

        return counting

    async def _with_retries(self, request: Request, n: int, send: Send) -> Reply:
        failed: list[Reply] = []
        guard, allowance = guard_of_call(), allowance_of_call()

        async def attempt() -> Reply:
            if guard is not None:
                await guard.admit()
            if allowance is not None:
                await allowance.next_try()
            taken = NOT_SENT
            try:
                taken = await self._hedged(request, n, send, rank=-len(failed))
            except CallError as error:
                taken = error.partial
                failed.append(taken)
                error.partial = _retried(joined(failed), len(failed) - 1)
                raise
            finally:
                if allowance is not None:
                    allowance.took(taken.usage)
            return taken

        while True:
            try:
                reply = await retried(attempt, self._settings.max_retries, guard.pause if guard is not None else sleep)
            except BudgetUsedUp as error:
                error.partial = _retried(joined(failed), max(0, len(failed) - 1))
                raise
            except CallError as error:  # attempts while the server is down don't count as retries
                if guard is None or not await guard.is_away(error):
                    raise
                if error.asks_to_wait:
                    await guard.pause(error, MAX_PROBE_S)
            else:
                return _retried(joined([*failed, reply]), len(failed))

    async def _hedged(self, request: Request, n: int, send: Send, rank: int) -> Reply:
        """Send a request, and send a second copy of it if the reply is late. Returns the reply that arrives first.

        The reply is late if it has not arrived after ``hedge_after_s`` seconds. The second copy is sent only if the
        budget allows it. If ``hedge_after_s`` is 0, no second copy is sent. If all copies fail, the last error is
        raised.

        ``n`` is the number of samples to request. ``send`` is the function that makes one attempt. ``rank`` orders the
        requests that wait for a slot (a permit for one concurrent request): a lower number is first. Only one copy's
        reply is returned. The usage of the other copy is also counted if it is known. The tokens of a cancelled copy
        are not known.
        """
        if not self._settings.hedge_after_s:
            return await self._try(request, n, send, rank)
        allowance, is_hedged, sent = allowance_of_call(), False, 0

        async def counted(request: Request, n: int) -> Reply:
            nonlocal sent
            sent += 1
            return await send(request, n)

        tries = [asyncio.ensure_future(self._try(request, n, counted, rank))]
        replies: list[Reply] = []
        errors: list[CallError] = []
        try:
            await asyncio.wait(tries, timeout=self._settings.hedge_after_s)
            is_hedged = not tries[0].done() and (allowance is None or allowance.hedged())
            if is_hedged:
                tries.append(asyncio.ensure_future(self._try(request, n, counted, rank)))
            waiting = set(tries)
            while waiting and not replies:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    try:
                        replies.append(one.result())
                    except CallError as error:
                        errors.append(error)
        finally:
            for one in tries:
                one.cancel()
            await asyncio.gather(*tries, return_exceptions=True)
            silent = sent - len(replies) - len(errors)
            if allowance is not None:
                allowance.gave_up(silent)
                if is_hedged:
                    allowance.hedge_ended()
        given_up = Reply((), Usage(requests=silent))
        lost = [*(error.partial for error in errors), *map(_wasted, replies[1:]), given_up]
        if replies:
            return joined([replies[0], *lost])
        errors[-1].partial = joined(lost)
        raise errors[-1]

    async def _try(self, request: Request, n: int, send: Send, rank: int) -> Reply:
        """Send a request once with the function ``send``, and report to the call's guard whether the attempt failed.

        The guard is the object that handles a server that is down. ``n`` is the number of samples to request. ``rank``
        orders the requests that wait for a slot (a permit for one concurrent request): a lower number is first.
        """
        guard, failed = guard_of_call(), None
        try:
            return await self._send(request, n, send, rank)
        except CallError as error:
            failed = error
            if guard is not None:
                guard.failed(error)
            raise
        except BaseException:
            failed = CallError(Failure.TIMEOUT, "the attempt was cancelled")
            raise
        finally:
            if guard is not None:
                guard.tried(id(request), failed)

    async def _send(self, request: Request, n: int, send: Send, rank: int) -> Reply:
        token, overloaded, expected = await self.concurrency.enter(rank), False, 0
        try:
            await self._opening.take()
            # After the limit of concurrency: requests that took their part of the rate before they got a slot would be
            # sent in a burst.
            expected = self._sizes.expected(request, n)
            await self._quota.take(expected)
            guard = guard_of_call()
            with one_in_flight(), contextlib.nullcontext() if guard is None else guard.sending():
                async with asyncio.timeout(self._settings.timeout_s):
                    reply = await send(request, n)
        except TimeoutError as error:
            overloaded = True
            _gave_up()
            raise CallError(
                Failure.TIMEOUT, f"the reply was not complete within {self._settings.timeout_s:g} s: increase timeout_s"
            ) from error
        except NotNeeded:
            self._quota.correct(-expected)
            raise
        except CallError as error:
            overloaded = error.failure in OVERLOADED
            if error.failure is Failure.TIMEOUT:
                _gave_up()
            else:
                self._quota.correct(_tokens_of(error.partial) - expected)
            raise
        finally:
            self.concurrency.leave(token, overloaded)
        self._quota.correct(_tokens_of(reply) - expected)
        if reply.completions:
            self._sizes.saw(request, reply)
        return reply


def _gave_up() -> None:
    """Record in the budget that the expected cost of a request is spent. Nothing happens if no budget applies.

    The request has timed out, so its real cost is unknown. But the server may have completed and charged it.
    """
    if (allowance := allowance_of_call()) is not None:
        allowance.gave_up()


def _tokens_of(reply: Reply) -> int:
    return reply.usage.tokens_in + reply.usage.tokens_out


def _wasted(reply: Reply) -> Reply:
    """Return a reply without samples, but with the usage of ``reply``, whose tokens are all counted as wasted. The
    samples of ``reply`` are not used, since another reply arrived first."""
    return Reply((), replace(reply.usage, tokens_wasted=_tokens_of(reply)))


def _retried(reply: Reply, retries: int) -> Reply:
    """Return a copy of ``reply`` whose usage holds the number of retries. ``reply`` is already joined from the replies
    to all attempts of a request."""
    return replace(reply, usage=replace(reply.usage, retries=retries))


def _undeclared(settings: EndpointSettings, request: Request) -> str | None:
    """Return a text about a capability that the request needs but the endpoint's settings do not enable, such as to
    read videos. Returns None if all needed capabilities are enabled."""
    media = request.prompt.media
    if any(part.kind == "video" for part in media) and not settings.video:
        return "read videos (if it can, set video = true)"
    if len(media) > 1 and not settings.multi_image:
        return "read several images or videos (if it can, set multi_image = true)"
    if request.continuation is not None and not settings.logprobs:
        return "return the log-probabilities of a continuation (if it can, set logprobs = true)"
    return None
