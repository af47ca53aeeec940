"""Repeats failed requests. All retries of requests are made in this module. The wait between two attempts grows
exponentially and has a random part (jitter). If the server sends a Retry-After header, the wait is the time in this
header, up to a limit.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from groundtrace.inference.errors import CallError, Failure

T = TypeVar("T")
REFUSED_FOR_LOAD = frozenset({Failure.RATE_LIMITED, Failure.OVERLOADED})
FIRST_WAIT_S = 0.2
FIRST_WAIT_AFTER_FAULT_S = 0.05
MAX_WAIT_S = 60.0
MAX_RETRY_AFTER_S = 600.0
"""The longest wait, in seconds, if a server sends a Retry-After. During a run, a guard
(:class:`groundtrace.inference.flow.guard.Guard`), which waits for servers that are down, may wait longer.
"""

Pause = Callable[[CallError, float], Awaitable[None]]
"""A function that waits after a failed attempt. Its arguments are the error of the attempt and the seconds to wait. To
end the call, it raises an exception, for example the error itself.
"""


def wait_s(tries: int, error: CallError, jitter: float) -> float:
    """Return how many seconds to wait before the next attempt. ``tries`` is the number of failed attempts so far (at
    least 1), and ``error`` is the error of the last one. If the server sent a Retry-After header, the result is the
    time in this header, but at most :data:`MAX_RETRY_AFTER_S`.

    Otherwise the result is a random time from ``m / 2`` to ``m`` seconds. ``jitter`` is the random number in [0, 1)
    that determines this time. The time is random so that not all callers retry at the same moment. The maximum ``m``
    doubles with each attempt, up to :data:`MAX_WAIT_S`. After the first attempt, ``m`` depends on the failure:

    - 0.2 s if the server refused the request because of its load;
    - 0.05 s after a fault unrelated to load (a broken connection, an unreadable or empty response);
    - 0.05 s after a timeout, since the caller has already waited.

    This function does not limit the number of concurrent requests;
    :class:`groundtrace.inference.flow.limits.ConcurrencyLimit` limits it.
    """
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    first_s = FIRST_WAIT_S if error.failure in REFUSED_FOR_LOAD else FIRST_WAIT_AFTER_FAULT_S
    longest_s = min(MAX_WAIT_S, first_s * 2 ** (tries - 1))
    return longest_s * (0.5 + 0.5 * jitter)


async def sleep(_: CallError, seconds: float) -> None:
    """Wait ``seconds`` before a retry, and never raise an error. The first argument, the error of the failed attempt,
    is not used; every :data:`Pause` (a function that waits before a retry) has this argument.
    """
    await asyncio.sleep(seconds)


async def impatient(error: CallError, seconds: float) -> None:
    """Wait ``seconds`` before a retry. If ``seconds`` is above :data:`MAX_WAIT_S`, the function does not wait, but
    raises ``error``, the error of the failed attempt. It is a :data:`Pause` (a function that waits before a retry) for
    callers that cannot wait for a long time.
    """
    if seconds > MAX_WAIT_S:
        raise error
    await asyncio.sleep(seconds)


async def retried(attempt: Callable[[], Awaitable[T]], max_retries: int, pause: Pause = sleep) -> T:
    """Call ``attempt`` until it succeeds, at most 1 + ``max_retries`` times, and return its result. ``pause`` is the
    function that waits between two attempts.

    If ``attempt`` raises :class:`groundtrace.inference.errors.CallError` and a retry cannot help, the error is raised
    immediately. Otherwise it is raised after the last retry. The error's ``tries`` is the number of attempts.
    """
    tries = 0
    while True:
        try:
            return await attempt()
        except CallError as error:
            tries += 1
            error.tries = tries
            if not error.retryable or tries > max_retries:
                raise
            await pause(error, wait_s(tries, error, random.random()))
