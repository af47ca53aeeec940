"""The one retry layer: which failed try is made again and after how long: exponential with jitter, a server's
Retry-After honoured.
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
"""What a server may ask for where no :class:`groundtrace.inference.flow.guard.Guard` says how long it is waited for."""

Pause = Callable[[CallError, float], Awaitable[None]]
"""Waits so many seconds after a try that failed; raises what ends the call, such as the error itself."""


def wait_s(tries: int, error: CallError, jitter: float) -> float:
    """Seconds to wait after the ``tries``-th failed try (from 1): what the server asked for, else doubling.

    The first wait is a fifth of a second where the server refused the request because of its load. It is a twentieth
    after a fault that has nothing to do with load (a reset, a garbled body, empty content), and after a timeout, since
    the caller has already waited. How many are sent at once is decided by
    :class:`groundtrace.inference.flow.limits.Gate`. ``jitter`` in [0, 1) spreads the wait over its upper half, so that
    callers don't return together.
    """
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    first_s = FIRST_WAIT_S if error.failure in REFUSED_FOR_LOAD else FIRST_WAIT_AFTER_FAULT_S
    longest_s = min(MAX_WAIT_S, first_s * 2 ** (tries - 1))
    return longest_s * (0.5 + 0.5 * jitter)


async def sleep(_: CallError, seconds: float) -> None:
    """The :data:`Pause` that only waits."""
    await asyncio.sleep(seconds)


async def impatient(error: CallError, seconds: float) -> None:
    """The :data:`Pause` that raises the error where a server asks for more than the longest wait of our own."""
    if seconds > MAX_WAIT_S:
        raise error
    await asyncio.sleep(seconds)


async def retried(attempt: Callable[[], Awaitable[T]], max_retries: int, pause: Pause = sleep) -> T:
    """Returns the result of the first try that succeeds, of at most 1 + ``max_retries``, with a ``pause`` between them.

    Raises the last :class:`groundtrace.inference.errors.CallError`, with the number of tries: the one after which there
    are no more retries, or one that sending again cannot help.
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
