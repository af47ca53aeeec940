"""The budget of a run whose workers see no common disk: they take slices of it from the folder of its notes in a store.

A slice is an object that only one can create. Slices get smaller, each being a part of what was left before it, so that
the last ones leave little with workers that do not need it. No clock and no process has to be asked; what a lost worker
had taken counts as spent.
"""

import asyncio
import os
from typing import Final

from groundtrace.inference.errors import RunStopped
from groundtrace.inference.flow.budget import Budget, Cost, budget_path
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.remote_path import RemotePath
from groundtrace.schemas.storage import StoreUnavailable, place

SHARE: Final = 1 / 32
"""A slice's part of what the slices before it have left."""
MAX_SLICES: Final = 200
"""Together they are all but 0.2 % of the budget."""


def budget_of(settings: ModelsSettings) -> Budget:
    """The budget that a worker with these settings keeps."""
    folder = place(settings.notes, settings.storage)
    if isinstance(folder, RemotePath):
        return SlicedBudget(settings.budget_usd, settings.budget_tokens, folder / "budget")
    return Budget(settings.budget_usd, settings.budget_tokens, budget_path(settings.notes))


def slice_of(whole: Cost, number: int) -> Cost:
    """The slice of that number, from 0 on."""
    share = SHARE * (1 - SHARE) ** number
    return Cost(whole.usd * share, int(whole.tokens * share))


class SlicedBudget(Budget):
    """Lets requests through as :class:`Budget` does, within the slices that this process has taken.

    It takes one when a request does not fit into those that it has. ``folder`` is the run's.
    """

    def __init__(self, usd: float | None, tokens: int | None, folder: RemotePath) -> None:
        super().__init__(None if usd is None else 0.0, None if tokens is None else 0)
        self._whole, self._folder = Cost(usd or 0.0, tokens or 0), folder
        self._limits = usd, tokens
        self._next = 0

    async def _make_room(self, cost: Cost) -> None:
        """Take slices until the cost fits. Raises RunStopped where the store is away."""
        ledger = self._ledger
        while not self.exhausted and not ledger.has_room_for(cost):
            taken = await asyncio.to_thread(self._take)
            if taken is None:
                return
            ledger.usd = None if ledger.usd is None else ledger.usd + taken.usd
            ledger.tokens = None if ledger.tokens is None else ledger.tokens + taken.tokens

    def _take(self) -> Cost | None:
        """Create the first slice that nobody has; None where all are taken."""
        try:
            while self._next < MAX_SLICES:
                number, self._next = self._next, self._next + 1
                if (self._folder / f"slice-{number:03d}").create(os.urandom(16)):
                    return slice_of(self._whole, number)
                self._next = max(self._next, len(self._folder.listed()))  # they are taken in their order
        except StoreUnavailable as error:
            raise RunStopped(f"the run's budget cannot be seen: {error}", resumable=True) from error
        return None

    def _said(self) -> str:
        usd, tokens = self._limits
        whole = [*([] if usd is None else [f"${usd:g}"]), *([] if tokens is None else [f"{tokens} tokens"])]
        return f"{self._ledger.said()}, this worker's part of {' and '.join(whole)}"
