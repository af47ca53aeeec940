"""Reserves a part of the run's budget for each request of a call, before the request is sent. Each attempt of a request
has a separate reservation.

A call may send many requests. It may request its samples in parts, repeat a request after an unusable reply that cost
money, or send a second copy of a request that gets no reply. With a single reservation for all requests, a call could
use much more than it reserved (in one case nine times as many tokens).
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from groundtrace.inference.coordination.budget import Budget
from groundtrace.inference.coordination.spending import Cost
from groundtrace.schemas.usage import NOTHING, Usage


class Allowance:
    """Reserves the budget for one request of a call, and counts what the request has used. ``budget`` is the run's
    budget, and ``expected`` is the expected cost of one attempt of the request.

    A call of a model may send several requests concurrently. Each request then has its own allowance (:meth:`another`).
    The allowance of the call's first request also counts the usage of the whole call. The argument ``call`` is the
    allowance of this first request; it is None for the first request itself. ``cost_of`` is a function that returns the
    cost of a usage (requests and tokens). All methods run on one event loop.
    """

    def __init__(
        self, budget: Budget, expected: Cost, cost_of: Callable[[Usage], Cost], call: "Allowance | None" = None
    ) -> None:
        self._budget, self._expected, self._cost_of = budget, expected, cost_of
        self._call = self if call is None else call
        self._settled = NOTHING
        """The usage (requests and tokens) that is already counted as spent, summed over all requests of the call. Only
        the :class:`Allowance` of the call's first request holds this sum; in those of the other requests it stays zero.
        """
        self._reported = NOTHING
        self._unknown = Cost()
        self._is_reserved = self._has_tried = False

    async def begin(self) -> None:
        """Wait until the expected cost of this allowance's request fits into the run's budget, and reserve it. Raises
        BudgetUsedUp if the cost does not fit although no other request is in progress.
        """
        await self._budget.reserve(self._expected)
        self._is_reserved = True

    def another(self) -> "Allowance":
        """Return the allowance (a part of the run's budget) for one more request of the same model call. A model call
        may send several requests at the same time. Nothing is reserved yet.
        """
        return Allowance(self._budget, self._expected, self._cost_of, self._call)

    async def next_try(self) -> None:
        """Reserve the cost of the next attempt of the request. Call this method before each attempt.

        At the first call the method reserves nothing, since :meth:`begin` has already reserved the cost of the first
        attempt. At later calls it counts the usage given to :meth:`took` as spent. Then it waits until the expected
        cost of the next attempt fits into the budget, and reserves this cost. Raises BudgetUsedUp if the cost does not
        fit although no other request is in progress.
        """
        if self._has_tried:
            self._settle(self._reported)
            await self.begin()
        self._has_tried = True

    def took(self, usage: Usage) -> None:
        """Record ``usage``, the requests and tokens that an attempt of the request used. Call this method when the
        attempt has ended.
        """
        self._reported += usage

    def hedged(self) -> bool:
        """Reserve the cost of a second copy of the request, if it fits into the budget now. A second copy (a hedge) is
        sent if the first one gets no reply for a long time. The reservation lasts until :meth:`hedge_ended`. Returns
        whether the cost was reserved; if not, the copy must not be sent.
        """
        return self._budget.reserve_at_once(self._expected)

    def hedge_ended(self) -> None:
        """Release the reservation of the second copy of the request (the hedge), because the copy has ended.

        This method adds no cost. If the second copy got a reply, the caller passes the copy's usage to :meth:`took`. If
        the second copy was abandoned, the caller calls :meth:`gave_up`, which adds the copy's expected cost.
        """
        self._budget.settle(self._expected, Cost())

    def gave_up(self, requests: int = 1) -> None:
        """Count the expected cost of ``requests`` requests as spent, although they got no reply. The client does not
        wait for these requests any more, but the server may still complete and charge them.
        """
        for _ in range(requests):
            self._unknown += self._expected

    def end_request(self) -> None:
        """Release the budget that is reserved for the request, and count the request's real cost as spent.

        Call this method when the request has ended, even if other requests of the same call are in progress. These
        requests may wait for the budget that is released.
        """
        self._settle(self._reported)

    def end(self, taken: Usage, prompt: str, samples: int) -> None:
        """Record that the call, with all its requests, has ended. ``taken`` is the usage of these requests. ``prompt``
        is the prompt's name, and ``samples`` is the number of samples (replies) that the call got. The length of
        later replies is estimated from these numbers.
        """
        self._settle(taken.beyond(self._settled))
        self._budget.saw(prompt, samples, taken.tokens_out)

    def _settle(self, taken: Usage) -> None:
        """Replace the reserved cost of the latest attempt, if one is reserved, by the attempt's real cost.

        The reserved cost is the part of the run's budget that was set aside before the attempt. The real cost is the
        sum of two costs: the cost of ``taken``, which is the usage (requests and tokens) since the reservation, and the
        expected cost of the abandoned requests (:meth:`gave_up`).
        """
        if self._is_reserved:
            self._budget.settle(self._expected, self._cost_of(taken) + self._unknown)
            self._call._settled += taken
            self._reported, self._unknown, self._is_reserved = NOTHING, Cost(), False


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def allowance_of_call() -> Allowance | None:
    """Return the allowance (the reserved part of the run's budget) of the call for which the current asyncio task sends
    requests. Returns None if the task sends its requests outside of a call, or if no budget applies.
    """
    return _allowance.get()


@contextlib.contextmanager
def allowed_by(allowance: Allowance) -> Iterator[None]:
    """Reserve a part of the run's budget for each request that the body of the ``with`` statement sends.

    ``allowance`` is the object that makes the reservations. It makes them for the requests of the current asyncio task,
    and of the tasks that this task starts.
    """
    token = _allowance.set(allowance)
    try:
        yield
    finally:
        _allowance.reset(token)
