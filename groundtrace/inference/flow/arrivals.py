"""Collects the samples (generated texts) of a request that is sent in several parts at the same time."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from groundtrace.inference.errors import BudgetUsedUp, CallError
from groundtrace.inference.request import Reply, Request, joined

Send = Callable[[Request, int], Awaitable[Reply]]
"""A function that makes one attempt: it sends the request for ``n`` samples, and returns 1 to ``n`` of them. If the
attempt fails, the function raises CallError with the usage in ``partial``.
"""


class NotNeeded(Exception):
    """Raised if a part of a request is not sent, because another part of the same request has failed."""


class Arrivals:
    """Collects the replies to the parts of ``request``: a request for many samples (generated texts) is sent in several
    parts. ``send`` is the function that makes one attempt.

    All samples of the request are numbered from 0, in the order in which they arrive. So a part that never gets a reply
    leaves no gap in the numbers. Only a part that fails after its reply has arrived leaves a gap, e.g. if the reply
    cannot be stored.
    """

    def __init__(self, request: Request, send: Send) -> None:
        self.request, self.send = request, send
        self._count = 0
        self._replies: dict[int, Reply] = {}
        self._errors: list[CallError | BudgetUsedUp] = []

    @property
    def has_failed(self) -> bool:
        """Return whether a part of the request has failed. If so, the parts that still wait for their first attempt are
        not sent (:class:`NotNeeded`).
        """
        return bool(self._errors)

    def number(self, samples: int) -> int:
        """Give numbers to new samples (generated texts), and return the first of these numbers. ``samples`` is the
        number of new samples. E.g. if 3 samples have arrived before (numbers 0 to 2), then 2 new samples get the
        numbers 3 and 4, and the result is 3.
        """
        first, self._count = self._count, self._count + samples
        return first

    def add(self, place: "Place", reply: Reply) -> None:
        """Record ``reply``, which the server returned for one part of the request. A request for many samples is sent
        in several parts. ``place`` represents this part, and holds the number of its first sample. The usage of
        ``reply`` includes all attempts of this part.
        """
        self._replies[place.first] = reply

    def failed(self, error: CallError | BudgetUsedUp) -> None:
        """Record that a part of the request has failed. ``error`` is the error of this part."""
        self._errors.append(error)

    def reply(self) -> Reply:
        """Return one reply with all samples (generated texts) of the request. Call this method after all parts of the
        request have ended.

        If a part failed, the method raises the error that occurred first. The error's ``partial`` holds the usage
        (requests and tokens) of all parts, and the samples before the first gap in their numbers. E.g. if only the
        samples with the numbers 0, 1 and 3 were recorded (:meth:`add`), ``partial`` holds the samples 0 and 1. There is
        a gap if samples of a part got numbers (:meth:`number`) because its reply had arrived, but the part then failed.
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
    """Sends one part of a request, and gives the samples (generated texts) of this part their numbers.

    A request for many samples is sent in several parts. An attempt is one try to get the samples of a part, and a part
    may need several attempts. If a reply lacks samples, another ``Place`` requests them. ``arrivals`` collects the
    replies to all parts. ``first`` is the number of the part's first sample among all samples of the request. It is -1
    until the part has a reply.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._is_sent = False
        self._size: int | None = None
        self.first = -1
        """The number of the first sample (generated text) of this part of the request; -1 until a reply arrives."""

    async def send(self, request: Request, n: int) -> Reply:
        """Make one attempt to get ``n`` samples (generated texts) for this part of the request, and return the reply.

        A request for many samples is sent in several parts. Raises :class:`NotNeeded` before the first attempt of this
        part if another part has failed.

        If the request has a function ``arrived`` (which stores a reply), this method returns only after the reply is
        stored. Until then, the request counts as one of the concurrent requests, and no other request is sent in its
        place. A killed process therefore loses at most one reply for each concurrent request.

        All samples of the request are numbered. The numbers of this part's samples are assigned when its first reply
        arrives (:attr:`first`). If the reply is slow, a second copy of the request (a hedge) may be sent, and may also
        get a reply. Its samples get the same numbers as those of the first reply. Samples that the second reply has in
        addition are dropped.
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
