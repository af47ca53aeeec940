"""Limits the dollars and tokens that a run spends on model requests. All worker processes of the run share one
budget.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from groundtrace.inference.coordination.peers import Peers
from groundtrace.inference.coordination.spending import Cost, NotedSpending
from groundtrace.inference.errors import BudgetUsedUp, RunStopped
from groundtrace.storage.places import STANDARD, StorageSettings, is_remote

FIRST_GUESS_TOKENS_OUT = 256
ROUNDING_USD = 1e-9
"""The tolerance, in dollars, for rounding errors in sums of costs. It is too small to permit one more call, since every
call costs more than this.
"""
FIRST_POLL_S, MAX_POLL_S = 0.02, 0.2
"""The first and the longest interval, in seconds, at which a waiting process reads the shared file again. Only a
process that shares the budget with other processes does this.
"""


class Budget:
    """Limits what a run spends on model requests. A request may be sent only if the amounts spent and reserved stay
    within ``usd`` (dollars) and ``tokens`` (input plus output). None means no limit.

    The cost of a request is estimated from earlier requests, and this amount is reserved. If the amount does not fit
    into the budget while other requests are in progress, the new request waits for their real costs. These may be lower
    than reserved, so the whole budget can be used. If the last requests in progress cost more than estimated, the run
    exceeds its budget by at most this difference. If a request does not fit and no request is in progress, it is
    refused. Then all later requests are refused as well, so that a run stops cleanly.

    ``run`` is the folder of the run's notes, a path or a URL. The notes are files in which each process records what it
    spends. ``peers`` connects this process with the other processes on this machine. All processes on this machine with
    the same ``run`` share one budget. The first of these processes reads from the notes what all earlier processes have
    spent, including killed processes. ``storage`` holds the settings of the object storage.

    ``workers`` is the number of machines of the run. There are two limits:

    - Each machine may spend an equal part of the budget.
    - All machines together may spend at most the whole budget. Each machine reads from the notes what the other
      machines have spent (:meth:`read_notes`).

    The second limit is needed if a lost machine is replaced. The new machine may spend an equal part again. But the
    amount that the lost machine has spent still counts towards the whole budget.
    """

    def __init__(
        self,
        usd: float | None,
        tokens: int | None,
        run: str = "",
        peers: Peers | None = None,
        workers: int = 1,
        storage: StorageSettings = STANDARD,
    ) -> None:
        self._usd, self._tokens, self._run, self._workers = usd, tokens, run, workers
        self._peers = Peers(None) if peers is None else peers
        self._noted = NotedSpending(run, storage) if run else None
        self._elsewhere = Cost()
        self.spent = Cost()
        """The amounts that all processes had spent when this process last read them."""
        self.exhausted = False
        """Whether a process has refused a request because its cost did not fit into the budget.

        All later requests are then refused, too. A refusal by another process is known only after this process has read
        the shared state again.
        """
        self._reserved, self._requests = Cost(), 0
        self._others, self._others_requests = Cost(), 0
        self._seen: dict[str, tuple[int, int]] = {}
        self._is_read = False
        self._settled = asyncio.Event()
        self._turn = asyncio.Lock()
        if self._bounded and run:
            self._peers.add(self)

    @property
    def is_divided(self) -> bool:
        """Return whether the budget is limited and several machines divide it."""
        return self._bounded and bool(self._run) and self._workers > 1

    @property
    def _bounded(self) -> bool:
        return self._usd is not None or self._tokens is not None

    def expected_tokens_out(self, prompt: str, n: int, max_tokens: int) -> int:
        """Return an estimate of how many output tokens ``n`` samples (replies) will have. ``prompt`` is the prompt's
        name. ``max_tokens`` is the largest number of tokens of one sample.

        The estimate is ``n`` times the mean length of this prompt's earlier samples in this process. The mean includes
        one imaginary sample of :data:`FIRST_GUESS_TOKENS_OUT` tokens, so it exists before the first real sample. A mean
        above ``max_tokens`` is replaced by ``max_tokens``.
        """
        samples, tokens_out = self._seen.get(prompt, (1, FIRST_GUESS_TOKENS_OUT))
        return n * min(max_tokens, -(-tokens_out // samples))

    async def reserve(self, cost: Cost) -> None:
        """Wait until ``cost``, the expected cost of a request, fits into the budget, and reserve it. Waiting calls are
        served in the order of their arrival.

        Raises BudgetUsedUp if the cost does not fit although no other request is in progress. Raises RunStopped if this
        process cannot read the run's notes (files with the costs of its requests), or cannot use the file that it
        shares with the other processes of this machine.
        """
        if not self._bounded:
            return
        async with self._turn:
            wait_s = FIRST_POLL_S
            while not self.exhausted and (fits := self._fits_now(cost)) is not True:
                if fits is None:
                    await self._wait(wait_s)
                    wait_s = min(MAX_POLL_S, 2 * wait_s)
        if self.exhausted:
            raise BudgetUsedUp(f"the budget is used up: {self._as_text()}")

    def reserve_at_once(self, cost: Cost) -> bool:
        """Reserve ``cost``, the expected cost of a request, if it fits into the budget now. Returns True if it was
        reserved. This method does not wait.
        """
        return not self._bounded or self._fits_now(cost) is True

    def saw(self, prompt: str, samples: int, tokens_out: int) -> None:
        """Record how long new samples (replies) were, to improve the estimates of :meth:`expected_tokens_out`.
        ``prompt`` is the prompt's name, ``samples`` the number of samples, and ``tokens_out`` the sum of their output
        tokens.
        """
        if samples:
            seen, total = self._seen.get(prompt, (1, FIRST_GUESS_TOKENS_OUT))
            self._seen[prompt] = (seen + samples, total + tokens_out)

    def settle(self, reserved: Cost, taken: Cost) -> None:
        """Record that a request has ended: replace its reservation by its real cost. ``reserved`` is the cost that was
        reserved for the request, and ``taken`` is its real cost.
        """
        with self._peers.lock, self._shared() as db:
            self.spent += taken
            if self._bounded:
                self._requests -= 1
                self._reserved = self._reserved - reserved if self._requests else Cost()
            if db is not None:
                self._write(db)
        self._settled.set()

    def read_notes(self) -> None:
        """Read from the run's notes what other machines have spent. The notes are files in which each process records
        its spending. Before this process has sent its first request, nothing is read. Raises OSError if the notes
        cannot be read. Any thread may call this method.
        """
        if self._noted is not None and self._is_read:
            spent = self._noted.by_process()
            with self._peers.lock, self._peers.transaction() as db:
                self._elsewhere = self._sorted(db, spent)[1]

    def _fits_now(self, cost: Cost) -> bool | None:
        """Reserve the cost if it fits into the budget now. Returns True if the cost was reserved.

        Returns None if the caller must try again later. This is the case if this process is not allowed to send
        requests yet. It is also the case if the cost does not fit while requests are in progress, since these can cost
        less than expected. Returns False if the cost does not fit although no request is in progress. Then every later
        reservation is refused too.
        """
        if not self._peers.join():
            return None
        with self._peers.lock, self._shared() as db:
            if self.exhausted:
                return False
            if self._has_room_for(cost):
                self._reserved, self._requests = self._reserved + cost, self._requests + 1
            elif self._requests or self._others_requests:
                return None
            else:
                self.exhausted = True
            if db is not None:
                self._write(db)
            return not self.exhausted

    def _has_room_for(self, cost: Cost) -> bool:
        here = self.spent + self._reserved + self._others + cost
        return self._fits(here, self._workers) and self._fits(here + self._elsewhere, 1)

    def _fits(self, taken: Cost, workers: int) -> bool:
        affordable = self._usd is None or taken.usd <= self._usd / workers + ROUNDING_USD
        return affordable and (self._tokens is None or taken.tokens <= self._tokens // workers)

    def _as_text(self) -> str:
        spent = self.spent + self._elsewhere
        parts = [] if self._usd is None else [f"${spent.usd:.4f} of ${self._usd:g}"]
        parts += [] if self._tokens is None else [f"{spent.tokens} of {self._tokens} tokens"]
        return ", ".join(parts) + (f", by {self._workers} workers in equal parts" if self._workers > 1 else "")

    async def _wait(self, wait_s: float) -> None:
        """Wait until a request of this process has ended. If other processes on this machine (peers) share the budget,
        wait at most ``wait_s`` seconds, since the end of their requests is not reported to this process."""
        self._settled.clear()
        is_alone = self._peers.join() and not self._peers.has_peers
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if is_alone else wait_s):
                await self._settled.wait()

    # The state that peers share

    @contextlib.contextmanager
    def _shared(self) -> Iterator[sqlite3.Connection | None]:
        """Open a transaction on the file that the processes of this machine share, read from this file the amounts
        spent and reserved, and yield the open file.

        Yields None, and reads nothing, if this process shares the file with no other process (peer), if the budget is
        unlimited, or if the budget belongs to no run.
        """
        if not (self._bounded and self._run and self._peers.has_peers):
            yield None
            return
        with self._peers.transaction() as db:
            self._read(db)
            yield db

    def _read(self, db: sqlite3.Connection) -> None:
        row = db.execute("SELECT usd, tokens, is_exhausted FROM budgets WHERE run = ?", (self._run,)).fetchone()
        usd, tokens, is_exhausted = row or (0.0, 0, 0)
        self.spent, self.exhausted = Cost(usd, tokens), bool(is_exhausted)
        others = "SELECT total(usd), total(tokens), total(requests) FROM reservations WHERE run = ? AND process != ?"
        usd, tokens, requests = db.execute(others, (self._run, self._peers.me)).fetchone()
        self._others, self._others_requests = Cost(usd if requests else 0.0, int(tokens)), int(requests)

    def _write(self, db: sqlite3.Connection) -> None:
        spent = self._run, self.spent.usd, self.spent.tokens, self.exhausted
        db.execute("INSERT OR REPLACE INTO budgets VALUES (?, ?, ?, ?)", spent)
        own = self._run, self._peers.me, self._reserved.usd, self._reserved.tokens, self._requests
        db.execute("INSERT OR REPLACE INTO reservations VALUES (?, ?, ?, ?, ?)", own)

    def _read_first(self, db: sqlite3.Connection) -> None:
        """Read how much the run had spent before this process began, from the shared file and the run's notes.

        Raises RunStopped if this process cannot read the run's folder.
        """
        self._is_read = True
        self._read(db)
        is_known = db.execute("SELECT 1 FROM reservations WHERE run = ? LIMIT 1", (self._run,)).fetchone()
        db.execute("INSERT OR IGNORE INTO spenders VALUES (?, ?)", (self._run, self._peers.me))
        noted, self._elsewhere = self._sorted(db, self._by_process())
        if not is_known:  # else the file is right: the notes hold requests that have not been settled yet
            self.spent = Cost(max(noted.usd, self.spent.usd), max(noted.tokens, self.spent.tokens))

    def _by_process(self) -> dict[str, Cost]:
        if self._noted is None:
            return {}
        if not is_remote(self._run) and not Path(self._run).is_dir():
            raise RunStopped(
                f"a worker cannot find the folder {self._run} with the records of the run's cost: give all workers "
                "access to the run folder under the same path, or leave out --budget-usd and --budget-tokens"
            )
        try:
            return self._noted.by_process()
        except OSError as error:
            raise RunStopped(
                f"the records of the run's cost in {self._run} cannot be read ({error}): make them readable, then "
                "repeat the command",
                resumable=True,
            ) from error

    def _sorted(self, db: sqlite3.Connection, spent: dict[str, Cost]) -> tuple[Cost, Cost]:
        """Return two sums of the costs in ``spent``, which holds the cost of each process by name. The first sum is for
        the processes on this machine, and the second sum is for all other processes. The processes on this machine are
        listed in ``db``, the file that they share.
        """
        here = {name for (name,) in db.execute("SELECT process FROM spenders WHERE run = ?", (self._run,))}
        noted_here = sum((cost for name, cost in spent.items() if name in here), Cost())
        return noted_here, sum((cost for name, cost in spent.items() if name not in here), Cost())

    def publish(self, db: sqlite3.Connection) -> None:
        """Write the spent and reserved amounts of this process into the file that the processes of this machine share.
        The caller is :class:`groundtrace.inference.coordination.peers.Peers`, and ``db`` is the open file.
        """
        if self._is_read:
            known, was_exhausted = self.spent, self.exhausted
            self._read(db)  # peers may have spent more while they treated this process as lost
            self.spent = Cost(max(known.usd, self.spent.usd), max(known.tokens, self.spent.tokens))
            self.exhausted |= was_exhausted
        else:
            self._read_first(db)
        self._write(db)

    def withdraw(self, db: sqlite3.Connection) -> None:
        """Read the state of the budget from the shared file into memory, when no other process uses the file any more.

        The state is the amounts that all processes have spent. ``db`` is the open file. The caller is
        :class:`groundtrace.inference.coordination.peers.Peers`.

        A reservation is the expected cost of the requests that a process has in progress. This process's reservation is
        already in memory, but the file still has a copy of this reservation. When a reservation is deleted from the
        file, a trigger of the database adds the reserved cost to the spent amounts. The trigger ignores a reservation
        for 0 requests. So this method sets the number of requests of the copy to 0.
        """
        if self._is_read:
            self._read(db)
        else:
            self._read_first(db)
        self._others, self._others_requests = Cost(), 0
        db.execute("UPDATE reservations SET requests = 0 WHERE run = ? AND process = ?", (self._run, self._peers.me))

    def changed(self) -> None:
        """Do nothing. :class:`groundtrace.inference.coordination.peers.Peers` calls this method after the state of the
        budget has moved between memory and the shared file. No update is necessary, since a request that waits for the
        budget soon reads the new state.
        """
