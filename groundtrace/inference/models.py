"""Calls the models of all roles. A role is the job of a model, such as teacher or judge. Replies come from the cache if
possible. Several calls that need the same reply share one request. The usage of each call is recorded.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from groundtrace.inference.cache.folders import coordination_folder
from groundtrace.inference.cache.neighbours import Neighbours
from groundtrace.inference.cache.replies import MEMORY, CachedReply, CacheEntry
from groundtrace.inference.cache.shared import open_cache
from groundtrace.inference.call_progress import CallInProgress
from groundtrace.inference.caller import CallResult
from groundtrace.inference.coordination.budget import Budget
from groundtrace.inference.coordination.claims import Claims
from groundtrace.inference.coordination.peers import Peers
from groundtrace.inference.coordination.quota import shared_with
from groundtrace.inference.endpoint import Endpoint, kind_of, open_endpoint
from groundtrace.inference.errors import BudgetUsedUp, CallError, RunStopped
from groundtrace.inference.families.base import Family
from groundtrace.inference.flow.breaker import Breaker
from groundtrace.inference.flow.notes import RunNotes
from groundtrace.inference.flow.watch import Watch
from groundtrace.inference.flow.watcher import CallWatcher
from groundtrace.inference.open_files import allow_caches, allow_connections
from groundtrace.inference.request import Continuation, Sampling, cache_key, fresh_key
from groundtrace.inference.request_log import log_request, not_stored
from groundtrace.inference.sample_requests import SampleRequests
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.storage.uploads import Uploads
from groundtrace.vision.media import MediaStore

KEEPING_S = 0.2
"""The longest time, in seconds, that caching a reply is expected to take after the reply has arrived.

At the end of a run, :meth:`Models.drain` waits at most this time for replies that have arrived and are not cached yet.
"""


@dataclass(frozen=True, eq=False)
class _Flight:
    """Holds the asyncio future and the token limit of a request for one sample (one text of a model).

    Other calls that need the same sample wait for this future instead of sending a request.
    """

    future: "asyncio.Future[CachedReply]"
    max_tokens: int


class Models:
    """Calls models for stages (steps of a pipeline) and scorers (code that checks responses). ``settings`` define the
    endpoints, the endpoint of each role, the cache and the budget. A role is the job of a model, such as "judge". If
    ``cached`` is False, replies are cached only in memory, and the caches of other runs are not read.

    Methods run on the event loop of :mod:`groundtrace.inference.runtime`.
    """

    def __init__(self, settings: ModelsSettings, cached: bool = True) -> None:
        self.settings = settings
        used = {name for _, name in settings.roles}
        endpoints = {name: each for name, each in settings.endpoints if name in used}
        allow_connections(endpoints)
        self.media = MediaStore(
            settings.input_root, settings.run_root, cache_bytes=128 * 2**20, storage=settings.storage
        )
        cache = settings.cache_path if cached else MEMORY
        self._peers = Peers(coordination_folder(cache, settings.storage))
        self.budget = Budget(
            settings.budget_usd, settings.budget_tokens, settings.notes, self._peers, settings.workers, settings.storage
        )
        self._uploads = Uploads()
        self._watch = None
        if settings.notes:
            notes = RunNotes(settings.notes, settings.storage, self._peers.me, self._uploads)
            self._watch = Watch(settings, self.endpoint, notes)
        if self.budget.is_divided:
            self._uploads.add("read what other machines have spent", self.budget.read_notes)
        self._cache = open_cache(cache, settings.storage, self._uploads)
        self._claiming = Claims(self._peers, self._cache)
        others = settings.neighbours if cached else ()
        others = others[: allow_caches(len(others), endpoints)]
        self._neighbours = Neighbours(others, unchanged=bool(settings.request_log))
        self._endpoints: dict[str, Endpoint] = {}
        self._breakers: dict[str, Breaker] = {}
        self._in_flight: dict[str, _Flight] = {}
        notes = None if self._watch is None else self._watch.notes
        self._samples = SampleRequests(self._cache, self.budget, notes, self._watcher)
        self._requesting: set[asyncio.Task[Any]] = set()

    def endpoint(self, role: str) -> Endpoint:
        """Return the endpoint (the object that sends requests to a model) for a role, which is the job of a model, such
        as "judge". It is opened at the first use. If it cannot be opened, RunStopped is raised in a run, and ValueError
        elsewhere.
        """
        name = self.settings.endpoint_name(role)
        if name not in self._endpoints:
            settings = self.settings.endpoint(role)
            try:
                with shared_with(self._peers, name):
                    self._endpoints[name] = open_endpoint(settings, self.media, self.settings.classical_threads)
            except ValueError as error:
                if self._watch is None:
                    raise
                raise RunStopped(str(error)) from error  # such as a missing API key
        return self._endpoints[name]

    def breaker(self, role: str) -> Breaker | None:
        """Return the circuit breaker of the endpoint for ``role`` (the job of a model, such as "judge"). While the
        endpoint's server is down, the breaker makes calls fail immediately. Returns None if the setting ``fails_fast``
        is False, or if the model runs in this process.
        """
        if not self.settings.fails_fast or kind_of(self.settings.endpoint(role).kind).in_process:
            return None
        name = self.settings.endpoint_name(role)
        if name not in self._breakers:
            self._breakers[name] = Breaker(self.endpoint(role).check)
        return self._breakers[name]

    async def _watcher(self, role: str) -> CallWatcher | None:
        return self.breaker(role) if self._watch is None else await self._watch.guard(role)

    def repair_attempts(self, role: str) -> int:
        """Return how many times a reply of the wrong form may be repaired. In a repair, the model gets its bad reply
        and a description of the problem, and answers again. ``role`` is the job of the model, such as "judge". The
        result is 0 for a model in this process, since such a model would return the same reply again.
        """
        settings = self.settings.endpoint(role)
        return 0 if kind_of(settings.kind).in_process else settings.repair_attempts

    def max_tokens_limit(self, role: str) -> int:
        """Return the setting ``max_tokens_limit`` for the model with this ``role`` (a model's job, such as "judge").

        If a reply is truncated, its request is repeated with a larger token budget, but with at most this number of
        tokens. If the number is 0, :meth:`generate` never repeats a request, and returns truncated replies. But
        :func:`groundtrace.inference.role_calls.ask_for`, which needs a reply of a certain form, still repeats the
        request of a truncated reply. It then uses a fixed limit of its own.
        """
        return self.settings.endpoint(role).max_tokens_limit

    def family(self, role: str) -> Family:
        """Return the family of the model with this ``role`` (the job of a model, such as "pointer"). A family consists
        of models that write coordinates in the same way. The returned object holds their prompts for points and boxes,
        and the parsers of their replies.
        """
        return self.settings.endpoint(role).model_family

    def gives_logprobs(self, role: str) -> bool:
        """Return whether, by its settings, a model's endpoint can return the log-probabilities of the tokens of a given
        text (a continuation of a reply). ``role`` is the job of the model, such as "judge".
        """
        return self.settings.endpoint(role).logprobs

    async def generate(
        self,
        role: str,
        prompt: RenderedPrompt,
        sampling: Sampling,
        *,
        continuation: Continuation | None = None,
        repair: bool = False,
    ) -> CallResult:
        """Ask a model for ``sampling.n`` samples (replies to ``prompt``), and return them. ``role`` is the job of the
        model, such as "judge". Samples that are in the cache are taken from there.

        If ``continuation`` (a fixed text) is given, nothing is sampled. Instead, the model computes the log-probability
        of each token of this text, and the result holds these values. ``repair`` is True if the prompt asks the model
        to correct an unusable reply; the call is then counted as a repair. Raises
        :class:`groundtrace.inference.errors.CallError` if a sample cannot be obtained, and BudgetUsedUp if the budget
        does not suffice. Samples that did arrive stay in the cache.
        """
        endpoint = self.endpoint(role)
        model, revision = endpoint.settings.model, endpoint.revision
        requested = [cache_key(model, revision, prompt, sampling, i, continuation) for i in range(sampling.n)]
        keys = tuple(fresh_key(key, self.settings.fresh_since) for key in requested)
        have = self._cached(role, model, prompt.name, dict(zip(keys, requested, strict=True)))
        asked = CallInProgress(role, endpoint, prompt, sampling, continuation, keys, have)
        if self.settings.request_log:
            log_request(self.settings.request_log, asked)
            if asked.wanted():
                raise not_stored(asked)
        try:
            await self._complete(asked)
        except (CallError, BudgetUsedUp) as error:
            error.call = asked.call(int(repair))
            raise
        completions = tuple(asked.have[key].completion for key in keys)
        return CallResult(completions, asked.call(int(repair)))

    def _cached(self, role: str, model: str, prompt: str, keys: Mapping[str, str]) -> dict[str, CachedReply]:
        """Look up replies in the caches, and return those found, by their key in this run's cache.

        ``keys`` has an entry for each wanted reply: it maps the reply's key in this run's cache to the reply's normal
        key (:func:`cache_key`). The two keys differ only if this run uses no replies older than a given time
        (:func:`fresh_key`).

        The caches of other runs (neighbours) are searched too. A reply that only such a cache holds is copied into this
        run's cache, since a user may delete the other run.
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

    async def _complete(self, asked: CallInProgress) -> None:
        while wanted := asked.wanted():
            for max_tokens, indices in sorted(wanted.items()):
                flights = {asked.keys[index]: self._flight(asked.keys[index], max_tokens) for index in indices}
                missing = tuple(index for index in indices if flights[asked.keys[index]] is None)
                # Each sample has its own seed: samples with seeds are separate requests, sent concurrently.
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
        """Return the request in flight for a sample (one text of a model), given the sample's cache key ``key``.

        Returns None if there is no such request, or if its token limit is below ``max_tokens``.
        """
        flight = self._in_flight.get(key)
        return flight if flight is not None and flight.max_tokens >= max_tokens else None

    def _ask(
        self, asked: CallInProgress, indices: tuple[int, ...], max_tokens: int
    ) -> Coroutine[Any, Any, dict[str, CachedReply]]:
        """Add samples to the requests in flight, and return the coroutine that requests them. A sample is one text of a
        model. The samples are added before the coroutine runs, so that other calls wait for them and do not request
        them again.

        ``asked`` is the call that needs the samples, ``indices`` are their numbers, and ``max_tokens`` is the token
        limit of each sample.
        """
        loop = asyncio.get_running_loop()
        flights = {asked.keys[index]: _Flight(loop.create_future(), max_tokens) for index in indices}
        self._in_flight.update(flights)
        return self._send(asked, indices, max_tokens, flights, self._peers.has_joined)

    async def _send(
        self,
        asked: CallInProgress,
        indices: tuple[int, ...],
        max_tokens: int,
        flights: dict[str, _Flight],
        had_joined: bool,
    ) -> dict[str, CachedReply]:
        """Request samples (texts of a model), and return them by cache key. Other calls in this process that wait for
        one of the samples get this sample, too.

        ``asked`` is the call that needs the samples, ``indices`` are their numbers, and ``max_tokens`` is the token
        limit of each sample. ``flights`` holds, by cache key, the futures for which the other calls wait.

        If the model runs in this process, all samples are requested from it. If the model runs on a server, another
        process of this machine may already have requested one of the samples. This method then waits until that
        request has ended, and takes the sample from the cache. The sample is requested again only if it is not there.

        The processes find each other through a shared file, in which each process registers. The caller has already
        searched the cache. ``had_joined`` is True if this process was already registered at that time. If it is False,
        another process may have cached some of the samples since then, without being noticed. So the method searches
        the cache again.
        """
        keys = [asked.keys[index] for index in indices]
        try:
            if kind_of(asked.endpoint.settings.kind).in_process:
                kept = await self._samples.request(asked, indices, max_tokens)
            else:
                async with self._claiming.holding(keys, max_tokens, had_joined) as kept:
                    rest = tuple(index for index in indices if asked.keys[index] not in kept)
                    if rest:
                        with self._under_way():
                            kept |= await self._samples.request(asked, rest, max_tokens)
        except BaseException as error:
            for flight in flights.values():
                flight.future.set_exception(error)
                flight.future.exception()  # marks the exception as retrieved, if no call joined
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
        """Put the current task into the set of tasks that send requests to a server, and remove it when the body of the
        ``with`` statement ends. :meth:`drain` waits for the tasks in this set."""
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._requesting.add(task)
        try:
            yield
        finally:
            self._requesting.discard(task)

    def flush_notes(self) -> None:
        """Wait until other processes of the run can read all notes that this process has written. Notes are files that
        record the usage (such as tokens and cost) of requests.

        Raises OSError if the storage of the notes cannot be reached.
        """
        if self._watch is not None:
            self._watch.notes.flush()

    async def drain(self, limit_s: float) -> int:
        """Send no more requests, and wait until the replies to the requests already sent are cached. The wait takes at
        most ``limit_s`` seconds.

        Later calls raise :class:`groundtrace.inference.errors.RunStopped`. Returns the number of requests that still
        have no reply. Outside of a run the method does nothing and returns 0.
        """
        if self._watch is None:
            return 0
        self._watch.end()
        end_s = time.monotonic() + limit_s
        while self._watch.under_way and self._requesting and time.monotonic() < end_s:
            await asyncio.wait(self._requesting, timeout=KEEPING_S, return_when=asyncio.FIRST_COMPLETED)
        if self._requesting and not self._watch.under_way:
            await asyncio.wait(self._requesting, timeout=KEEPING_S)  # a reply has arrived, and is not cached yet
        return self._watch.under_way

    async def close(self) -> None:
        """Close the connections, threads and files of all endpoints, of the reply caches, and of the run's notes (files
        that record the usage of requests).
        """
        for endpoint in self._endpoints.values():
            await endpoint.close()
        self._uploads.close()
        self._peers.close()
        self._cache.close()
        self._neighbours.close()
        if self._watch is not None:
            self._watch.notes.close()


async def _joined(future: "asyncio.Future[CachedReply]") -> CachedReply:
    """Wait for the sample that another call has requested, and return the sample.

    If the other call fails, its error is raised here, too. A CallError is raised without its usage, because the usage
    is already counted for the other call.
    """
    try:
        return await asyncio.shield(future)
    except CallError as error:
        raise error.without_usage() from error
    except BudgetUsedUp as error:
        raise BudgetUsedUp(*error.args) from error
