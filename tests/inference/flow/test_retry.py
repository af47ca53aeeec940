"""The one retry layer: which tries are made again, and after how long."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.errors import RETRYABLE, CallError, Failure
from groundtrace.inference.flow.retry import (
    FIRST_WAIT_AFTER_FAULT_S,
    FIRST_WAIT_S,
    MAX_RETRY_AFTER_S,
    MAX_WAIT_S,
    REFUSED_FOR_LOAD,
    retried,
    wait_s,
)


@pytest.mark.parametrize(
    ("failure", "tries", "jitter", "expected"),
    [
        (Failure.RATE_LIMITED, 1, 0.0, 0.1),
        (Failure.OVERLOADED, 1, 0.5, 0.15),
        (Failure.TIMEOUT, 1, 1.0, 0.05),
        (Failure.TIMEOUT, 3, 0.0, 0.1),
        (Failure.OVERLOADED, 2, 1.0, 0.4),
        (Failure.OVERLOADED, 3, 1.0, 0.8),
        (Failure.OVERLOADED, 4, 0.0, 0.8),
        (Failure.OVERLOADED, 7, 1.0, 12.8),
        (Failure.OVERLOADED, 8, 1.0, 25.6),
        (Failure.OVERLOADED, 8, 0.0, 12.8),
        (Failure.OVERLOADED, 50, 1.0, 60.0),
        (Failure.SERVER_ERROR, 1, 1.0, 0.05),
        (Failure.CONNECTION, 1, 0.0, 0.025),
        (Failure.GARBLED, 2, 1.0, 0.1),
        (Failure.EMPTY, 6, 1.0, 1.6),
        (Failure.CONNECTION, 50, 1.0, 60.0),
    ],
)
def test_wait_doubles_up_to_a_minute(failure: Failure, tries: int, jitter: float, expected: float) -> None:
    assert wait_s(tries, CallError(failure, ""), jitter) == pytest.approx(expected)


@pytest.mark.parametrize("failure", [Failure.RATE_LIMITED, Failure.SERVER_ERROR])
@pytest.mark.parametrize(
    ("asked_s", "expected"), [(0.0, 0.0), (0.01, 0.01), (7.0, 7.0), (90.0, 90.0), (86400.0, 600.0)]
)
@pytest.mark.parametrize("tries", [1, 6])
def test_a_server_that_says_when_is_obeyed(failure: Failure, tries: int, asked_s: float, expected: float) -> None:
    """Up to ten minutes: a server that asks for a day would hold the run."""
    assert wait_s(tries, CallError(failure, "", retry_after_s=asked_s), 0.3) == expected <= MAX_RETRY_AFTER_S


@settings(max_examples=200)
@given(st.sampled_from(sorted(RETRYABLE)), st.integers(1, 500), st.floats(0, 1, exclude_max=True))
def test_wait_stays_in_bounds(failure: Failure, tries: int, jitter: float) -> None:
    first_s = FIRST_WAIT_S if failure in REFUSED_FOR_LOAD else FIRST_WAIT_AFTER_FAULT_S
    assert first_s / 2 <= wait_s(tries, CallError(failure, ""), jitter) <= MAX_WAIT_S


BUSY, LOST, REFUSED = (CallError(kind, "") for kind in (Failure.OVERLOADED, Failure.CONNECTION, Failure.REFUSED))


@pytest.mark.parametrize(
    ("faults", "max_retries", "tries", "raises"),
    [
        ([], 0, 1, False),
        ([BUSY, LOST], 2, 3, False),
        ([BUSY, LOST], 1, 2, True),
        ([BUSY], 0, 1, True),
        ([BUSY, REFUSED], 9, 2, True),
    ],
)
def test_tries_are_made_again_as_long_as_that_can_help(
    faults: list[CallError], max_retries: int, tries: int, raises: bool
) -> None:
    left = [CallError(fault.failure, "", retry_after_s=0.0) for fault in faults]
    made = 0

    async def attempt() -> str:
        nonlocal made
        made += 1
        if left:
            raise left.pop(0)
        return "done"

    if raises:
        with pytest.raises(CallError) as caught:
            asyncio.run(retried(attempt, max_retries))
        assert caught.value.tries == tries
    else:
        assert asyncio.run(retried(attempt, max_retries)) == "done"
    assert made == tries
