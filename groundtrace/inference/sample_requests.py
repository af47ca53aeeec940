"""Requests samples (replies of a model) from an endpoint within the limits of the budget, records the usage of the
requests, and caches the samples.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from groundtrace.inference.cache.batch import BatchedPuts
from groundtrace.inference.cache.replies import CachedReply, CacheEntry, ReplyCache
from groundtrace.inference.call_progress import CallInProgress, cost_of
from groundtrace.inference.coordination.budget import Budget
from groundtrace.inference.endpoint import Endpoint, kind_of
from groundtrace.inference.errors import NOT_SENT, BudgetUsedUp, CallError, Failure
from groundtrace.inference.flow.allowance import Allowance, allowed_by
from groundtrace.inference.flow.in_flight import one_in_flight
from groundtrace.inference.flow.notes import RunNotes
from groundtrace.inference.flow.watcher import CallWatcher, guarded_by
from groundtrace.inference.request import Reply, Request, estimated_tokens, joined
from groundtrace.schemas.usage import Usage


class SampleRequests:
    """Sends the requests of one process, and caches the replies (samples). ``cache`` is the reply cache, and ``budget``
    limits the spending. ``notes`` writes the usage of the requests into files of the run (None outside of a run).
    ``watcher`` is a function that gets a role (the job of a model, such as "judge"). It returns the object that watches
    the calls of this role (:class:`groundtrace.inference.flow.watcher.CallWatcher`), or None.
    """

    def __init__(
        self,
        cache: ReplyCache,
        budget: Budget,
        notes: RunNotes | None,
        watcher: Callable[[str], Awaitable[CallWatcher | None]],
    ) -> None:
        self._puts, self._budget, self._notes, self._watcher = BatchedPuts(cache), budget, notes, watcher

    async def request(self, asked: CallInProgress, indices: tuple[int, ...], max_tokens: int) -> dict[str, CachedReply]:
        """Request some samples (replies) of a call from the model, and cache them as they arrive. Returns the replies
        by their cache keys.

        ``asked`` is the call. ``indices`` are the numbers of the samples to request, and ``max_tokens`` is the token
        budget of the request. Raises CallError if a sample cannot be obtained, and BudgetUsedUp if the run's budget
        does not suffice. In both cases, the samples that did arrive are cached, and ``asked`` counts their usage.
        """
        wanted = [asked.keys[index] for index in indices]
        stored: dict[str, CachedReply] = {}
        noted: list[Reply] = []

        async def arrived(first: int, part: Reply) -> None:
            self._note(asked.role, asked.endpoint, part)
            noted.append(part)
            stored.update(await self._store(asked, wanted[first:], part, max_tokens))

        sampling = replace(asked.sampling, max_tokens=max_tokens)
        request = Request(asked.prompt, sampling, indices, asked.continuation, arrived)
        try:
            return await self._kept(asked, wanted, request, stored, noted)
        except (CallError, BudgetUsedUp) as error:
            await self._keep(asked, wanted, error.partial, max_tokens, stored)
            if isinstance(error, CallError):
                error.key = wanted[min(len(error.partial.completions), len(wanted) - 1)]
            raise

    async def _kept(
        self,
        asked: CallInProgress,
        wanted: Sequence[str],
        request: Request,
        stored: dict[str, CachedReply],
        noted: list[Reply],
    ) -> dict[str, CachedReply]:
        """Send ``request``, cache its samples, and return them by cache key.

        ``asked`` is the call that needs the samples, and ``wanted`` are their cache keys. A reply may arrive in several
        parts. For each part, the function ``request.arrived`` records the usage (tokens and cost) and caches the
        samples. It also adds the part to the list ``noted``, and the cached samples to ``stored`` (by cache key).

        If the request fails, its error is raised. There is one exception: the server rejects the request, for example
        because the model's context is too small for so many tokens. ``asked`` may then already hold all wanted samples,
        in a form that was truncated at a smaller token budget. In this case these truncated samples are returned. They
        are also cached as the replies to this request, so that it is not sent again.
        """
        try:
            reply = await self._within_budget(asked.role, asked.endpoint, request, noted)
        except CallError as error:
            short = [asked.have[key] for key in wanted if key in asked.have]
            if error.failure is not Failure.BAD_REQUEST or len(short) < len(wanted):
                raise
            asked.replies.append(error.partial)
            model, name, limit = asked.endpoint.settings.model, asked.prompt.name, request.sampling.max_tokens
            return await self._puts.put(
                CacheEntry(key, asked.role, name, model, limit, kept.completion, kept.tokens_in, kept.tokens_out)
                for key, kept in zip(wanted, short, strict=True)
            )
        return await self._keep(asked, wanted, reply, request.sampling.max_tokens, stored)

    async def _within_budget(self, role: str, endpoint: Endpoint, request: Request, noted: list[Reply]) -> Reply:
        """Wait until the request's expected cost fits into the run's budget, and send the request. Then record the
        usage of the reply (tokens and cost) in files of the run. A model in this process costs nothing, so a request to
        it does not wait for the budget.

        A reply may arrive in several parts. For each part, the function ``request.arrived`` records the usage, and
        appends the part to ``noted``. At the end, this method records only the usage that these parts do not contain.
        The usage of a failed request is recorded, too. Raises BudgetUsedUp if the cost does not fit although no other
        request is in progress, and CallError if the call fails.
        """
        settings, prompt, n = endpoint.settings, request.prompt, len(request.indices)
        if kind_of(settings.kind).in_process:  # takes no tokens and costs nothing
            taken = NOT_SENT
            try:
                with one_in_flight():
                    taken = await endpoint.generate(request)
            except CallError as error:
                taken = error.partial
                raise
            finally:
                self._note(role, endpoint, taken)
            return taken
        guard = None
        one = min(n, settings.samples_per_request)
        tokens_out = self._budget.expected_tokens_out(prompt.name, one, request.sampling.max_tokens)
        expected = cost_of(settings, Usage(tokens_in=estimated_tokens(prompt), tokens_out=tokens_out))
        allowance = Allowance(self._budget, expected, partial(cost_of, settings))
        await allowance.begin()
        taken = NOT_SENT
        try:
            guard = await self._watcher(role)
            with guarded_by(guard), allowed_by(allowance):
                taken = await endpoint.generate(request)
        except (CallError, BudgetUsedUp) as error:
            taken = error.partial
            if guard is not None and isinstance(error, CallError):
                guard.ended(error)
            raise
        finally:
            allowance.end(taken.usage, prompt.name, len(taken.completions))
            self._note(role, endpoint, taken, noted)
        if guard is not None:
            guard.ended(None)
        return taken

    def _note(self, role: str, endpoint: Endpoint, reply: Reply, before: Sequence[Reply] = ()) -> None:
        """Record the usage of a reply (tokens and cost) in files of the run. ``before`` holds the parts of the reply
        whose usage is recorded already; their usage is not recorded again.

        The usage is recorded before the reply is cached. If the process is killed in between, the reply is requested
        and paid for again, and both payments are recorded. ``role`` is the job of the model, such as "judge", and
        ``endpoint`` is the endpoint that sent the reply.
        """
        if self._notes is None:
            return
        known = joined(before)
        taken = reply.usage.beyond(known.usage)
        paid = replace(taken, cost_usd=cost_of(endpoint.settings, taken).usd)
        replies = max(0, len(reply.completions) - len(known.completions))
        self._notes.paid(role, replies, paid, kind_of(endpoint.settings.kind).in_process)

    async def _keep(
        self,
        asked: CallInProgress,
        wanted: Sequence[str],
        reply: Reply,
        max_tokens: int,
        stored: dict[str, CachedReply],
    ) -> dict[str, CachedReply]:
        """Count the usage of a reply, and cache its samples unless all of them are cached already. ``asked`` is the
        call that requested the samples, ``wanted`` are their cache keys, and ``max_tokens`` is the request's token
        budget.

        Some endpoints return a reply in parts. The samples of a part were cached when the part arrived, and ``stored``
        holds them by key. Other endpoints return all samples together at the end, and this method caches them. If a new
        sample replaces a truncated one, the tokens of the truncated sample are counted as wasted.

        Returns the cached replies for the samples in ``reply``, by key. If another process stored a reply for a key
        first, the result has that reply.
        """
        came = list(wanted[: len(reply.completions)])
        wasted = Usage(tokens_wasted=sum(asked.have[key].tokens_out for key in came if key in asked.have))
        asked.replies.append(replace(reply, usage=reply.usage + wasted))
        if wasted.tokens_wasted:
            self._note(asked.role, asked.endpoint, Reply((), wasted))
        asked.sent.update(came)
        if not stored.keys() >= set(came):
            stored.update(await self._store(asked, wanted, reply, max_tokens))
        return {key: stored[key] for key in came}

    async def _store(
        self, asked: CallInProgress, keys: Sequence[str], reply: Reply, max_tokens: int
    ) -> dict[str, CachedReply]:
        """Cache the samples of ``reply``: the first sample under the first of ``keys``, and so on. If the reply has
        fewer samples than there are keys, the last keys are not used. ``asked`` is the call that requested the samples,
        and ``max_tokens`` is the request's token budget.

        Returns the cached reply of each used key. If another process stored a reply for a key first, the result has
        that reply.
        """
        count = max(len(reply.completions), 1)
        tokens_in, tokens_out = (_shares(total, count) for total in (reply.usage.tokens_in, reply.usage.tokens_out))
        model, name = asked.endpoint.settings.model, asked.prompt.name
        return await self._puts.put(
            CacheEntry(key, asked.role, name, model, max_tokens, completion, of_in, of_out)
            for key, completion, of_in, of_out in zip(keys, reply.completions, tokens_in, tokens_out, strict=False)
        )


def _shares(total: int, count: int) -> list[int]:
    """Divide the tokens of a reply (``total``) among its ``count`` samples. Returns ``count`` integers that differ by
    at most one. E.g. for a total of 5 tokens and 2 samples, the result is [3, 2].
    """
    return [(total + count - 1 - index) // count for index in range(count)]
