"""The one retry layer: exponential waits with jitter, a server's Retry-After honoured, a bounded number of tries."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from inference.errors import CallError

T = TypeVar("T")

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
LONGEST_RETRY_AFTER_S = 600.0


def wait_s(tries: int, error: CallError, jitter: float) -> float:
    """Seconds to wait after the ``tries``-th failed try (from 1): what the server asked for, else doubling.

    ``jitter`` in [0, 1) spreads the wait over its upper half, so that callers don't return together.
    """
    if error.retry_after_s is not None:
        return min(error.retry_after_s, LONGEST_RETRY_AFTER_S)
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (tries - 1))
    return longest * (0.5 + 0.5 * jitter)


async def with_retries(send: Callable[[], Awaitable[T]], max_retries: int) -> tuple[T, int]:
    """The result of ``send`` and how many times it was tried.

    Raises the last :class:`inference.errors.CallError`, with its number of requests, when it is not retryable or
    ``max_retries`` is used up.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return await send(), tries
        except CallError as error:
            error.requests = tries
            if not error.retryable or tries > max_retries:
                raise
            await asyncio.sleep(wait_s(tries, error, random.random()))
