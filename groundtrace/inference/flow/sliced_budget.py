"""The budget of a run whose workers have no shared disk. They take slices of it from the notes folder in a store.

A slice is an object that only one worker can create. Each slice is a fixed share of the budget that the slices before
it have left. So slices get smaller, and only a small unused part stays with the workers in the end. This needs no clock
and no coordinator. The slices of a lost worker count as spent.
"""

import asyncio
import os
from typing import Final

from groundtrace.inference.errors import RunStopped
from groundtrace.inference.flow.budget import Budget, Cost, budget_path
from groundtrace.inference.settings import ModelsSettings
from groundtrace.storage.places import StoreUnavailable, place
from groundtrace.storage.remote_path import RemotePath

SHARE: Final = 1 / 32
"""The share of a slice in the budget that the slices before it have left."""
MAX_SLICES: Final = 200
"""The number of slices. Together they are the budget except for 0.2 % of it."""


def budget_of(settings: ModelsSettings) -> Budget:
    """Return a worker's budget for these settings: in slices if the notes are in a store, else in a shared file."""
    folder = place(settings.notes, settings.storage)
    if isinstance(folder, RemotePath):
        return SlicedBudget(settings.budget_usd, settings.budget_tokens, folder / "budget")
    return Budget(settings.budget_usd, settings.budget_tokens, budget_path(settings.notes))


def slice_of(whole: Cost, number: int) -> Cost:
    """Return the size of slice ``number`` (from 0)."""
    share = SHARE * (1 - SHARE) ** number
    return Cost(whole.usd * share, int(whole.tokens * share))


class SlicedBudget(Budget):
    """Lets requests through like :class:`Budget`, within the slices that this process has taken.

    It takes another slice if a request does not fit into the slices taken so far. ``folder`` is the run's folder for
    slices.
    """

    def __init__(self, usd: float | None, tokens: int | None, folder: RemotePath) -> None:
        super().__init__(None if usd is None else 0.0, None if tokens is None else 0)
        self._whole, self._folder = Cost(usd or 0.0, tokens or 0), folder
        self._limits = usd, tokens
        self._next = 0

    async def _make_room(self, cost: Cost) -> None:
        """Take slices until the cost fits or no slice is left. Raises RunStopped if the store is unavailable."""
        ledger = self._ledger
        while not self.exhausted and not ledger.has_room_for(cost):
            taken = await asyncio.to_thread(self._take)
            if taken is None:
                return
            ledger.usd = None if ledger.usd is None else ledger.usd + taken.usd
            ledger.tokens = None if ledger.tokens is None else ledger.tokens + taken.tokens

    def _take(self) -> Cost | None:
        """Create the first free slice, and return its size; None if all are taken."""
        try:
            while self._next < MAX_SLICES:
                number, self._next = self._next, self._next + 1
                if (self._folder / f"slice-{number:03d}").create(os.urandom(16)):
                    return slice_of(self._whole, number)
                self._next = max(self._next, len(self._folder.listed()))  # slices are taken in order
        except StoreUnavailable as error:
            raise RunStopped(f"the run's budget cannot be read: {error}", resumable=True) from error
        return None

    def _as_text(self) -> str:
        usd, tokens = self._limits
        whole = [*([] if usd is None else [f"${usd:g}"]), *([] if tokens is None else [f"{tokens} tokens"])]
        return f"{self._ledger.as_text()}, this worker's part of {' and '.join(whole)}"
