"""The one retry layer: how long it waits, how often it tries, what it lets through."""

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.errors import RETRYABLE, CallError, Failure
from inference.retry import FIRST_WAIT_S, LONGEST_WAIT_S, wait_s, with_retries

BRIEF_S = 0.001


@pytest.mark.parametrize(
    ("tries", "jitter", "expected"),
    [
        (1, 0.0, 0.25),
        (1, 0.5, 0.375),
        (1, 1.0, 0.5),
        (2, 1.0, 1.0),
        (3, 1.0, 2.0),
        (4, 0.0, 2.0),
        (7, 1.0, 32.0),
        (8, 1.0, 60.0),
        (8, 0.0, 30.0),
        (50, 1.0, 60.0),
    ],
)
def test_wait_doubles_up_to_a_minute(tries: int, jitter: float, expected: float) -> None:
    assert wait_s(tries, CallError(Failure.SERVER_ERROR, ""), jitter) == pytest.approx(expected)


@pytest.mark.parametrize("asked_s", [0.0, 0.01, 7.0, 90.0])
@pytest.mark.parametrize("tries", [1, 6])
def test_a_server_that_says_when_is_obeyed(tries: int, asked_s: float) -> None:
    assert wait_s(tries, CallError(Failure.RATE_LIMITED, "", retry_after_s=asked_s), 0.3) == asked_s


@settings(max_examples=100)
@given(st.integers(1, 500), st.floats(0, 1, exclude_max=True))
def test_wait_stays_in_bounds(tries: int, jitter: float) -> None:
    assert FIRST_WAIT_S / 2 <= wait_s(tries, CallError(Failure.TIMEOUT, ""), jitter) <= LONGEST_WAIT_S


class Flaky:
    """Fails with the given errors in turn, then gives "done"."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.sent = list(errors), 0

    async def __call__(self) -> str:
        self.sent += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def error(failure: Failure = Failure.RATE_LIMITED, wait: float = BRIEF_S) -> CallError:
    return CallError(failure, "no", retry_after_s=wait)


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_counts_its_tries(failures: int) -> None:
    send = Flaky(*(error() for _ in range(failures)))
    assert asyncio.run(with_retries(send, 3)) == ("done", failures + 1)


@pytest.mark.parametrize("max_retries", [0, 1, 4])
def test_tries_are_bounded(max_retries: int) -> None:
    send = Flaky(*(error() for _ in range(10)))
    with pytest.raises(CallError) as caught:
        asyncio.run(with_retries(send, max_retries))
    assert send.sent == caught.value.requests == max_retries + 1


@pytest.mark.parametrize("failure", list(Failure))
def test_only_what_can_pass_is_sent_again(failure: Failure) -> None:
    send = Flaky(error(failure))
    if failure in RETRYABLE:
        assert asyncio.run(with_retries(send, 5)) == ("done", 2)
    else:
        with pytest.raises(CallError, match=failure.value):
            asyncio.run(with_retries(send, 5))
        assert send.sent == 1


def test_the_last_error_is_raised_with_all_requests() -> None:
    send = Flaky(error(), error(Failure.SERVER_ERROR), error(Failure.BAD_REQUEST))
    with pytest.raises(CallError) as caught:
        asyncio.run(with_retries(send, 5))
    assert (caught.value.failure, caught.value.requests) == (Failure.BAD_REQUEST, 3)


def test_a_defect_is_not_retried() -> None:
    send = Flaky(KeyError("defect"))
    with pytest.raises(KeyError):
        asyncio.run(with_retries(send, 5))
    assert send.sent == 1


def test_waits_as_long_as_the_server_asked() -> None:
    started = time.monotonic()
    asyncio.run(with_retries(Flaky(error(wait=0.02), error(wait=0.02)), 2))
    assert time.monotonic() - started >= 0.04
