"""How long to wait before a request is sent again: exponential with jitter, a server's Retry-After honoured."""

from inference.errors import CallError, Failure

REFUSED_FOR_LOAD = frozenset({Failure.RATE_LIMITED, Failure.OVERLOADED})
FIRST_WAIT_S = 0.2
FIRST_WAIT_AFTER_FAULT_S = 0.05
MAX_WAIT_S = 60.0
MAX_RETRY_AFTER_S = 600.0


def wait_s(tries: int, error: CallError, jitter: float) -> float:
    """Seconds to wait after the ``tries``-th failed try (from 1): what the server asked for, else doubling.

    The first wait is a fifth of a second where the server refused the request because of its load. It is a twentieth
    after a fault that has nothing to do with load (a reset, a garbled body, empty content), and after a timeout, since
    the caller has already waited. How many are sent at once is decided by :class:`inference.flow.limits.Gate`.
    ``jitter`` in [0, 1) spreads the wait over its upper half, so that callers don't return together.
    """
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    first_s = FIRST_WAIT_S if error.failure in REFUSED_FOR_LOAD else FIRST_WAIT_AFTER_FAULT_S
    longest_s = min(MAX_WAIT_S, first_s * 2 ** (tries - 1))
    return longest_s * (0.5 + 0.5 * jitter)
