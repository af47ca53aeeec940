"""Models by role: cache first, identical calls in flight joined, every call accounted for."""

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol

from inference.cache import CacheEntry, ReplyCache
from inference.endpoint import Endpoint, open_endpoint
from inference.errors import CallError
from inference.request import Completion, Reply, Request, Sampling, cache_key
from inference.settings import EndpointSettings, ModelsSettings
from prompts.loader import RenderedPrompt
from schemas.frames import Frame
from schemas.records import Call
from vision.media import MediaStore


@dataclass(frozen=True)
class Answered:
    """The samples of one call in order, and the call as the lineage and the ledger see it."""

    completions: tuple[Completion, ...]
    call: Call
    frame: Frame

    @property
    def text(self) -> str:
        """The first sample's text."""
        return self.completions[0].text


@dataclass(frozen=True, eq=False)
class _Flight:
    """A sample that has been asked for, and the budget it was asked with."""

    future: "asyncio.Future[Completion]"
    max_tokens: int


class Models:
    """What stages and scorers call. All methods run on the event loop of :mod:`inference.runtime`."""

    def __init__(self, settings: ModelsSettings, cached: bool = True) -> None:
        self.settings = settings
        self.media = MediaStore(settings.input_root, settings.run_root, cache_bytes=128 * 2**20)
        self._cache = ReplyCache(settings.cache_path if cached else ":memory:")
        self._endpoints: dict[str, Endpoint] = {}
        self._in_flight: dict[str, _Flight] = {}

    def endpoint(self, role: str) -> Endpoint:
        """The endpoint of ``role``, opened when first asked for."""
        name = self.settings.endpoint_name(role)
        if name not in self._endpoints:
            settings = self.settings.endpoint(role)
            self._endpoints[name] = open_endpoint(settings, self.media, self.settings.classical_threads)
        return self._endpoints[name]

    async def generate(self, role: str, prompt: RenderedPrompt, sampling: Sampling) -> Answered:
        """``sampling.n`` samples for the prompt, from the cache as far as it has them.

        Raises :class:`inference.errors.CallError` when a sample cannot be had; samples that did arrive stay cached.
        """
        endpoint = self.endpoint(role)
        settings = endpoint.settings
        keys = tuple(cache_key(settings.model, endpoint.revision, prompt, sampling, i) for i in range(sampling.n))
        have = self._cache.get(keys, sampling.max_tokens)
        waited = {key: self._in_flight[key] for key in keys if key not in have and self._serves(key, sampling)}
        missing = tuple(index for index, key in enumerate(keys) if key not in have and key not in waited)
        call = Call(role, prompt.name, prompt.sha256, settings.model, keys, cached=sampling.n - len(missing))
        try:
            if missing:
                reply = await self._ask(role, endpoint, Request(prompt, sampling, missing), keys)
                call = _with_costs(call, reply, settings)
                have.update(zip((keys[index] for index in missing), reply.completions, strict=True))
        except CallError as error:
            error.call = _with_costs(call, error.partial, settings)
            raise
        for key, flight in waited.items():
            have[key] = await _joined(flight.future)
        return Answered(tuple(have[key] for key in keys), call, Frame(settings.frame))

    def _serves(self, key: str, sampling: Sampling) -> bool:
        """Whether a call in flight will give this sample with at least this budget."""
        return key in self._in_flight and self._in_flight[key].max_tokens >= sampling.max_tokens

    async def _ask(self, role: str, endpoint: Endpoint, request: Request, keys: tuple[str, ...]) -> Reply:
        """Send the request; keep its replies before anyone sees them; let joined callers have them too."""
        wanted = [keys[index] for index in request.indices]
        loop, budget = asyncio.get_running_loop(), request.sampling.max_tokens
        flights = {key: _Flight(loop.create_future(), budget) for key in wanted}
        self._in_flight.update(flights)

        def keep(reply: Reply) -> None:
            found = zip(wanted, reply.completions, strict=False)
            model, name = endpoint.settings.model, request.prompt.name
            self._cache.put(CacheEntry(key, role, name, model, budget, completion) for key, completion in found)

        try:
            reply = await endpoint.generate(request)
            keep(reply)
        except BaseException as error:
            if isinstance(error, CallError):
                keep(error.partial)
                error.key = wanted[min(len(error.partial.completions), len(wanted) - 1)]
            for flight in flights.values():
                flight.future.set_exception(error)
                flight.future.exception()  # marks it as seen when nobody joined
            raise
        else:
            for key, completion in zip(wanted, reply.completions, strict=True):
                flights[key].future.set_result(completion)
            return reply
        finally:
            for key, flight in flights.items():
                if self._in_flight.get(key) is flight:
                    del self._in_flight[key]

    async def close(self) -> None:
        """Close all endpoints and the cache."""
        for endpoint in self._endpoints.values():
            await endpoint.close()
        self._cache.close()


def _with_costs(call: Call, reply: Reply, settings: EndpointSettings) -> Call:
    return replace(
        call,
        requests=reply.requests,
        retries=reply.retries,
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        tokens_reasoning=reply.tokens_reasoning,
        cost_usd=settings.cost_usd(reply.tokens_in, reply.tokens_out),
    )


async def _joined(future: "asyncio.Future[Completion]") -> Completion:
    """Someone else's sample; their failure becomes this caller's own, without its cost."""
    try:
        return await asyncio.shield(future)
    except CallError as error:
        raise CallError(error.failure, error.message, key=error.key) from error


class Caller(Protocol):
    """What a scorer needs of the model access; :class:`Models` and a stage's session both are one."""

    async def generate(self, role: str, prompt: RenderedPrompt, sampling: Sampling) -> Answered:
        """See :meth:`Models.generate`."""
        ...
