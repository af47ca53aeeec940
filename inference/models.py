"""Models by role: cache first, identical calls in flight joined, every call accounted for."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from inference.cache import CacheEntry, ReplyCache
from inference.endpoint import Endpoint, open_endpoint
from inference.errors import CallError
from inference.request import Completion, Reply, Request, Sampling, cache_key
from inference.settings import ModelsSettings
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


class Models:
    """What stages and scorers call. All methods run on the event loop of :mod:`inference.runtime`."""

    def __init__(self, settings: ModelsSettings, cached: bool = True) -> None:
        self.settings = settings
        self.media = MediaStore(settings.input_root, settings.run_root)
        self._cache = ReplyCache(settings.cache_path if cached else ":memory:")
        self._endpoints: dict[str, Endpoint] = {}
        self._in_flight: dict[str, asyncio.Future[Completion]] = {}

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
        keys = [
            cache_key(endpoint.settings.model, endpoint.revision, prompt, sampling, index)
            for index in range(sampling.n)
        ]
        have = self._cache.get(keys, sampling.max_tokens)
        joined = {key: self._in_flight[key] for key in keys if key not in have and key in self._in_flight}
        missing = [index for index, key in enumerate(keys) if key not in have and key not in joined]
        reply = Reply((), requests=0)
        if missing:
            reply = await self._ask(role, endpoint, Request(prompt, sampling, tuple(missing)), keys)
            have.update(zip((keys[index] for index in missing), reply.completions, strict=True))
        for key, future in joined.items():
            have[key] = await asyncio.shield(future)
        call = Call(
            role=role,
            prompt=prompt.name,
            prompt_sha256=prompt.sha256,
            model=endpoint.settings.model,
            keys=tuple(keys),
            requests=reply.requests,
            cached=sampling.n - len(missing),
            retries=reply.retries,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            tokens_reasoning=reply.tokens_reasoning,
            cost_usd=endpoint.settings.cost_usd(reply.tokens_in, reply.tokens_out),
        )
        return Answered(tuple(have[key] for key in keys), call, Frame(endpoint.settings.frame))

    async def _ask(self, role: str, endpoint: Endpoint, request: Request, keys: list[str]) -> Reply:
        """Send the request; keep its replies before anyone sees them; let joined callers have them too."""
        futures = {keys[index]: asyncio.get_running_loop().create_future() for index in request.indices}
        self._in_flight.update(futures)
        try:
            reply = await endpoint.generate(request)
            self._cache.put(
                CacheEntry(
                    keys[index],
                    role,
                    request.prompt.name,
                    endpoint.settings.model,
                    request.sampling.max_tokens,
                    completion,
                )
                for index, completion in zip(request.indices, reply.completions, strict=True)
            )
        except BaseException as error:
            if isinstance(error, CallError) and error.key is None:
                error.key = keys[request.indices[0]]
            for future in futures.values():
                future.set_exception(error)
                future.exception()  # marks it as seen when nobody joined
            raise
        else:
            for index, completion in zip(request.indices, reply.completions, strict=True):
                futures[keys[index]].set_result(completion)
            return reply
        finally:
            for key in futures:
                del self._in_flight[key]

    async def close(self) -> None:
        """Close all endpoints and the cache."""
        for endpoint in self._endpoints.values():
            await endpoint.close()
        self._cache.close()


class Caller(Protocol):
    """What a scorer needs of the model access; :class:`Models` and a stage's session both are one."""

    async def generate(self, role: str, prompt: RenderedPrompt, sampling: Sampling) -> Answered:
        """See :meth:`Models.generate`."""
        ...
