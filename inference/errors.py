"""What can go wrong with a model call, and whether sending it again can help: the one table of both."""

from enum import StrEnum

from inference.request import Reply
from schemas.records import Call


class Failure(StrEnum):
    """The kind of a failed call."""

    RATE_LIMITED = "rate_limited"
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
        Failure.SERVER_ERROR,
        Failure.TIMEOUT,
        Failure.CONNECTION,
        Failure.GARBLED,
        Failure.EMPTY,
    }
)


class CallError(Exception):
    """A model call that failed for good, or one try of it.

    ``retry_after_s`` is what the server asked for, if it did; ``partial`` the samples that did arrive, with what all
    requests took; ``key`` the cache key of a missing sample; ``call`` the failed call as the ledger sees it, None for a
    caller that only waited for someone else's.
    """

    def __init__(
        self, failure: Failure, message: str, *, retry_after_s: float | None = None, key: str | None = None
    ) -> None:
        super().__init__(f"{failure.value}: {message}")
        self.failure = failure
        self.message = message
        self.retry_after_s = retry_after_s
        self.requests = 1
        self.partial = Reply((), requests=0)
        self.key = key
        self.call: Call | None = None

    @property
    def retryable(self) -> bool:
        """Whether the same request may be sent again."""
        return self.failure in RETRYABLE
