"""The errors of model calls, whether they are retryable, and the errors that end a run."""

import json
import re
from enum import StrEnum

from groundtrace.inference.request import Reply
from groundtrace.schemas.records import Call
from groundtrace.schemas.text import storable
from groundtrace.schemas.usage import NOTHING


class Failure(StrEnum):
    """The kind of a failed call.

    ``UNSUPPORTED``: the endpoint lacks a capability that the request needs. ``UNKNOWN_LABEL``: the endpoint can find
    objects, but does not know the label in this request. ``AWAY``: the request was not sent, since the server is known
    to be down.
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
"""Failures that mean an overloaded server: fewer concurrent requests can help."""

GATEWAY_STATUSES = frozenset({502, 503, 504})
"""The HTTP statuses that a gateway returns if the server behind it does not answer."""


class CallError(Exception):
    """A model call, or one attempt of it, failed.

    ``message``: the server's answer, shortened and without API keys. ``tries``: the number of attempts. ``status``: the
    HTTP status, or None. ``unreachable``: whether no server answered. ``retry_after_s``: the server's Retry-After in
    seconds, or None. ``partial``: the samples that did arrive, with the usage of all requests. ``key``: the cache key
    of a missing sample. ``call``: the record of the failed call for the ledger; None if this call only waited for
    another call's request.
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
        """Whether the server asked for a wait; False for "Retry-After: 0"."""
        return bool(self.retry_after_s)


NOT_SENT = Reply((), NOTHING)
"""The ``partial`` of a request that was not sent."""


class BudgetUsedUp(Exception):
    """A call was not sent, or not completed, because the run's budget is used up.

    This is not a :class:`CallError`, since a scorer that turns a failed judge call into an unscored verdict must not
    catch it. ``call``: the record of the call so far, for the ledger; ``partial``: the samples that did arrive.
    """

    call: Call | None = None
    partial: Reply = NOT_SENT


class RunStopped(Exception):
    """The run cannot go on: an endpoint does not serve it, or its server stays down.

    This is not a :class:`CallError`, since code that turns a failed call into a rejection or an unscored verdict must
    not catch it. ``message``: one line that names the endpoint and says what to do. ``resumable``: whether the same
    command resumes the run when the server is up; otherwise something has to be changed first.

    A Beam runner passes on only the text of a worker's exception: :func:`stop_in` restores the exception from it.
    """

    def __init__(self, message: str, resumable: bool = False) -> None:
        super().__init__(message, resumable)
        self.message, self.resumable = message, resumable

    def __str__(self) -> str:
        return f"{_STOPPED}{json.dumps({'message': self.message, 'resumable': self.resumable})}"


_STOPPED = "the run stops: "
_WHERE = re.compile(r" \[while running '.*'\]$")
"""The suffix that Beam adds to the message of an exception."""


def stop_in(text: str) -> RunStopped | None:
    """Return the :class:`RunStopped` in the text of an exception; None if there is none."""
    _, found, rest = text.partition(_STOPPED)
    while found:
        try:
            fields, _ = json.JSONDecoder().raw_decode(rest)
            return RunStopped(_WHERE.sub("", fields["message"]), bool(fields["resumable"]))
        except (ValueError, TypeError, KeyError):  # the text contains the words by chance
            _, found, rest = rest.partition(_STOPPED)
    return None
