"""What an endpoint takes in all, from all processes together: requests at once, and requests and tokens a minute.

The processes that use one reply cache share a file for each endpoint. Of the requests at once each leases as many
places as it has work for, in even parts where they don't suffice; with each beat it takes what others gave back, and
gives back what it does not need. The requests and tokens a minute are one schedule: a request that finds it free takes
its part at that moment, and nobody holds a part that is yet to come. What a killed process held is free after
``LEASE_S`` seconds, at once where no other process is left.
Of a cache in a store, where the file is one machine's, each machine has an even part
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
from groundtrace.inference.flow.limits import Gate, Rate
from groundtrace.inference.flow.machines import Machines
from groundtrace.inference.flow.shared_state import SharedState
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.storage import STANDARD, RemotePath, StorageSettings, place

LEASE_S = 10.0
"""How long a process holds its places that says nothing any more."""
BEAT_S, HURRY_S = 0.5, 0.1
"""How often a process renews its lease; the second while it waits for places, or has more in use than it may keep."""
LOOK_S = 0.5
"""How often it is looked whether the schedule is free sooner, since a reply was shorter than was thought."""
MAX_DEBT_S = 600.0
"""What the replies of a process before may hold up the next one for: a server's counts may be wrong."""
TURN_S = 10.0
"""How long places that cannot be parted evenly stay with the same processes."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class Member:
    """One process: the places that it holds, those that it has work for, and until when that is so."""

    places: int
    wanted: int
    until_s: float


@dataclass
class Shared:
    """What the processes know of one endpoint. Times are seconds of a clock that they have in common.

    ``at_s`` and ``world_s`` are what this clock and the world's said when the schedule was last changed.
    """

    members: dict[str, Member] = field(default_factory=dict)
    requests_free_s: float = 0.0
    tokens_free_s: float = 0.0
    at_s: float = 0.0
    world_s: float = 0.0

    def lease(self, me: str, inside: int, wanted: int, most: int, now_s: float) -> tuple[int, int]:
        """Renew the lease of ``me``, which has ``inside`` requests under way and work for ``wanted`` of ``most``.

        Returns how many it may have under way, and how many it will be given once others have given them back. All
        places held are never more than ``most``: a process holds those of its requests until they have ended.
        """
        longest_s = now_s + 2 * LEASE_S  # beyond it, the clock was set back
        others = {name: m for name, m in self.members.items() if name != me and now_s < m.until_s <= longest_s}
        due = divided(most, {name: m.wanted for name, m in others.items()} | {me: wanted}, int(now_s / TURN_S))[me]
        share = max(0, min(due, most - sum(m.places for m in others.values())))
        self.members = others | {me: Member(max(share, inside), wanted, now_s + LEASE_S)}
        return share, due


def divided(most: int, wanted: Mapping[str, int], turn: int) -> dict[str, int]:
    """``most`` places among those who want some: even parts, but nobody more than wanted as long as others lack.

    What nobody wants is divided evenly too. Who has the odd ones changes with each ``turn``, so that nobody is left
    without for good where there are more processes than places.
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
    """An endpoint's quota as one process has it: its own where there is no ``path``, else leased from all.

    ``machines`` are those that have parts of it. All methods run on one event loop. The gate's places are those of the
    lease.
    """

    def __init__(
        self, settings: EndpointSettings, gate: Gate, path: Path | None = None, machines: Machines | None = None
    ) -> None:
        self._gate, self._path, self._limit = gate, path, settings.max_concurrency
        self._machines = machines
        self._requests = Rate(settings.requests_per_minute)
        self._tokens = Rate(settings.tokens_per_minute)
        self._turn = asyncio.Lock()
        self._state: SharedState[Shared] | None = None
        self._me = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._beat_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        if path is not None:
            gate.lend(0, self._more)

    async def take(self, tokens: int) -> None:
        """Wait until one request of so many tokens may be sent; those of one process go in the order of asking."""
        if not (self._requests.bounded or self._tokens.bounded):
            return
        async with self._turn:
            while wait_s := self._scheduled(self._taken, tokens):
                await asyncio.sleep(min(wait_s, LOOK_S))

    def correct(self, tokens: int) -> None:
        """A request took so many tokens more than was thought, or fewer (negative)."""
        if self._tokens.bounded:
            self._scheduled(self._tokens.take, tokens)

    def _taken(self, tokens: float, now_s: float) -> float:
        """Seconds until both rates are free; 0 where they are, and then this is taken of them."""
        if wait_s := max(self._requests.wait_s(now_s), self._tokens.wait_s(now_s)):
            return wait_s
        self._requests.take(self._machine_count, now_s)
        self._tokens.take(tokens, now_s)
        return 0.0

    def close(self) -> None:
        """Give everything back, and close the file. A request that comes later takes it anew."""
        if self._state is not None:
            self._leave(self._state)
            self._state.close()
            self._state = None

    def _leave(self, state: SharedState[Shared]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        state.change(lambda shared: shared.members.pop(self._me, None))
        self._beat_s = float("-inf")  # the next request is to join at once
        self._gate.lend(0, self._more)

    @property
    def _most(self) -> int:
        """The requests at once of this machine."""
        return self._limit if self._machines is None else self._machines.part(self._limit)

    @property
    def _machine_count(self) -> int:
        """What one machine takes of the schedule that it keeps counts for so many of them."""
        return 1 if self._machines is None else self._machines.count

    def _scheduled(self, work: Callable[[float, float], T], tokens: int) -> T:
        """The result of ``work`` with the tokens and the time, on the rates as all processes have them."""
        state, now_s, amount = self._opened(), self._now_s(), tokens * self._machine_count
        if state is None:
            return work(amount, now_s)

        def shared_work(shared: Shared) -> T:
            self._requests.free_s, self._tokens.free_s = shared.requests_free_s, shared.tokens_free_s
            result = work(amount, now_s)
            shared.requests_free_s, shared.tokens_free_s = self._requests.free_s, self._tokens.free_s
            shared.at_s, shared.world_s = now_s, time.time()
            return result

        return state.change(shared_work)

    def _more(self) -> None:
        """A request waits because all leased places are in use."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._beat_s + HURRY_S:
            self._beat()
        elif self._timer is None or self._timer.when() > self._beat_s + HURRY_S:
            self._next_beat(self._beat_s + HURRY_S)

    def _beat(self) -> None:
        """Renew the lease, and take or give back places. With no work since the last time there is nothing to renew."""
        state, self._beat_s = self._opened(), asyncio.get_running_loop().time()
        inside, wanted = self._gate.inside, self._gate.demand()
        if state is None:
            return
        if not wanted:
            self._leave(state)
            return
        if self._machines is not None:
            self._machines.used()
        self._next_beat(self._beat_s + BEAT_S)  # first of all: a file server that is away for once ends no lease
        share, due = state.change(lambda shared: shared.lease(self._me, inside, wanted, self._most, self._now_s()))
        if share < min(due, wanted) or inside > share or not self._most:
            self._next_beat(self._beat_s + HURRY_S)
        self._gate.lend(share, self._more)

    def _next_beat(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when_s, self._beat)

    def _opened(self) -> SharedState[Shared] | None:
        """The state that all share; None where there is none, or its file cannot be had: then the limits are this
        process's."""
        if self._state is None and self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._state = SharedState(
                    self._path, Shared, functools.partial(_resume, now_s=self._now_s()), mend=True
                )
            except OSError as error:
                _log.warning("%s: %s: each worker process has the endpoint's limits for itself", self._path, error)
                self._path = None
                self._gate.lend(self._limit)
        return self._state

    def _now_s(self) -> float:
        """Seconds of the machine's own clock, which is never set; of the world's where machines share the file."""
        if self._path is not None and _on_network(self._path.parent):
            return time.time()
        return asyncio.get_running_loop().time()


@functools.cache
def _on_network(folder: Path) -> bool:
    return on_network(folder)


def _resume(shared: Shared, now_s: float) -> None:
    """Nobody is left of those who wrote this: their places are free, and what their last replies took still counts.

    Their clock may be another boot's, so how much time has passed since is the world's to say.
    """
    passed_s = max(0.0, time.time() - shared.world_s)
    shared.members = {}
    for name in ("requests_free_s", "tokens_free_s"):
        debt_s = getattr(shared, name) - shared.at_s - passed_s
        setattr(shared, name, now_s + min(debt_s, MAX_DEBT_S))


class Quotas:
    """The quotas of all endpoints that one object opens, shared through the folder of the reply cache ``cache``.

    Where that is on object storage they are shared by the processes of one machine, and each machine has its part; a
    cache in memory is not shared at all.
    """

    def __init__(self, cache: str, storage: StorageSettings = STANDARD) -> None:
        self._folder = cache_folder(cache, storage)
        self._machines: Machines | None = None
        if self._folder is not None and isinstance(location := place(cache, storage), RemotePath):
            self._machines = Machines(location.parent / "machines", self._folder)
        self._opened: list[Quota] = []

    @contextlib.contextmanager
    def of(self, endpoint: str) -> Iterator[None]:
        """What is opened in the body is the endpoint of that name."""
        token = _opening.set((self, endpoint))
        try:
            yield
        finally:
            _opening.reset(token)

    def open(self, endpoint: str, settings: EndpointSettings, gate: Gate) -> Quota:
        """The quota of an endpoint. Endpoints of one name at one place, with the same limits, are one."""
        path = None
        if self._folder is not None:
            limits = (settings.max_concurrency, settings.requests_per_minute, settings.tokens_per_minute)
            said = repr((endpoint, settings.kind, settings.base_url, settings.model, *limits))
            digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            path = self._folder / f"quota-{digest}.json"
        self._opened.append(Quota(settings, gate, path, self._machines))
        return self._opened[-1]

    def close(self) -> None:
        """Give everything back."""
        for quota in self._opened:
            quota.close()
        if self._machines is not None:
            self._machines.close()


_opening: ContextVar[tuple[Quotas, str] | None] = ContextVar("opening", default=None)


def quota_of(settings: EndpointSettings, gate: Gate) -> Quota:
    """The quota of the endpoint that is being opened, which is shared where :meth:`Quotas.of` says so."""
    opening = _opening.get()
    return Quota(settings, gate) if opening is None else opening[0].open(opening[1], settings, gate)
