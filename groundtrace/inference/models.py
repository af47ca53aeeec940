"""Models by role: cache first, identical calls in flight joined, every call accounted for."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from groundtrace.inference.asked import Asked, cost_of
from groundtrace.inference.cache.neighbours import Neighbours
from groundtrace.inference.cache.replies import MEMORY, CacheEntry, Kept
from groundtrace.inference.cache.shared import open_cache
from groundtrace.inference.caller import Answered
from groundtrace.inference.endpoint import Endpoint, kind_of, open_endpoint
from groundtrace.inference.errors import NOT_SENT, BudgetUsedUp, CallError, Failure, RunStopped
from groundtrace.inference.families.base import Family
from groundtrace.inference.flow.allowance import Allowance, allowed_by
from groundtrace.inference.flow.breaker import Breaker
from groundtrace.inference.flow.claims import Claiming
from groundtrace.inference.flow.guard import CallWatcher, guarded_by
from groundtrace.inference.flow.in_flight import one_in_flight
from groundtrace.inference.flow.quota import Quotas
from groundtrace.inference.flow.sliced_budget import budget_of
from groundtrace.inference.flow.watch import Watch
from groundtrace.inference.request import (
    Continuation,
    Reply,
    Request,
    Sampling,
    cache_key,
    estimated_tokens,
    fresh_key,
    joined,
)
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.usage import Usage
from groundtrace.vision.media import MediaStore

KEEPING_S = 0.2
"""In less a reply that has come is in the cache."""


@dataclass(frozen=True, eq=False)
class _Flight:
    """A sample that has been asked for, and the budget it was asked with."""

    future: "asyncio.Future[Kept]"
    max_tokens: int


class Models:
    """What stages and scorers call. All methods run on the event loop of :mod:`groundtrace.inference.runtime`."""

    def __init__(self, settings: ModelsSettings, cached: bool = True) -> None:
        self.settings = settings
        self.media = MediaStore(
            settings.input_root, settings.run_root, cache_bytes=128 * 2**20, storage=settings.storage
        )
        self.budget = budget_of(settings)
        self._watch = Watch(settings, self.endpoint) if settings.notes else None
        cache = settings.cache_path if cached else MEMORY
        self._cache = open_cache(cache, settings.storage)
        self._claiming = Claiming(self._cache)
        self._neighbours = Neighbours(settings.neighbours if cached else ())
        self._quotas = Quotas(cache, settings.storage)
        self._endpoints: dict[str, Endpoint] = {}
        self._breakers: dict[str, Breaker] = {}
        self._in_flight: dict[str, _Flight] = {}
        self._requesting: set[asyncio.Task[Any]] = set()

    def endpoint(self, role: str) -> Endpoint:
        """The endpoint of ``role``, opened when first asked for."""
        name = self.settings.endpoint_name(role)
        if name not in self._endpoints:
            settings = self.settings.endpoint(role)
            try:
                with self._quotas.of(name):
                    self._endpoints[name] = open_endpoint(settings, self.media, self.settings.classical_threads)
            except ValueError as error:
                if self._watch is None:
                    raise
                raise RunStopped(str(error)) from error  # such as a key that is not there
        return self._endpoints[name]

    def breaker(self, role: str) -> Breaker | None:
        """What fails the calls of the role's endpoint while its server is away; None where nothing does."""
        if not self.settings.fails_fast or kind_of(self.settings.endpoint(role).kind).in_process:
            return None
        name = self.settings.endpoint_name(role)
        if name not in self._breakers:
            self._breakers[name] = Breaker(self.endpoint(role).check)
        return self._breakers[name]

    async def _watcher(self, role: str) -> CallWatcher | None:
        return self.breaker(role) if self._watch is None else await self._watch.guard(role)

    def repair_attempts(self, role: str) -> int:
        """How often a reply of the wrong form may be asked for again; a model in this process would repeat itself."""
        settings = self.settings.endpoint(role)
        return 0 if kind_of(settings.kind).in_process else settings.repair_attempts

    def max_tokens_limit(self, role: str) -> int:
        """Up to which budget any reply cut short is asked for again; 0: none is."""
        return self.settings.endpoint(role).max_tokens_limit

    def family(self, role: str) -> Family:
        """The family of the role's model: how it is asked to point and to box, and how it is read."""
        return self.settings.endpoint(role).model_family

    def gives_logprobs(self, role: str) -> bool:
        """Whether the role's endpoint is declared to give the log-probabilities of a continuation."""
        return self.settings.endpoint(role).logprobs

    async def generate(
        self,
        role: str,
        prompt: RenderedPrompt,
        sampling: Sampling,
        *,
        continuation: Continuation | None = None,
        repair: bool = False,
    ) -> Answered:
        """``sampling.n`` samples for the prompt, from the cache as far as it has them.

        With a ``continuation`` its log-probabilities instead; ``repair`` marks the call in the ledger. Raises
        :class:`groundtrace.inference.errors.CallError` when a sample cannot be had, and BudgetUsedUp when the budget
        does not allow it; samples that did arrive stay cached.
        """
        endpoint = self.endpoint(role)
        model, revision = endpoint.settings.model, endpoint.revision
        requested = [cache_key(model, revision, prompt, sampling, i, continuation) for i in range(sampling.n)]
        keys = tuple(fresh_key(key, self.settings.fresh_since) for key in requested)
        have = self._cached(role, model, prompt.name, dict(zip(keys, requested, strict=True)))
        asked = Asked(role, endpoint, prompt, sampling, continuation, keys, have)
        try:
            await self._complete(asked)
        except (CallError, BudgetUsedUp) as error:
            error.call = asked.call(int(repair))
            raise
        completions = tuple(asked.have[key].completion for key in keys)
        return Answered(completions, asked.call(int(repair)))

    def _cached(self, role: str, model: str, prompt: str, keys: Mapping[str, str]) -> dict[str, Kept]:
        """The kept replies among ``keys``, each with the key of its request; what only a neighbour has is taken over:
        it may be removed.
        """
        have = self._cache.get(keys)
        missing = {key: requested for key, requested in keys.items() if key not in have}
        found = self._neighbours.get(missing) if missing else {}
        if found:
            have |= self._cache.put(
                CacheEntry(key, role, prompt, model, kept.max_tokens, kept.completion, kept.tokens_in, kept.tokens_out)
                for key, kept in found.items()
            )
        return have

    async def _complete(self, asked: Asked) -> None:
        while wanted := asked.wanted():
            for max_tokens, indices in sorted(wanted.items()):
                flights = {asked.keys[index]: self._flight(asked.keys[index], max_tokens) for index in indices}
                missing = tuple(index for index in indices if flights[asked.keys[index]] is None)
                # A seed is one sample's: samples with seeds are asked for one by one, all at once.
                seeded = asked.endpoint.settings.seed is not None
                groups = [(index,) for index in missing] if seeded else [missing] if missing else []
                answers = await asyncio.gather(
                    *(self._ask(asked, group, max_tokens) for group in groups), return_exceptions=True
                )
                for answer in answers:
                    if isinstance(answer, BaseException):
                        raise answer
                    asked.have.update(answer)
                for key, flight in flights.items():
                    if flight is not None:
                        asked.have[key] = await _joined(flight.future)

    def _flight(self, key: str, max_tokens: int) -> _Flight | None:
        """The call in flight that will give this sample with at least this budget."""
        flight = self._in_flight.get(key)
        return flight if flight is not None and flight.max_tokens >= max_tokens else None

    def _ask(self, asked: Asked, indices: tuple[int, ...], max_tokens: int) -> Coroutine[Any, Any, dict[str, Kept]]:
        """Note at once that these samples are in flight, so that others join; returns the coroutine that sends the
        request."""
        loop = asyncio.get_running_loop()
        flights = {asked.keys[index]: _Flight(loop.create_future(), max_tokens) for index in indices}
        self._in_flight.update(flights)
        return self._send(asked, indices, max_tokens, flights)

    async def _send(
        self, asked: Asked, indices: tuple[int, ...], max_tokens: int, flights: dict[str, _Flight]
    ) -> dict[str, Kept]:
        """Send the request, unless another process has; pass the replies to the callers that joined."""
        keys = [asked.keys[index] for index in indices]
        try:
            if kind_of(asked.endpoint.settings.kind).in_process:
                kept = await self._request(asked, indices, max_tokens)
            else:
                async with self._claiming.holding(keys, max_tokens) as kept:
                    rest = tuple(index for index in indices if asked.keys[index] not in kept)
                    if rest:
                        with self._under_way():
                            kept |= await self._request(asked, rest, max_tokens)
        except BaseException as error:
            for flight in flights.values():
                flight.future.set_exception(error)
                flight.future.exception()  # marks it as seen when nobody joined
            raise
        else:
            for key in keys:
                flights[key].future.set_result(kept[key])
            return kept
        finally:
            for key, flight in flights.items():
                if self._in_flight.get(key) is flight:
                    del self._in_flight[key]

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        """The present task sends requests to a server, of which :meth:`drain` waits for the replies."""
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._requesting.add(task)
        try:
            yield
        finally:
            self._requesting.discard(task)

    async def _request(self, asked: Asked, indices: tuple[int, ...], max_tokens: int) -> dict[str, Kept]:
        """The samples of these indices, asked for, and cached as they arrive."""
        wanted = [asked.keys[index] for index in indices]
        stored: dict[str, Kept] = {}
        noted: list[Reply] = []

        def arrived(first: int, part: Reply) -> None:
            self._note(asked.role, asked.endpoint, part)
            noted.append(part)
            stored.update(self._store(asked, wanted[first:], part, max_tokens))

        sampling = replace(asked.sampling, max_tokens=max_tokens)
        request = Request(asked.prompt, sampling, indices, asked.continuation, arrived)
        try:
            return await self._kept(asked, wanted, request, stored, noted)
        except (CallError, BudgetUsedUp) as error:
            self._keep(asked, wanted, error.partial, max_tokens, stored)
            if isinstance(error, CallError):
                error.key = wanted[min(len(error.partial.completions), len(wanted) - 1)]
            raise

    async def _kept(
        self, asked: Asked, wanted: Sequence[str], request: Request, stored: dict[str, Kept], noted: list[Reply]
    ) -> dict[str, Kept]:
        """The samples that the server gives, cached.

        Where it refuses the request and has answered it with a smaller ``max_tokens``, so that there is no room for
        more in its context, its truncated samples are what it gives for these too: they are not asked for again.
        """
        try:
            reply = await self._within_budget(asked.role, asked.endpoint, request, noted)
        except CallError as error:
            short = [asked.have[key] for key in wanted if key in asked.have]
            if error.failure is not Failure.BAD_REQUEST or len(short) < len(wanted):
                raise
            asked.replies.append(error.partial)
            model, name, limit = asked.endpoint.settings.model, asked.prompt.name, request.sampling.max_tokens
            return self._cache.put(
                CacheEntry(key, asked.role, name, model, limit, kept.completion, kept.tokens_in, kept.tokens_out)
                for key, kept in zip(wanted, short, strict=True)
            )
        return self._keep(asked, wanted, reply, request.sampling.max_tokens, stored)

    async def _within_budget(self, role: str, endpoint: Endpoint, request: Request, noted: list[Reply]) -> Reply:
        """The reply, when the budget allows it. What it took is noted as far as it is not ``noted`` yet."""
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
        tokens_out = self.budget.expected_tokens_out(prompt.name, one, request.sampling.max_tokens)
        expected = cost_of(settings, Usage(tokens_in=estimated_tokens(prompt), tokens_out=tokens_out))
        allowance = Allowance(self.budget, expected, partial(cost_of, settings))
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
        """Note what a reply has taken, beyond what is noted of the parts ``before``.

        A reply is noted before it is cached: of a process that is killed in between it is asked for, and paid, again.
        """
        if self._watch is None:
            return
        known = joined(before)
        taken = reply.usage.beyond(known.usage)
        paid = replace(taken, cost_usd=cost_of(endpoint.settings, taken).usd)
        replies = max(0, len(reply.completions) - len(known.completions))
        self._watch.notes.paid(role, replies, paid, kind_of(endpoint.settings.kind).in_process)

    def _keep(
        self, asked: Asked, wanted: Sequence[str], reply: Reply, max_tokens: int, stored: dict[str, Kept]
    ) -> dict[str, Kept]:
        """Note what the samples that arrived took, and cache those that are not ``stored`` yet: not every endpoint
        tells of them as they arrive. A truncated sample that they replace was wasted.

        Returns what is in the cache, which is another process's reply if that one was quicker.
        """
        came = list(wanted[: len(reply.completions)])
        wasted = Usage(tokens_wasted=sum(asked.have[key].tokens_out for key in came if key in asked.have))
        asked.replies.append(replace(reply, usage=reply.usage + wasted))
        self._note(asked.role, asked.endpoint, Reply((), wasted))
        asked.sent.update(came)
        if not stored.keys() >= set(came):
            stored.update(self._store(asked, wanted, reply, max_tokens))
        return {key: stored[key] for key in came}

    def _store(self, asked: Asked, keys: Sequence[str], reply: Reply, max_tokens: int) -> dict[str, Kept]:
        """Cache the samples under the first of the keys; returns what the cache then has there.

        It is done when this returns, without another turn of the loop in which the process could be killed.
        """
        count = max(len(reply.completions), 1)
        tokens_in, tokens_out = (_shares(total, count) for total in (reply.usage.tokens_in, reply.usage.tokens_out))
        model, name = asked.endpoint.settings.model, asked.prompt.name
        return self._cache.put(
            CacheEntry(key, asked.role, name, model, max_tokens, completion, of_in, of_out)
            for key, completion, of_in, of_out in zip(keys, reply.completions, tokens_in, tokens_out, strict=False)
        )

    def flush_notes(self) -> None:
        """Return when what was noted of the requests so far stands where the run's other processes see it.

        Raises OSError for a store that stays away.
        """
        if self._watch is not None:
            self._watch.notes.flush()

    async def drain(self, limit_s: float) -> int:
        """Send no server anything more, and wait until what is under way is answered and cached, at most ``limit_s``.

        Calls raise :class:`groundtrace.inference.errors.RunStopped` from now on. Returns how many are still not
        answered. Outside of a run nothing is kept from being sent, and nothing is waited for.
        """
        if self._watch is None:
            return 0
        self._watch.end()
        end_s = time.monotonic() + limit_s
        while self._watch.under_way and self._requesting and time.monotonic() < end_s:
            await asyncio.wait(self._requesting, timeout=KEEPING_S, return_when=asyncio.FIRST_COMPLETED)
        if self._requesting and not self._watch.under_way:
            await asyncio.wait(self._requesting, timeout=KEEPING_S)  # a reply has come, and is not yet kept
        return self._watch.under_way

    async def close(self) -> None:
        """Close all endpoints and the cache."""
        for endpoint in self._endpoints.values():
            await endpoint.close()
        self._quotas.close()
        self.budget.close()
        self._claiming.close()
        self._cache.close()
        self._neighbours.close()
        if self._watch is not None:
            self._watch.notes.close()


def _shares(total: int, count: int) -> list[int]:
    """The total in ``count`` parts that differ by at most one."""
    return [(total + count - 1 - index) // count for index in range(count)]


async def _joined(future: "asyncio.Future[Kept]") -> Kept:
    """The sample that another caller asked for; if that failed, the same failure without its cost."""
    try:
        return await asyncio.shield(future)
    except CallError as error:
        raise CallError(error.failure, error.message, key=error.key) from error
    except BudgetUsedUp as error:
        raise BudgetUsedUp(*error.args) from error
