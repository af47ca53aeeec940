"""An endpoint's limits over all processes: concurrent requests, and requests and tokens per minute.

The processes that use one reply cache share a file for each endpoint. Each process leases as many slots for concurrent
requests as it has work for; if the slots do not suffice, they are divided evenly. Every ``BEAT_S`` seconds a process
takes slots that others gave back, and gives back slots that it does not need. All processes share one schedule for the
requests and tokens per minute: a request takes its part when the schedule is free, and no process reserves future
parts. The slots of a killed process are free after ``LEASE_S`` seconds, or at once if no other process is left. If the
cache is in a store, the file is local to one machine, and each machine has an even part of the limits
(:mod:`groundtrace.inference.flow.machines`).
"""

import asyncio
import contextlib
import functools
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from groundtrace.inference.cache.folders import cache_folder
from groundtrace.inference.cache.mounts import on_network
from groundtrace.inference.flow.limits import ConcurrencyLimit, Rate
from groundtrace.inference.flow.machines import Machines
from groundtrace.inference.flow.shared_state import SharedState
from groundtrace.inference.settings import EndpointSettings
from groundtrace.storage.places import STANDARD, RemotePath, StorageSettings, place

LEASE_S = 10.0
"""A lease that is not renewed expires after so long."""
BEAT_S, HURRY_S = 0.5, 0.1
"""The intervals at which a process renews its lease. ``HURRY_S`` holds while it waits for slots, or uses more than its
share; else ``BEAT_S``."""
POLL_S = 0.5
"""The interval at which a waiting request reads the schedule again: if a reply is shorter than expected, the schedule
is free sooner."""
MAX_DEBT_S = 600.0
"""The longest wait that the replies to earlier processes may cause. It is limited since a server's token counts may be
wrong."""
TURN_S = 10.0
"""How long the same processes keep the slots that cannot be divided evenly."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class QuotaMember:
    """One process: the slots that it holds, the slots for which it has work, and when its lease expires."""

    places: int
    wanted: int
    until_s: float


@dataclass
class QuotaState:
    """The shared state of one endpoint. Times are seconds of a clock that all its processes share.

    ``at_s`` and ``world_s``: the time of the last change of the schedule, by this clock and as Unix time.
    """

    members: dict[str, QuotaMember] = field(default_factory=dict)
    requests_free_s: float = 0.0
    tokens_free_s: float = 0.0
    at_s: float = 0.0
    world_s: float = 0.0

    def lease(self, me: str, inside: int, wanted: int, most: int, now_s: float) -> tuple[int, int]:
        """Renew the lease of the process ``me``, which has ``inside`` requests in flight and work for ``wanted`` of
        ``most`` slots.

        Returns how many slots ``me`` may use now, and how many it will get after other processes have given slots back.
        All processes together never hold more than ``most`` slots, since a process holds the slot of a request until
        the request has ended.
        """
        longest_s = now_s + 2 * LEASE_S  # a lease that expires later is from before the clock was set back
        others = {name: m for name, m in self.members.items() if name != me and now_s < m.until_s <= longest_s}
        due = divided(most, {name: m.wanted for name, m in others.items()} | {me: wanted}, int(now_s / TURN_S))[me]
        share = max(0, min(due, most - sum(m.places for m in others.values())))
        self.members = others | {me: QuotaMember(max(share, inside), wanted, now_s + LEASE_S)}
        return share, due


def divided(most: int, wanted: Mapping[str, int], turn: int) -> dict[str, int]:
    """Divide ``most`` slots evenly; no process gets more than ``wanted`` while another gets less.

    Unclaimed slots are shared evenly too. With each ``turn`` the remainder goes to other processes, so that each
    process gets slots at some time, even if there are more processes than slots.
    """
    names = sorted(wanted)
    turned = {name: (place + turn) % len(names) for place, name in enumerate(names)}
    order = sorted(names, key=lambda name: (wanted[name], turned[name]))
    parts, left = dict.fromkeys(order, 0), most
    for bound in (wanted, dict.fromkeys(order, most)):
        for number, name in enumerate(order):
            part = min(bound[name] - parts[name], left // (len(order) - number))
            parts[name] += max(0, part)
            left -= max(0, part)
    return parts


class Quota:
    """An endpoint's quota in one process. It is leased through the shared file ``path``; without a ``path``, the
    process has the whole quota.

    The slots of the lease are lent to ``concurrency``. ``machines`` divides the limits if the cache is in a store. All
    methods run on one event loop.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        concurrency: ConcurrencyLimit,
        path: Path | None = None,
        machines: Machines | None = None,
    ) -> None:
        self._concurrency, self._path, self._limit = concurrency, path, settings.max_concurrency
        self._machines = machines
        self._requests = Rate(settings.requests_per_minute)
        self._tokens = Rate(settings.tokens_per_minute)
        self._turn = asyncio.Lock()
        self._state: SharedState[QuotaState] | None = None
        self._me = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._beat_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        if path is not None:
            concurrency.lend(0, self._more)

    async def take(self, tokens: int) -> None:
        """Wait until one request with this number of tokens may be sent. Within a process, earlier calls are served
        first.
        """
        if not (self._requests.bounded or self._tokens.bounded):
            return
        async with self._turn:
            while wait_s := self._scheduled(self._taken, tokens):
                await asyncio.sleep(min(wait_s, POLL_S))

    def correct(self, tokens: int) -> None:
        """Correct the schedule for a request that used ``tokens`` more than expected; a negative number means fewer."""
        if self._tokens.bounded:
            self._scheduled(self._tokens.take, tokens)

    def _taken(self, tokens: float, now_s: float) -> float:
        """Return the seconds until both rates are free. If both are free now, takes one request and ``tokens`` from
        them, and returns 0."""
        if wait_s := max(self._requests.wait_s(now_s), self._tokens.wait_s(now_s)):
            return wait_s
        self._requests.take(self._machine_count, now_s)
        self._tokens.take(tokens, now_s)
        return 0.0

    def close(self) -> None:
        """Give the lease back, and close the file. A later request opens it again."""
        if self._state is not None:
            self._give_lease_back(self._state)
            self._state.close()
            self._state = None

    def _give_lease_back(self, state: SharedState[QuotaState]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        state.change(lambda shared: shared.members.pop(self._me, None))
        self._beat_s = float("-inf")  # so that the next request gets a lease at once
        self._concurrency.lend(0, self._more)

    @property
    def _most(self) -> int:
        """The limit on concurrent requests of this machine."""
        return self._limit if self._machines is None else self._machines.part(self._limit)

    @property
    def _machine_count(self) -> int:
        """The number of machines. Each machine has its own schedule, and multiplies its requests by this number."""
        return 1 if self._machines is None else self._machines.count

    def _scheduled(self, work: Callable[[float, float], T], tokens: int) -> T:
        """Return the result of ``work(tokens, now_s)`` on the rates that all processes share."""
        state, now_s, amount = self._opened(), self._now_s(), tokens * self._machine_count
        if state is None:
            return work(amount, now_s)

        def shared_work(shared: QuotaState) -> T:
            self._requests.free_s, self._tokens.free_s = shared.requests_free_s, shared.tokens_free_s
            result = work(amount, now_s)
            shared.requests_free_s, shared.tokens_free_s = self._requests.free_s, self._tokens.free_s
            shared.at_s, shared.world_s = now_s, time.time()
            return result

        return state.change(shared_work)

    def _more(self) -> None:
        """Renew the lease soon, since a request waits and all leased slots are in use."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._beat_s + HURRY_S:
            self._beat()
        elif self._timer is None or self._timer.when() > self._beat_s + HURRY_S:
            self._next_beat(self._beat_s + HURRY_S)

    def _beat(self) -> None:
        """Renew the lease, and take or give back slots. Without work since the last beat, give the lease back."""
        state, self._beat_s = self._opened(), asyncio.get_running_loop().time()
        inside, wanted = self._concurrency.inside, self._concurrency.demand()
        if state is None:
            return
        if not wanted:
            self._give_lease_back(state)
            return
        if self._machines is not None:
            self._machines.used()
        self._next_beat(self._beat_s + BEAT_S)  # first, so that an error of the file server does not stop the beats
        share, due = state.change(lambda shared: shared.lease(self._me, inside, wanted, self._most, self._now_s()))
        if share < min(due, wanted) or inside > share or not self._most:
            self._next_beat(self._beat_s + HURRY_S)
        self._concurrency.lend(share, self._more)

    def _next_beat(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when_s, self._beat)

    def _opened(self) -> SharedState[QuotaState] | None:
        """Return the shared state. Returns None without a ``path``, or if the file cannot be opened; then the limits
        apply to this process alone."""
        if self._state is None and self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._state = SharedState(
                    self._path, QuotaState, functools.partial(_resume, now_s=self._now_s()), mend=True
                )
            except OSError as error:
                _log.warning("%s: %s: each worker process applies the endpoint's limits separately", self._path, error)
                self._path = None
                self._concurrency.lend(self._limit)
        return self._state

    def _now_s(self) -> float:
        """Return the seconds of the machine's monotonic clock, or Unix time if the file is on a network disk."""
        if self._path is not None and _on_network(self._path.parent):
            return time.time()
        return asyncio.get_running_loop().time()


@functools.cache
def _on_network(folder: Path) -> bool:
    return on_network(folder)


def _resume(shared: QuotaState, now_s: float) -> None:
    """Free the slots in a state whose processes have all ended. The schedule is kept, since their requests filled it.

    The machine may have been restarted, which resets the monotonic clock. So the time since the last change is measured
    in Unix time.
    """
    passed_s = max(0.0, time.time() - shared.world_s)
    shared.members = {}
    for name in ("requests_free_s", "tokens_free_s"):
        debt_s = getattr(shared, name) - shared.at_s - passed_s
        setattr(shared, name, now_s + min(debt_s, MAX_DEBT_S))


class Quotas:
    """The quotas of a set of endpoints, shared with other processes through the folder of the reply cache ``cache``.

    If the cache is in a store, the quotas are divided between the machines, and the processes of one machine share its
    part. With a cache in memory the quotas are not shared.
    """

    def __init__(self, cache: str, storage: StorageSettings = STANDARD) -> None:
        self._folder = cache_folder(cache, storage)
        self._machines: Machines | None = None
        if self._folder is not None and isinstance(location := place(cache, storage), RemotePath):
            self._machines = Machines(location.parent / "machines", self._folder)
        self._opened: list[Quota] = []

    @contextlib.contextmanager
    def of(self, endpoint: str) -> Iterator[None]:
        """In the body, :func:`quota_of` opens quotas of the endpoint with that name."""
        token = _opening.set((self, endpoint))
        try:
            yield
        finally:
            _opening.reset(token)

    def open(self, endpoint: str, settings: EndpointSettings, concurrency: ConcurrencyLimit) -> Quota:
        """Return the quota of an endpoint. Processes share it if the endpoint's name, kind, URL, model and limits are
        the same in all of them."""
        path = None
        if self._folder is not None:
            limits = (settings.max_concurrency, settings.requests_per_minute, settings.tokens_per_minute)
            identity = repr((endpoint, settings.kind, settings.base_url, settings.model, *limits))
            digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            path = self._folder / f"quota-{digest}.json"
        self._opened.append(Quota(settings, concurrency, path, self._machines))
        return self._opened[-1]

    def close(self) -> None:
        """Give all leases back."""
        for quota in self._opened:
            quota.close()
        if self._machines is not None:
            self._machines.close()


_opening: ContextVar[tuple[Quotas, str] | None] = ContextVar("opening", default=None)


def quota_of(settings: EndpointSettings, concurrency: ConcurrencyLimit) -> Quota:
    """Return the quota of the endpoint that is being opened; inside of :meth:`Quotas.of` it is shared with other
    processes.
    """
    opening = _opening.get()
    return Quota(settings, concurrency) if opening is None else opening[0].open(opening[1], settings, concurrency)
