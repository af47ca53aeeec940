"""Applies an endpoint's limits over all processes of a machine: concurrent requests, and requests and tokens per
minute. A slot permits one concurrent request.

A process that is alone has all slots of the endpoint. Processes that share the endpoint (peers) divide the slots. Each
peer gets at least as many slots as it has requests to send. If the slots do not suffice, the peers that want more than
an equal part get equal parts of what the others leave (:func:`divided`). Every ``BEAT_S`` seconds a process with peers
adjusts its slots. It takes slots that others gave back, and gives back slots that it does not need.

For the requests and tokens per minute, all processes share one schedule: the time at which the next request may be
sent. A request is entered into the schedule at the moment when it is sent, never earlier.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Final, TypeVar

from groundtrace.inference.coordination.peers import Peers
from groundtrace.inference.errors import RunStopped
from groundtrace.inference.flow.limits import ConcurrencyLimit, Rate
from groundtrace.inference.settings import EndpointSettings

BEAT_S: Final = 0.5
HURRY_S: Final = 0.1
"""``BEAT_S`` and ``HURRY_S`` are the intervals, in seconds, at which a process with peers adjusts its slots.

A slot permits one concurrent request. Peers are other processes that use the same endpoint. ``HURRY_S`` applies while
the process registers, waits for slots, or uses more slots than its share. Otherwise ``BEAT_S`` applies.
"""
POLL_S: Final = 0.5
"""The interval, in seconds, at which a request that waits for the limits per minute checks whether it may be sent now.

If an earlier reply is shorter than expected, the request may be sent sooner than computed before.
"""
MAX_DEBT_S: Final = 600.0
"""The longest time, in seconds, that a process still waits because of earlier requests when it becomes the only process
that uses the endpoint.

The wait is due to the requests and tokens that all processes used before. Without this limit, it could be far too long,
since a server may report token counts that are much too high.
"""
TURN_S: Final = 10.0
"""The time, in seconds, after which other processes get the slots that cannot be divided evenly.

A slot permits one concurrent request to an endpoint. For example, three processes that each want 10 of 8 slots get 3, 3
and 2 slots. After this time, another of them gets only 2.
"""
_NEVER_S: Final = float("-inf")
T = TypeVar("T")


def divided(most: int, wanted: Mapping[str, int], turn: int) -> dict[str, int]:
    """Divide the slots of an endpoint evenly among processes. A slot permits one concurrent request. Returns the number
    of slots of each process, by the process's name.

    ``most`` is the number of slots. ``wanted`` maps the name of each process to the number of slots that it wants. If
    the slots suffice, each process gets what it wants, and an equal part of the slots that are left over. If they do
    not suffice, a process that wants less than an equal part gets all slots that it wants. The other processes get
    equal parts of the rest. E.g. if three processes want 1, 10 and 10 of 8 slots, they get 1, 3 and 4.

    If a division leaves a remainder, only some processes get one more slot. ``turn`` is a counter that determines these
    processes. So each process gets slots at some time, even if there are more processes than slots.
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


def leased(most: int, others: Mapping[str, tuple[int, int]], me: str, wanted: int, turn: int) -> tuple[int, int]:
    """Return two numbers for the process ``me``: the number of slots that it may use now, and its share of the slots. A
    slot permits one concurrent request. The share is the number of slots that :func:`divided` gives to the process.

    ``most`` is the number of slots of the endpoint. ``wanted`` is the number of slots for which ``me`` has requests.
    ``others`` maps the name of each other process to two numbers: the slots that it holds, and the slots that it wants.
    ``turn`` is a counter that determines which processes get the slots that cannot be divided evenly (:func:`divided`).

    The first number is the share, but at most the number of slots that the other processes do not hold. So all
    processes together never hold more than ``most`` slots. A process holds the slot of a request until the request has
    ended. So a process can hold more slots than its share for some time.

    E.g. ``me`` and another process each want 10 of 8 slots, so each has a share of 4. If the other process still holds
    6 slots, the result is (2, 4). When the other process holds at most 4 slots, the result is (4, 4).
    """
    due = divided(most, {name: work for name, (_, work) in others.items()} | {me: wanted}, turn)[me]
    return max(0, min(due, most - sum(held for held, _ in others.values()))), due


class Quota:
    """Applies an endpoint's limits in this process: concurrent requests, requests per minute and tokens per minute.
    ``settings`` holds these limits.

    A slot is the permission for one concurrent request. This class decides how many slots this process has. It passes
    this number to ``concurrency``, which gives the slots to the single requests
    (:meth:`~groundtrace.inference.flow.limits.ConcurrencyLimit.lend`).

    ``peers`` connects this process with the other processes of the machine. If ``peers`` is None, this process shares
    the limits with no other process. ``endpoint`` is a text that identifies the endpoint: processes with the same text
    share the limits. The methods run on one event loop. Only :meth:`publish`, :meth:`withdraw` and :meth:`changed` may
    run on another thread.
    """

    def __init__(
        self, settings: EndpointSettings, concurrency: ConcurrencyLimit, peers: Peers | None = None, endpoint: str = ""
    ) -> None:
        self._concurrency, self._endpoint, self._limit = concurrency, endpoint, settings.max_concurrency
        self._peers = Peers(None) if peers is None else peers
        self._requests = Rate(settings.requests_per_minute)
        self._tokens = Rate(settings.tokens_per_minute)
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat_s = _NEVER_S
        self._timer: asyncio.TimerHandle | None = None
        if peers is not None:
            concurrency.lend(0, self._more)
            peers.add(self)

    # Requests and tokens per minute

    async def take(self, tokens: int) -> None:
        """Wait until one request with ``tokens`` tokens may be sent under the limits per minute. Within a process,
        waiting calls are served in the order of their arrival.
        """
        if not (self._requests.bounded or self._tokens.bounded):
            return
        self._loop = asyncio.get_running_loop()
        async with self._turn:
            while not self._peers.join():
                await asyncio.sleep(HURRY_S)
            while wait_s := self._scheduled(self._taken, tokens):
                await asyncio.sleep(min(wait_s, POLL_S))

    def correct(self, tokens: int) -> None:
        """Correct the number of tokens that were counted for a request, after the request has ended. The limit on
        tokens per minute then counts the tokens that the request used, and not those that were expected. ``tokens`` is
        the difference: positive if the request used more tokens than expected, negative if it used fewer.
        """
        if self._tokens.bounded:
            self._scheduled(self._tokens.take, tokens)

    def _taken(self, tokens: float, now_s: float) -> float:
        """Return how many seconds a request must wait because of the limits on requests and tokens per minute. If the
        result is 0, the method also counts one request and ``tokens`` tokens as used at the time ``now_s``."""
        if wait_s := max(self._requests.wait_s(now_s), self._tokens.wait_s(now_s)):
            return wait_s
        self._requests.take(1, now_s)
        self._tokens.take(tokens, now_s)
        return 0.0

    def _scheduled(self, work: Callable[[float, float], T], tokens: int) -> T:
        """Return the result of ``work(tokens, now_s)``. The function ``work`` uses the limits per minute: it reads or
        changes the times at which the next request and the next tokens are allowed. If other processes share the
        endpoint, these times are read from the shared file before the call, and written to the file afterwards."""
        with self._peers.lock:
            if not self._peers.has_peers:
                return work(tokens, self._now_s())
            with self._peers.transaction() as db:
                self._requests.free_s, self._tokens.free_s, _, _ = self._row(db)
                result = work(tokens, self._now_s())
                self._write_rates(db)
            return result

    def _row(self, db: sqlite3.Connection) -> tuple[float, float, float, float]:
        found = "SELECT requests_free_s, tokens_free_s, at_s, world_s FROM rates WHERE endpoint = ?"
        return db.execute(found, (self._endpoint,)).fetchone() or (_NEVER_S, _NEVER_S, 0.0, 0.0)

    def _write_rates(self, db: sqlite3.Connection) -> None:
        row = self._endpoint, self._requests.free_s, self._tokens.free_s, self._now_s(), time.time()
        db.execute("INSERT OR REPLACE INTO rates VALUES (?, ?, ?, ?, ?)", row)

    # Concurrent requests

    def _more(self) -> None:
        """Update the number of this process's slots soon, because a request waits and no slot is free. A slot permits
        one concurrent request. The update happens now if the last update was at least ``HURRY_S`` seconds ago.
        Otherwise it happens ``HURRY_S`` seconds after the last update.
        """
        self._loop = asyncio.get_running_loop()
        if self._now_s() >= self._beat_s + HURRY_S:
            self._beat()
        elif self._timer is None or self._timer.when() > self._beat_s + HURRY_S:
            self._next_beat(self._beat_s + HURRY_S)

    def _beat(self) -> None:
        """Update how many slots this process may use. A slot permits one concurrent request. A process without peers
        may use all slots. A process with peers takes the slots that it may use now. But if it has had no request since
        the last update, it gives back all its slots."""
        self._beat_s = self._now_s()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            with self._peers.lock:
                if not self._peers.join():
                    self._next_beat(self._beat_s + HURRY_S)
                elif not self._peers.has_peers:
                    self._concurrency.lend(self._limit)
                else:
                    self._share()
        except RunStopped as error:  # no caller would get a timer's exception, and the requests would wait for ever
            self._concurrency.refuse(error)

    def _share(self) -> None:
        inside, wanted = self._concurrency.inside, self._concurrency.demand()
        share = due = 0
        with self._peers.transaction() as db:
            if wanted:
                found = "SELECT process, held, wanted FROM slots WHERE endpoint = ? AND process != ?"
                rows = db.execute(found, (self._endpoint, self._peers.me))
                others = {name: (held, work) for name, held, work in rows}
                share, due = leased(self._limit, others, self._peers.me, wanted, int(self._now_s() / TURN_S))
                self._hold(db, max(share, inside), wanted)
            else:
                self._release_slots(db)
        if wanted:
            is_short = share < min(due, wanted) or inside > share
            self._next_beat(self._beat_s + (HURRY_S if is_short else BEAT_S))
        self._concurrency.lend(share, self._more)

    def _release_slots(self, db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM slots WHERE endpoint = ? AND process = ?", (self._endpoint, self._peers.me))

    def _hold(self, db: sqlite3.Connection, held: int, wanted: int) -> None:
        row = self._endpoint, self._peers.me, held, wanted
        db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", row)

    def _next_beat(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when_s, self._beat)

    # The state that peers share

    def publish(self, db: sqlite3.Connection) -> None:
        """Move this process's state into the file ``db``, because other processes now share the endpoint. The state
        consists of the times at which the next request and the next tokens are allowed, and of the slots for
        concurrent requests. At first all slots are registered as held by this process; :meth:`changed` reduces them
        later to this process's part.
        """
        requests_free_s, tokens_free_s, *_ = self._row(db)
        self._requests.free_s = max(self._requests.free_s, requests_free_s)
        self._tokens.free_s = max(self._tokens.free_s, tokens_free_s)
        self._write_rates(db)
        if self._loop is not None and not self._loop.is_closed():
            self._hold(db, self._limit, self._limit)

    def withdraw(self, db: sqlite3.Connection) -> None:
        """Read the shared state from the file ``db`` into memory, because no other process shares the endpoint now.

        The state is two times: when the next request is allowed, and when the next tokens are allowed. Requests of all
        processes that shared the endpoint have moved these times forward. This process's slots (permits for concurrent
        requests) are removed from the file.

        The file holds the two times as readings of the monotonic clock. This clock starts again when the machine
        restarts, so old readings may be useless. Therefore the file also holds the monotonic time and the Unix time at
        which the two times were written. From these values, the method calculates how many seconds are left until each
        of the two times. If more than ``MAX_DEBT_S`` seconds are left, ``MAX_DEBT_S`` is used instead.
        """
        requests_free_s, tokens_free_s, at_s, world_s = self._row(db)
        passed_s, now_s = max(0.0, time.time() - world_s), self._now_s()
        self._requests.free_s = now_s + min(requests_free_s - at_s - passed_s, MAX_DEBT_S)
        self._tokens.free_s = now_s + min(tokens_free_s - at_s - passed_s, MAX_DEBT_S)
        self._release_slots(db)

    def changed(self) -> None:
        """Adjust how many of the endpoint's concurrent requests this process may use. The method is called when the
        process has got its first peer (another process that shares the endpoint), or has no peers any more. Any
        thread may call it.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._beat)

    def _now_s(self) -> float:
        return time.monotonic() if self._loop is None else self._loop.time()


_opening: ContextVar[tuple[Peers, str] | None] = ContextVar("opening", default=None)


@contextlib.contextmanager
def shared_with(peers: Peers, endpoint: str) -> Iterator[None]:
    """Share the limits (on requests and tokens) of an endpoint with the same endpoint in other processes. The limits
    are shared if the endpoint is opened in the body of the ``with`` statement (:func:`quota_of`).

    ``peers`` connects this process with the other processes, and ``endpoint`` is the endpoint's name in the settings.
    """
    token = _opening.set((peers, endpoint))
    try:
        yield
    finally:
        _opening.reset(token)


def quota_of(settings: EndpointSettings, concurrency: ConcurrencyLimit) -> Quota:
    """Return the quota (the limits on concurrent requests, and on requests and tokens per minute) of the endpoint with
    these settings. ``concurrency`` counts the endpoint's concurrent requests in this process.

    Inside of :func:`shared_with`, the quota is shared with the other processes that have an endpoint with the same
    name, kind, URL, model and limits. Elsewhere the quota holds for this process alone.
    """
    opening = _opening.get()
    if opening is None:
        return Quota(settings, concurrency)
    limits = (settings.max_concurrency, settings.requests_per_minute, settings.tokens_per_minute)
    identity = repr((opening[1], settings.kind, settings.base_url, settings.model, *limits))
    return Quota(settings, concurrency, opening[0], identity)
