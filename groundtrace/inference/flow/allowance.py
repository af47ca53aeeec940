"""What the requests of one call may take of the run's budget: each of them, and each try, is reserved by itself.

A call may send many: samples asked for in parts, tries again of replies that are paid and of no use, a second copy
beside one that is silent. Reserved as one, a call of 1,000 tokens could take nine times as many.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from groundtrace.inference.flow.budget import Budget, Cost
from groundtrace.schemas.usage import NOTHING, Usage


class Allowance:
    """A call's part of the budget, one request at a time, each of which is expected to cost ``expected``.

    All methods run on one event loop. ``cost_of`` is what a usage costs.
    """

    def __init__(self, budget: Budget, expected: Cost, cost_of: Callable[[Usage], Cost]) -> None:
        self._budget, self._expected, self._cost_of = budget, expected, cost_of
        self._told = self._settled = NOTHING
        self._unknown = Cost()
        self._is_reserved = self._has_tried = False

    async def begin(self) -> None:
        """Before the first request: wait until it fits. Raises BudgetUsedUp."""
        await self._budget.reserve(self._expected)
        self._is_reserved = True

    async def next_try(self) -> None:
        """Before each try: from the second on, what was told of those before is spent, and this one waits until it
        fits. Raises BudgetUsedUp."""
        if self._has_tried:
            self._settle(self._told)
            await self.begin()
        self._has_tried = True

    def took(self, usage: Usage) -> None:
        """A try has ended, and took this."""
        self._told += usage

    def hedged(self) -> bool:
        """Whether a second copy of the request under way fits, beside all that is; it is to end with
        :meth:`hedge_ended`."""
        return self._budget.reserve_at_once(self._expected)

    def hedge_ended(self) -> None:
        """What the second copy took is counted with the first, or given up."""
        self._budget.settle(self._expected, Cost())

    def gave_up(self, requests: int = 1) -> None:
        """So many requests were sent, and their replies are not waited for: the server may make them all the same, so
        what was expected of them counts as spent."""
        for _ in range(requests):
            self._unknown += self._expected

    def end(self, taken: Usage, prompt: str, samples: int) -> None:
        """After the last request: ``taken`` is what all of them took, for so many samples of the prompt."""
        self._settle(taken, prompt, samples, taken.tokens_out)

    def _settle(self, taken: Usage, prompt: str = "", samples: int = 0, tokens_out: int = 0) -> None:
        """All that the call has ``taken`` so far stands in place of what was reserved, if anything still is."""
        if self._is_reserved:
            cost = self._cost_of(taken) - self._cost_of(self._settled) + self._unknown
            self._budget.settle(self._expected, cost, prompt, samples, tokens_out)
            self._settled, self._unknown, self._is_reserved = taken, Cost(), False


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def allowance_of_call() -> Allowance | None:
    """The allowance of the call whose request this task sends; None outside of a call."""
    return _allowance.get()


@contextlib.contextmanager
def allowed_by(allowance: Allowance) -> Iterator[None]:
    """Requests that this task, and the tasks that it starts, send in the body are those of the allowance."""
    token = _allowance.set(allowance)
    try:
        yield
    finally:
        _allowance.reset(token)
