"""Defines the errors of model calls, and the errors that end a run. It also lists the failures after which a request
may be sent again.
"""

import json
import re
from enum import StrEnum

from groundtrace.inference.request import Reply
from groundtrace.schemas.records import Call
from groundtrace.schemas.text import whole
from groundtrace.schemas.usage import NOTHING


class Failure(StrEnum):
    """Lists the reasons why a call to a model can fail.

    ``GARBLED`` means that the response of the server does not have the expected form. ``EMPTY`` means that the reply
    has no text. ``REFUSED`` means that the model or the server declined to answer, e.g. for safety. ``UNSUPPORTED``
    means that the endpoint lacks a capability that the request needs. ``UNKNOWN_LABEL`` means that the endpoint can
    find objects, but does not know the label in this request. ``AWAY`` means that the request was not sent, since the
    server is known to be down. ``STOPPED`` means that the endpoint was closed before the reply was complete.
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
    STOPPED = "stopped"


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

_OF_SERVER = (RETRYABLE - {Failure.EMPTY}) | {Failure.AWAY, Failure.UNAUTHORISED, Failure.UNKNOWN_MODEL}

OVERLOADED = frozenset({Failure.RATE_LIMITED, Failure.OVERLOADED, Failure.TIMEOUT})
"""Failures that mean an overloaded server: fewer concurrent requests can help."""

REFUSED_STATUSES = frozenset({401, 402, 403, 404})
"""The HTTP statuses of a server that refuses each request: no valid key, no credit, no permission, or an unknown model
or URL."""

GATEWAY_STATUSES = frozenset({502, 503, 504})
"""The HTTP statuses that a gateway returns if the server behind it does not answer."""


class CallError(Exception):
    """Raised if a call to a model, or one attempt of it, failed.

    ``failure`` is the kind of the failure. ``message`` describes the failure, often in the server's words, shortened
    and without API keys. ``tries`` is the number of attempts. ``status`` is the HTTP status, or None. ``unreachable``
    is True if the server could not be reached, or if a gateway answered in its place (status 502 to 504).
    ``retry_after_s`` is the wait, in seconds, that the server demands before the next request, or None.

    ``partial`` holds the samples (generated texts) that did arrive, and the usage: the numbers of requests and tokens,
    also of failed attempts. ``key`` is the cache key of the first requested sample that is missing in ``partial``, or
    None if it is not known yet. ``call`` is the record of the failed call for the accounting of costs. It is None until
    :meth:`groundtrace.inference.models.Models.generate` sets it.
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
        message = whole(message)
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

    def without_usage(self) -> "CallError":
        """Return a copy of this error for another call, which sent no request but waited for the same sample (generated
        text). The copy's ``partial`` has no samples, and its ``call`` is None. The usage (requests and tokens) of this
        error is left out, since it is already counted for the call that sent the request.
        """
        return CallError(
            self.failure,
            self.message,
            status=self.status,
            unreachable=self.unreachable,
            retry_after_s=self.retry_after_s,
            key=self.key,
        )

    @property
    def retryable(self) -> bool:
        """Return whether it makes sense to send the same request again, e.g. after a timeout."""
        return self.failure in RETRYABLE

    @property
    def is_of_server(self) -> bool:
        """Return whether the call failed because of the server or the config, and not because of the request. If so,
        the same request may succeed later, for example with another API key, when the account has credit again, or with
        another model.

        For an empty reply, the result is False: the request itself is regarded as the cause.
        """
        return self.failure in _OF_SERVER or self.status in REFUSED_STATUSES

    @property
    def asks_to_wait(self) -> bool:
        """Return whether the server demanded a wait of more than 0 seconds before the next request (HTTP header
        Retry-After).
        """
        return bool(self.retry_after_s)


NOT_SENT = Reply((), NOTHING)
"""The ``partial`` of an error whose request was not sent: a reply without samples and without usage."""


class BudgetUsedUp(Exception):
    """Raised if a call was not sent, or not completed, because the run's budget is used up.

    This is not a :class:`CallError`. Scorers, which check responses, catch CallError and continue without a score. This
    would be wrong here, since all later calls would fail in the same way. ``call`` is the record of the call so far,
    for the accounting of costs. ``partial`` holds the samples that did arrive.
    """

    call: Call | None = None
    partial: Reply = NOT_SENT


class RunStopped(Exception):
    """Raised if the run cannot continue, because an endpoint cannot answer its calls or a server stays down.

    This is not a :class:`CallError`. Stages and scorers catch CallError. They then reject the record, or continue
    without a score. This would be wrong here, since all later calls would fail in the same way. ``message`` is one line
    that names the endpoint and tells the user what to do. ``resumable`` is True if the user only has to repeat the
    command later, for example when the server is up again. It is False if the user has to change something first.

    A Beam runner passes on only the text of a worker's exception. :func:`stop_in` restores the exception from this
    text.
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
    """Find a :class:`RunStopped` in the text of another exception, e.g. of a Beam runner, and return it. Returns None
    if the text contains no such exception.
    """
    _, found, rest = text.partition(_STOPPED)
    while found:
        try:
            fields, _ = json.JSONDecoder().raw_decode(rest)
            return RunStopped(_WHERE.sub("", fields["message"]), bool(fields["resumable"]))
        except (ValueError, TypeError, KeyError):  # the text contains the words by chance
            _, found, rest = rest.partition(_STOPPED)
    return None
