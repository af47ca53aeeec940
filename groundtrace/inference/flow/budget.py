"""The budget of a run: the dollars and tokens that the requests of all its worker processes may use in total."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from groundtrace.inference.errors import BudgetUsedUp, RunStopped
from groundtrace.inference.flow.shared_state import SharedState
from groundtrace.storage.places import is_remote

FIRST_GUESS_TOKENS_OUT = 256
ROUNDING_USD = 1e-9
"""Tolerance for rounding errors in sums of dollars; every call costs more."""
LOST_S = 15.0
"""A process that has not renewed its entry for so long counts as lost, and its reservations count as spent: the servers
may charge for its requests."""
RENEW_S = 5.0
FIRST_POLL_S, MAX_POLL_S = 0.02, 0.2
"""The first and the longest interval at which a waiting process reads the file again."""

T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """An amount of dollars, and of tokens (input plus output)."""

    usd: float = 0.0
    tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.usd - other.usd, self.tokens - other.tokens)


@dataclass
class Reservation:
    """The cost that one process has reserved for its ``requests`` in flight. After ``until_s`` (Unix time) the process
    counts as lost."""

    reserved: Cost = Cost()
    requests: int = 0
    until_s: float = 0.0
    is_lost: bool = False


@dataclass
class Ledger:
    """The amounts that a run has spent and reserved. ``seen`` holds, for each prompt, the number of its samples so far
    and the sum of their output tokens."""

    usd: float | None = None
    tokens: int | None = None
    spent: Cost = Cost()
    exhausted: bool = False
    processes: dict[str, Reservation] = field(default_factory=dict)
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        """Whether dollars or tokens are limited."""
        return self.usd is not None or self.tokens is not None

    def reserve(self, me: str, cost: Cost, now_s: float) -> bool | None:
        """Reserve the cost of a request of the process ``me``. Returns True if it was reserved.

        Returns None if the cost does not fit now, but may fit later: requests are in flight, and may cost less than
        expected. Returns False if it does not fit although no request is in flight; then every later reservation is
        refused too.
        """
        own = self.renewed(me, now_s)
        for each in self.processes.values():
            if not now_s < each.until_s <= now_s + 2 * LOST_S:
                self.lose(each)
        live = [each for each in self.processes.values() if not each.is_lost]
        if not self.exhausted and self.has_room_for(cost):
            own.reserved, own.requests = own.reserved + cost, own.requests + 1
            return True
        if not self.exhausted and any(each.requests for each in live):
            return None
        self.exhausted = True
        return False

    def settle(self, me: str, reserved: Cost, taken: Cost, prompt: str, samples: int, tokens_out: int) -> None:
        """Replace the reservation of an ended request of the process ``me`` by the request's real cost."""
        self.spent += taken
        if samples:
            seen, total = self.seen_of(prompt)
            self.seen[prompt] = (seen + samples, total + tokens_out)
        if not self.bounded:
            return
        own = self.processes[me]
        if own.is_lost:  # then its reservation is already counted as spent
            self.spent -= reserved
        own.requests -= 1
        own.reserved = own.reserved - reserved if own.requests else Cost()

    def renewed(self, me: str, now_s: float) -> Reservation:
        """Renew the expiry of the entry of the process ``me``, even if it counted as lost; returns the entry."""
        own = self.processes.setdefault(me, Reservation())
        if own.is_lost:
            own.is_lost, self.spent = False, self.spent - own.reserved
        own.until_s = now_s + LOST_S
        return own

    def lose(self, lost: Reservation) -> None:
        """Count the reservation of a lost process as spent."""
        if not lost.is_lost:
            lost.is_lost, self.spent = True, self.spent + lost.reserved

    def seen_of(self, prompt: str) -> tuple[int, int]:
        """Return the number of samples of this prompt so far, and their output tokens; before the first sample it
        returns a guess.
        """
        return self.seen.get(prompt, (1, FIRST_GUESS_TOKENS_OUT))

    def has_room_for(self, cost: Cost) -> bool:
        """Whether the cost fits in addition to what is spent and reserved."""
        live = (each.reserved for each in self.processes.values() if not each.is_lost)
        taken = sum(live, self.spent) + cost
        affordable = self.usd is None or taken.usd <= self.usd + ROUNDING_USD
        return affordable and (self.tokens is None or taken.tokens <= self.tokens)

    def as_text(self) -> str:
        """Return the amounts spent and their limits as text, for messages."""
        parts = [] if self.usd is None else [f"${self.spent.usd:.4f} of ${self.usd:g}"]
        return ", ".join(parts + ([] if self.tokens is None else [f"{self.spent.tokens} of {self.tokens} tokens"]))


class Budget:
    """Lets requests through while the amounts spent and reserved stay within the limit.

    A request that does not fit is not refused at once: it waits until the cost of the requests in flight is known, so
    that the whole budget can be used. The cost of a request is estimated from earlier requests. The overshoot is at
    most the amount by which the last requests in flight were underestimated. After one refusal all later requests are
    refused too, so that a run stops cleanly.

    ``path`` is a file that :func:`share_budget` has created: all processes that use this file share one budget.
    """

    def __init__(self, usd: float | None, tokens: int | None, path: Path | None = None) -> None:
        self._ledger = Ledger(usd, tokens)
        self._path = path if self._ledger.bounded else None
        self._state: SharedState[Ledger] | None = None
        self._me = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._settled = asyncio.Event()
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def spent(self) -> Cost:
        """The amounts that all processes had spent when this process last read the file."""
        return self._ledger.spent

    @property
    def exhausted(self) -> bool:
        """Whether any process had refused a request when this process last read the file."""
        return self._ledger.exhausted

    def expected_tokens_out(self, prompt: str, n: int, max_tokens: int) -> int:
        """Return the expected output tokens of ``n`` samples of this prompt, from its earlier samples."""
        samples, tokens_out = self._ledger.seen_of(prompt)
        return n * min(max_tokens, -(-tokens_out // samples))

    async def reserve(self, cost: Cost) -> None:
        """Wait until the cost fits into the budget; earlier calls of this method are served first. Raises BudgetUsedUp
        if it does not fit even with no other request in flight, and RunStopped if the budget's file is not visible.
        """
        if not self._ledger.bounded:
            return
        async with self._turn:
            wait_s = FIRST_POLL_S
            await self._make_room(cost)
            while not self.exhausted and (fits := self._reserved(cost)) is not True:
                if fits is None:
                    await self._wait(wait_s)
                    wait_s = min(MAX_POLL_S, 2 * wait_s)
        if self.exhausted:
            raise BudgetUsedUp(f"the budget is used up: {self._as_text()}")
        self._renew_later()

    def reserve_at_once(self, cost: Cost) -> bool:
        """Reserve the cost if it fits without waiting; returns whether it was reserved."""
        return not self._ledger.bounded or self._reserved(cost) is True

    def settle(self, reserved: Cost, taken: Cost, prompt: str = "", samples: int = 0, tokens_out: int = 0) -> None:
        """Replace the reservation of an ended request by the request's real cost."""
        self._change(lambda ledger: ledger.settle(self._me, reserved, taken, prompt, samples, tokens_out))
        self._settled.set()

    def close(self) -> None:
        """Close the file. Reservations of requests still in flight will count as spent."""
        if self._timer is not None:
            self._timer.cancel()
        if self._state is not None:
            self._state.close()
        self._state = self._timer = self._path = None

    async def _make_room(self, cost: Cost) -> None:
        """Do nothing: this budget already has the limit of the whole run. A subclass takes more of the budget."""

    def _as_text(self) -> str:
        return self._ledger.as_text()

    def _reserved(self, cost: Cost) -> bool | None:
        return self._change(lambda ledger: ledger.reserve(self._me, cost, time.time()))

    async def _wait(self, wait_s: float) -> None:
        """Wait until a request of this process has ended; with a shared file, for ``wait_s`` at most."""
        self._settled.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s if self._path is not None else None):
                await self._settled.wait()

    def _renew_later(self) -> None:
        if self._path is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RENEW_S, self._renew)

    def _renew(self) -> None:
        """Renew this process's entry, as long as it has requests in flight."""
        self._timer = None
        if self._change(lambda ledger: ledger.renewed(self._me, time.time()).requests):
            self._renew_later()

    def _change(self, work: Callable[[Ledger], T]) -> T:
        """Return the result of ``work`` on the ledger. If the ledger is in a shared file, keeps a copy of it."""
        if self._path is None:
            return work(self._ledger)
        if self._state is None:
            self._state = _opened(self._path)

        def noted(ledger: Ledger) -> T:
            result = work(ledger)
            self._ledger = ledger
            return result

        return self._state.change(noted)


def budget_path(notes: str) -> Path | None:
    """Return the file in which the processes of a run share its budget; ``notes`` is the folder of the run's notes.

    Returns None outside of a run, or if the notes are in a store.
    """
    return Path(notes) / "budget.json" if notes and not is_remote(notes) else None


def share_budget(path: Path, usd: float | None, tokens: int | None) -> None:
    """Create the file in which several processes share one budget, if it does not exist."""

    def begin(ledger: Ledger) -> None:
        ledger.usd, ledger.tokens = usd, tokens

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        SharedState(path, Ledger, begin).close()


def _opened(path: Path) -> SharedState[Ledger]:
    """Open the file that the run's driver has created. Raises RunStopped if this worker cannot find it."""
    remedy = "give all workers access to the run folder under the same path, or remove the budget"
    if not path.exists():
        raise RunStopped(f"a worker cannot find {path}, which holds the run's budget: {remedy}")
    try:
        return SharedState(path, Ledger, _lose_all)
    except (OSError, ValueError) as error:
        raise RunStopped(f"a worker cannot use {path}, which holds the run's budget ({error}): {remedy}") from error


def _lose_all(ledger: Ledger) -> None:
    for each in ledger.processes.values():
        ledger.lose(each)
