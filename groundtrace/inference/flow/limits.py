"""Limits three things: concurrent requests (adaptively), the bytes of request bodies in memory, and requests or tokens
per minute.

All methods of one object run on one event loop.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable

OVERLOADED_SHARE = 0.2
"""The share of requests that find the server overloaded above which the limit on concurrent requests is lowered. If the
share is less than half of this value, the limit is raised.
"""
MIN_SEEN = 20
FALL = 0.7
RISES_TO_FULL = 16
BURST_S = 1.0
OPENING_GAP_S = 0.003
"""The least interval, in seconds, between the starts of an endpoint's first requests.

Without the interval, these requests would start together and, if they take equally long, end together. Then the client
and the server would take turns to wait: the client for all replies, and the server for all new requests.
"""


class ConcurrencyLimit:
    """Limits the number of concurrent requests, as a semaphore does, and adapts the limit to the server.

    ``limit`` is the number of requests that this object permits at the same time, and ``most`` is its largest value.
    ``inside`` is the number of requests that are in flight. If ``adaptive`` is False, the limit does not change. If
    several processes send requests to the endpoint, this process may be permitted less than ``limit`` (:meth:`lend`).
    The smaller of the two numbers is called the room of this process.

    The limit rises in small steps and falls by a factor. Finished requests are counted in windows. The size of a window
    is the room of this process, but at least 20 requests. The rules are:

    - As soon as the requests that found the server overloaded are more than a fifth of the window's size, the limit
      falls to 0.7 times the room of this process, even if the window is not full yet. Then a new window begins, which
      does not count requests that began before the fall.
    - If less than a tenth of a full window's requests found the server overloaded, the limit rises by a sixteenth of
      ``most``.

    Single faults change nothing, since a server that drops one request in fifty is not overloaded.
    """

    def __init__(self, most: int, adaptive: bool = True) -> None:
        self.limit = self.most = most
        self._adaptive = adaptive
        self._lent = most
        self._more: Callable[[], None] | None = None
        self.inside = self._demand = 0
        self._epoch = self._seen = self._overloaded = 0
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def enter(self, rank: int = 0) -> int:
        """Wait for a slot, which permits one concurrent request. ``rank`` orders the waiting requests: a lower number
        gets a slot first, and retries have numbers below 0. Returns a number that the caller must pass to
        :meth:`leave`.
        """
        self._demand = max(self._demand, self.inside + len(self._waiting) + 1)
        if self.inside >= self._room or self._waiting:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (rank, next(self._order), place))
            self._admit()
            if self._more is not None and self._lent <= self.inside < self.limit:
                self._more()
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled() and place.exception() is None:
                    self.inside -= 1
                    self._admit()
                raise
        else:
            self.inside += 1
        return self._epoch

    def leave(self, token: int, overloaded: bool = False) -> None:
        """Release the slot of a request that has ended; another request may then use it. ``token`` is the number that
        :meth:`enter` returned for this request. ``overloaded`` is True if the request showed that the server is
        overloaded, e.g. by the status 429.
        """
        self.inside -= 1
        if self._adaptive and token == self._epoch:
            self._seen += 1
            self._overloaded += overloaded
            self._adapt()
        self._admit()

    def lend(self, places: int, more: Callable[[], None] | None = None) -> None:
        """Set how many of the endpoint's slots this process may use, because other processes use the other slots. A
        slot permits one concurrent request. ``places`` is the number of slots that this process may use.

        ``more`` is a function that tries to get more slots for this process, or None. It is called when a request has
        to wait only because ``places`` is too small, although the endpoint's own limit would permit the request.
        """
        self._lent, self._more = places, more
        self._admit()

    def refuse(self, error: Exception) -> None:
        """Make all requests that wait for a slot (a permit for one concurrent request) fail: their calls of
        :meth:`enter` raise ``error``.
        """
        waiting, self._waiting = self._waiting, []
        for _, _, place in waiting:
            if not place.done():
                place.set_exception(error)

    def demand(self) -> int:
        """Return how many slots (permits for one concurrent request) this process has needed since the last call of
        this method.

        This is the largest number of requests that had a slot or waited for a slot at the same time. The result is at
        most the limit.
        """
        demand, self._demand = min(self._demand, self.limit), self.inside + len(self._waiting)
        return demand

    @property
    def _room(self) -> int:
        return min(self.limit, self._lent)

    def _adapt(self) -> None:
        window = max(self._room, MIN_SEEN)
        if self._overloaded > OVERLOADED_SHARE * window:
            self.limit = max(1, int(self._room * FALL))
            self._epoch += 1
        elif self._seen < window:
            return
        elif self._overloaded < OVERLOADED_SHARE / 2 * window:
            self.limit = min(self.most, self.limit + -(-self.most // RISES_TO_FULL))
        self._seen = self._overloaded = 0

    def _admit(self) -> None:
        while self._waiting and self.inside < self._room:
            _, _, place = heapq.heappop(self._waiting)
            if not place.done():
                self.inside += 1
                place.set_result(None)


class BytesInFlight:
    """Limits the total size of all request bodies in memory to ``most`` bytes. Waiting calls are served in the order of
    their arrival. A request body of more than ``most`` bytes waits until no other request body is in memory, and is
    then sent alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait until ``size_bytes`` more bytes fit into the limit. Count these bytes while the body of the ``with``
        statement runs.
        """
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, place))
        self._admit()
        try:
            await place
            yield
        finally:
            if place.done() and not place.cancelled():
                self._held -= size_bytes
            self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size_bytes, place = self._waiting[0]
            if place.cancelled():
                self._waiting.popleft()
            elif not self._held or self._held + size_bytes <= self._most:
                self._waiting.popleft()
                self._held += size_bytes
                place.set_result(None)
            else:
                return


class Rate:
    """Limits the use of units (requests or tokens) to ``per_minute``, spread evenly over the minute. 0 means no limit.
    After a pause, a caller may use without a wait as many units as the limit permits in about one second.
    """

    def __init__(self, per_minute: int) -> None:
        self.bounded = per_minute > 0
        self.free_s = float("-inf")
        """The time from which the next unit (request or token) may be used, in seconds on the caller's clock."""
        self._s_each = 60 / per_minute if per_minute else 0.0

    def wait_s(self, now_s: float) -> float:
        """Return how many seconds a caller must wait until the next unit (request or token) may be used. ``now_s`` is
        the current time in seconds. The method itself uses no unit.
        """
        return max(0.0, self.free_s - now_s) if self.bounded else 0.0

    def take(self, amount: float, now_s: float) -> None:
        """Count ``amount`` units (requests or tokens) as used at the time ``now_s`` (seconds). The method never waits:
        before a request is sent, the caller waits (:meth:`wait_s`). Each unit delays later requests by 60 /
        ``per_minute`` seconds. A negative ``amount`` shortens this delay again. It is used if a finished request used
        fewer tokens than were counted for it.
        """
        if self.bounded:
            self.free_s = max(self.free_s, now_s - BURST_S) + amount * self._s_each


class Opening:
    """Delays an endpoint's first requests, so that they start one after the other, at least ``OPENING_GAP_S`` seconds
    apart. ``most`` is the number of these first requests. Later requests are not delayed.

    Without the delay, these requests would start together and end together. Then the client would wait for all replies,
    and after that the server would wait for all new requests.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._next_s = float("-inf")

    def delay_s(self, now_s: float) -> float:
        """Return how many seconds the endpoint's next request must wait before it starts, and count this request.
        ``now_s`` is the current time in seconds. The first requests of the endpoint (their number is
        an argument of the constructor) start at least ``OPENING_GAP_S`` seconds apart. For all later requests, the
        result is 0.
        """
        if not self._left:
            return 0.0
        self._left -= 1
        begin_s = max(now_s, self._next_s)
        self._next_s = begin_s + OPENING_GAP_S
        return begin_s - now_s

    async def take(self) -> None:
        """Wait until the endpoint's next request may start. The endpoint's first requests (their number is an
        argument of the constructor) wait for the delay that :meth:`delay_s` returns. Later requests do not wait.
        """
        if self._left and (wait_s := self.delay_s(asyncio.get_running_loop().time())):
            await asyncio.sleep(wait_s)
