"""What can go wrong with a model call, and whether sending it again can help."""

from enum import StrEnum

from inference.request import Reply
from schemas.records import Call
from schemas.text import storable
from schemas.usage import NOTHING


class Failure(StrEnum):
    """The kind of a failed call."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    GARBLED = "garbled_response"
    EMPTY = "empty_content"
    REFUSED = "refused"
    BAD_REQUEST = "bad_request"
    UNAUTHORISED = "unauthorised"
    UNSUPPORTED = "unsupported"


RETRYABLE = frozenset(
    {
        Failure.RATE_LIMITED,
        Failure.OVERLOADED,
        Failure.SERVER_ERROR,
        Failure.TIMEOUT,
        Failure.CONNECTION,
        Failure.GARBLED,
        Failure.EMPTY,
    }
)

OVERLOADED = frozenset({Failure.RATE_LIMITED, Failure.OVERLOADED, Failure.TIMEOUT})
"""Failures that say that the server has too much to do: fewer requests at once can help."""


class CallError(Exception):
    """A model call that failed for good, or one try of it.

    ``message`` says what the server answered, cut short and without keys; ``tries`` how often the request was made.
    ``retry_after_s`` is what the server asked for, if it did; ``partial`` the samples that did arrive, with what all
    requests took; ``key`` the cache key of a missing sample; ``call`` the failed call as the ledger sees it, None for a
    caller that only waited for someone else's.
    """

    def __init__(
        self,
        failure: Failure,
        message: str,
        *,
        retry_after_s: float | None = None,
        key: str | None = None,
        partial: Reply | None = None,
    ) -> None:
        message = storable(message)
        super().__init__(failure, message)
        self.failure = failure
        self.message = message
        self.retry_after_s = retry_after_s
        self.tries = 1
        self.partial = Reply(()) if partial is None else partial
        self.key = key
        self.call: Call | None = None

    def __str__(self) -> str:
        tries = f" (tried {self.tries} times)" if self.tries > 1 else ""
        return f"{self.failure.value}: {self.message}{tries}"

    @property
    def retryable(self) -> bool:
        """Whether the same request may be sent again."""
        return self.failure in RETRYABLE


class BudgetUsedUp(Exception):
    """A call that was not made because the run's budget is used up.

    Not a :class:`CallError`: a scorer that turns a failed judge into an unscored verdict must let this one pass.
    ``call`` is what the call had taken before, as the ledger sees it.
    """

    call: Call | None = None


NOT_SENT = Reply((), NOTHING)
"""The ``partial`` of a request that never left this machine."""
