"""What can go wrong with a model call, and whether sending it again can help: the one table of both."""

from enum import StrEnum


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
    BUDGET = "budget"


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

    ``retry_after_s`` is what the server asked for, if it did; ``requests`` how many were sent in all.
    """

    def __init__(
        self,
        failure: Failure,
        message: str,
        *,
        retry_after_s: float | None = None,
        requests: int = 1,
        key: str | None = None,
    ) -> None:
        super().__init__(f"{failure.value}: {message}")
        self.failure = failure
        self.message = message
        self.retry_after_s = retry_after_s
        self.requests = requests
        self.key = key

    @property
    def retryable(self) -> bool:
        """Whether the same request may be sent again."""
        return self.failure in RETRYABLE
