"""Collects the samples of a request that is sent in several parts at the same time."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from groundtrace.inference.errors import BudgetUsedUp, CallError
from groundtrace.inference.request import Reply, Request, joined

Send = Callable[[Request, int], Awaitable[Reply]]
"""A function that makes one attempt: it returns 1 to ``n`` samples for the request. If the attempt fails, it raises
CallError with the usage in ``partial``."""


class NotNeeded(Exception):
    """Raised instead of sending a part of a request, since another part has failed."""


class Arrivals:
    """Holds the replies to the parts of a request.

    The samples are numbered in the order in which they arrive: the first one is the sample of the request's first
    index. So those that have arrived are the samples of the first indices at any time, even if a part fails. ``send``
    makes one attempt.
    """

    def __init__(self, request: Request, send: Send) -> None:
        self.request, self.send = request, send
        self._count = 0
        self._replies: dict[int, Reply] = {}
        self._errors: list[CallError | BudgetUsedUp] = []

    @property
    def has_failed(self) -> bool:
        """Return whether a part has failed. Parts that are not sent yet are then not sent (:class:`NotNeeded`)."""
        return bool(self._errors)

    def number(self, samples: int) -> int:
        """Give the next numbers to ``samples`` samples that have arrived. Returns the first of the numbers."""
        first, self._count = self._count, self._count + samples
        return first

    def add(self, place: "Place", reply: Reply) -> None:
        """Add the reply to a part, with the usage of all its attempts."""
        self._replies[place.first] = reply

    def failed(self, error: CallError | BudgetUsedUp) -> None:
        """Record that a part has failed with the error."""
        self._errors.append(error)

    def reply(self) -> Reply:
        """Return all samples, after all parts have ended.

        If a part failed, raises the error that occurred first. Its ``partial`` holds the whole usage, and the samples
        of the first indices up to a missing one.
        """
        found = sorted(self._replies.items())
        if not self._errors:
            return joined([reply for _, reply in found])
        kept, end = list[Reply](), 0
        for first, reply in found:
            is_next = first == end
            kept.append(reply if is_next else replace(reply, completions=()))
            end += len(reply.completions) if is_next else 0
        self._errors[0].partial = joined([*kept, *(error.partial for error in self._errors)])
        raise self._errors[0]


class Place:
    """Sends the attempts of one part, and holds the number of its first sample, which is known when it arrives."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._is_sent = False
        self._size: int | None = None
        self.first = -1
        """The number of the part's first sample. -1 before the sample has arrived."""

    async def send(self, request: Request, n: int) -> Reply:
        """Make one attempt, and await the request's ``arrived`` with the reply, while the request holds its slot. So a
        killed process loses at most one reply per slot.

        A second copy of the same request (a hedge) gets the same numbers, and at most as many samples. Raises
        :class:`NotNeeded` before the first attempt if another part has failed.
        """
        if self._arrivals.has_failed and not self._is_sent:
            raise NotNeeded
        self._is_sent = True
        reply = await self._arrivals.send(request, n)
        if self._size is None:
            self._size = len(reply.completions)
            self.first = self._arrivals.number(self._size)
        reply = replace(reply, completions=reply.completions[: self._size])
        if request.arrived is not None:
            await request.arrived(self.first, reply)
        return reply
