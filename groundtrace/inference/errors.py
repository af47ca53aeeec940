"""What can go wrong with a model call, whether sending it again can help, and what ends a run."""

import json
import re
from enum import StrEnum

from groundtrace.inference.request import Reply
from groundtrace.schemas.records import Call
from groundtrace.schemas.text import storable
from groundtrace.schemas.usage import NOTHING


class Failure(StrEnum):
    """The kind of a failed call.

    ``UNSUPPORTED``: the endpoint does not do what the request needs, whatever is asked of it; ``UNKNOWN_LABEL``: it
    finds objects, and cannot look for what this request names. ``AWAY``: the server is known not to answer, so that
    nothing was sent.
    """

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
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_LABEL = "unknown_label"
    AWAY = "away"


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

GATEWAY_STATUSES = frozenset({502, 503, 504})
"""What a gateway answers when the server behind it does not."""


class CallError(Exception):
    """A model call that failed for good, or one try of it.

    ``message`` says what the server answered, cut short and without keys; ``tries`` how often the request was made.
    ``status`` is the HTTP status, None where there was none; ``unreachable`` says that no server answered at all.
    ``retry_after_s`` is what the server asked for, if it did; ``partial`` the samples that did arrive, with what all
    requests took; ``key`` the cache key of a missing sample; ``call`` the failed call as the ledger sees it, None for a
    caller that only waited for someone else's.
    """

    def __init__(
        self,
        failure: Failure,
        message: str,
        *,
        status: int | None = None,
        unreachable: bool = False,
        retry_after_s: float | None = None,
        key: str | None = None,
        partial: Reply | None = None,
    ) -> None:
        message = storable(message)
        super().__init__(failure, message)
        self.failure = failure
        self.message = message
        self.status = status
        self.unreachable = unreachable or failure is Failure.CONNECTION or status in GATEWAY_STATUSES
        self.retry_after_s = retry_after_s
        self.tries = 1
        self.partial = Reply(()) if partial is None else partial
        self.key = key
        self.call: Call | None = None

    def __str__(self) -> str:
        asks = f" (it asks to wait {self.retry_after_s:.0f} s)" if self.retry_after_s else ""
        tries = f" (tried {self.tries} times)" if self.tries > 1 else ""
        return f"{self.failure.value}: {self.message}{asks}{tries}"

    @property
    def retryable(self) -> bool:
        """Whether the same request may be sent again."""
        return self.failure in RETRYABLE

    @property
    def asks_to_wait(self) -> bool:
        """Whether the server asked for a wait: "Retry-After: 0" asks for none."""
        return bool(self.retry_after_s)


NOT_SENT = Reply((), NOTHING)
"""The ``partial`` of a request that never left this machine."""


class BudgetUsedUp(Exception):
    """A call that was not made, or not to its end, because the run's budget is used up.

    Not a :class:`CallError`: a scorer that turns a failed judge into an unscored verdict must let this one pass.
    ``call`` is what the call had taken before, as the ledger sees it; ``partial`` what its requests had given.
    """

    call: Call | None = None
    partial: Reply = NOT_SENT


class RunStopped(Exception):
    """The run cannot go on: an endpoint does not serve it, or its server stays away.

    Not a :class:`CallError`: whoever turns a failed call into a rejection or an unscored verdict must let this one
    pass. ``message`` is one line that names the endpoint and says what to do. ``resumable`` says that the same command
    goes on when the server is back; otherwise something has to be changed first.

    A runner hands on the text of a worker's exception, and not the exception: :func:`stop_in` finds it there.
    """

    def __init__(self, message: str, resumable: bool = False) -> None:
        super().__init__(message, resumable)
        self.message, self.resumable = message, resumable

    def __str__(self) -> str:
        return f"{_STOPPED}{json.dumps({'message': self.message, 'resumable': self.resumable})}"


_STOPPED = "the run stops: "
_WHERE = re.compile(r" \[while running '.*'\]$")
"""What Beam adds to the message of an exception."""


def stop_in(text: str) -> RunStopped | None:
    """The :class:`RunStopped` that the text of an exception tells of, if it tells of one."""
    _, found, rest = text.partition(_STOPPED)
    while found:
        try:
            said, _ = json.JSONDecoder().raw_decode(rest)
            return RunStopped(_WHERE.sub("", said["message"]), bool(said["resumable"]))
        except (ValueError, TypeError, KeyError):  # the words stand there by chance
            _, found, rest = rest.partition(_STOPPED)
    return None
