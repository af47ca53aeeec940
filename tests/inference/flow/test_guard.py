"""What ends a run, what makes it wait, and what is a failure of one call."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.errors import CallError, Failure, RunStopped, stop_in
from groundtrace.inference.flow.ended_calls import NEVER_ANSWERED, REFUSED_IN_A_ROW
from groundtrace.inference.flow.guard import CALLS_BEHIND, Guard
from groundtrace.inference.flow.notes import RunNotes, waiting
from groundtrace.inference.settings import EndpointSettings

REFUSED = CallError(Failure.CONNECTION, "refused")
GATEWAY = CallError(Failure.SERVER_ERROR, "HTTP 502: no upstream", status=502)
BROKEN = CallError(Failure.SERVER_ERROR, "HTTP 500: broken", status=500)
DENIED = CallError(Failure.UNAUTHORISED, "HTTP 403: not this", status=403)
EXPIRED = CallError(Failure.UNAUTHORISED, "HTTP 401: expired", status=401)


def guard_of(folder: Path, check: Callable[[], Awaitable[object]], **fields: Any) -> Guard:
    settings = EndpointSettings(kind="openai", model="m", base_url="http://h/v1", **fields)
    return Guard("far", ("judge",), settings, check, RunNotes(str(folder)))


async def there() -> str:
    return "serves m"


async def gone() -> str:
    raise REFUSED


def test_a_role_that_never_answers_ends_the_run(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, there)
    for _ in range(NEVER_ANSWERED - 1):
        guard.ended(BROKEN)
    with pytest.raises(
        RunStopped, match=r"far \(judge\).*none of 20 calls was answered; the last error: server_error: HTTP 500"
    ):
        guard.ended(BROKEN)
    answering = guard_of(tmp_path, there)
    answering.ended(None)
    for _ in range(NEVER_ANSWERED):
        answering.ended(BROKEN)


def test_what_another_process_was_answered_counts(tmp_path: Path) -> None:
    guard_of(tmp_path, there).ended(None)
    other = guard_of(tmp_path, there)
    for _ in range(NEVER_ANSWERED):
        other.ended(BROKEN)
    other.ended(DENIED)
    with pytest.raises(RunStopped):  # where nobody was answered it is the endpoint's
        guard_of(tmp_path / "alone", there).ended(DENIED)


def test_one_request_may_be_refused_and_a_row_of_them_may_not(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, there)
    guard.ended(None)
    for _ in range(REFUSED_IN_A_ROW - 1):
        guard.ended(DENIED)
    guard.ended(None)
    for _ in range(REFUSED_IN_A_ROW - 1):
        guard.ended(DENIED)
    with pytest.raises(RunStopped):
        guard.ended(DENIED)
    expiring = guard_of(tmp_path, there)
    expiring.ended(None)
    with pytest.raises(RunStopped, match=r"HTTP 401: expired\. To go on, give a key"):
        expiring.ended(EXPIRED)


@pytest.mark.parametrize(
    ("check", "errors", "limit_s", "away"),
    [
        (gone, [REFUSED], 60.0, True),
        (gone, [REFUSED], 0.0, False),
        (gone, [BROKEN], 60.0, False),
        # a request that the server cannot take, and falls silent over
        (there, [REFUSED] * 9, 60.0, False),
        (there, [GATEWAY] * (CALLS_BEHIND - 1), 60.0, False),
        (there, [GATEWAY] * CALLS_BEHIND, 60.0, True),
        # another call was answered in between
        (gone, [REFUSED, None], 60.0, False),
    ],
)
def test_when_a_server_is_away(
    check: Any, errors: list[CallError | None], limit_s: float, away: bool, tmp_path: Path
) -> None:
    guard = guard_of(tmp_path, check, outage_timeout_s=limit_s)
    for call, error in enumerate(errors):
        guard.tried(call, error)
    last = [error for error in errors if error is not None][-1]
    assert asyncio.run(guard.is_away(last)) == away
    assert bool(waiting(str(tmp_path))) == away


def test_one_looks_for_the_server_and_all_go_on_when_it_is_back(tmp_path: Path) -> None:
    looks = [0]

    async def third_time() -> str:
        looks[0] += 1
        if looks[0] < 3:
            raise REFUSED
        return "serves m"

    async def main() -> None:
        guard = guard_of(tmp_path, third_time)
        guard.tried(0, REFUSED)
        assert await guard.is_away(REFUSED)
        await asyncio.gather(*(guard.admit() for _ in range(50)))

    asyncio.run(main())
    assert looks == [3]
    assert waiting(str(tmp_path)) == []


def test_behind_a_gateway_one_request_goes_ahead_of_the_others(tmp_path: Path) -> None:
    gone_on: list[int] = []

    async def main() -> None:
        guard = guard_of(tmp_path, there)
        for call in range(CALLS_BEHIND):
            guard.tried(call, GATEWAY)
        assert await guard.is_away(GATEWAY)

        async def call(number: int) -> None:
            await guard.admit()
            gone_on.append(number)

        calls = [asyncio.ensure_future(call(number)) for number in range(5)]
        await asyncio.sleep(0.8)
        assert len(gone_on) == 1
        guard.tried(gone_on[0], GATEWAY)
        await asyncio.sleep(1.3)
        assert len(gone_on) == 2
        guard.tried(gone_on[1], None)
        await asyncio.gather(*calls)

    asyncio.run(main())
    assert sorted(gone_on) == list(range(5))


def test_a_server_that_stays_away_stops_all_calls(tmp_path: Path) -> None:
    async def main() -> list[BaseException | None]:
        guard = guard_of(tmp_path, gone, outage_timeout_s=0.3)
        guard.tried(0, REFUSED)
        assert await guard.is_away(REFUSED)
        return await asyncio.gather(*(guard.admit() for _ in range(5)), return_exceptions=True)

    stops = asyncio.run(main())
    assert [type(stop) for stop in stops] == [RunStopped] * 5
    assert all(isinstance(stop, RunStopped) and stop.resumable for stop in stops)


@pytest.mark.parametrize("resumable", [False, True])
def test_a_stop_is_found_in_the_text_that_a_runner_hands_on(resumable: bool) -> None:
    stop = RunStopped('endpoint "far": the run stops: now {', resumable)
    annotated = RunStopped(f"{stop.message} [while running 'Attempt/Call']", resumable)
    text = f"Traceback …\nRuntimeError: {annotated}\n  at"
    found = stop_in(text)
    assert found is not None
    assert (found.message, found.resumable) == (stop.message, resumable)
    assert stop_in("the run stops: soon") is None


def asks(seconds: float, **fields: Any) -> CallError:
    return CallError(Failure.RATE_LIMITED, "HTTP 429: slow down", status=429, retry_after_s=seconds, **fields)


@pytest.mark.faults
def test_a_wait_that_a_server_asks_for_is_shown_at_once_and_bounded(tmp_path: Path) -> None:
    """After it there is one more try; where that is refused too, the run stops."""

    async def main() -> None:
        guard = guard_of(tmp_path, there, outage_timeout_s=3.0)
        guard.tried(1, asks(3600))
        pausing = asyncio.ensure_future(guard.pause(asks(3600), 600.0))
        await asyncio.sleep(0.1)
        [shown] = waiting(str(tmp_path))
        assert "waiting 0 s (at most 3) for endpoint far (judge)" in shown
        assert shown.endswith("rate_limited: HTTP 429: slow down (it asks to wait 3600 s)")
        await asyncio.wait_for(pausing, 10)
        guard.tried(1, asks(3600))
        with pytest.raises(RunStopped, match=r"out of service for 3 s: .*it asks to wait 3600 s") as stopped:
            await guard.pause(asks(3600), 600.0)
        assert stopped.value.resumable

    asyncio.run(main())


def test_one_call_that_is_asked_to_wait_fails_where_others_are_answered(tmp_path: Path) -> None:
    """It may ask for more than its server ever gives: a run that stopped for it would never end."""

    async def main() -> None:
        guard = guard_of(tmp_path, there, outage_timeout_s=0.2)
        guard.ended(None)
        for _ in range(2):
            guard.tried(1, asks(5))
            await guard.pause(asks(5), 5.0)
            guard.tried(1, asks(5))
            with pytest.raises(CallError):
                await guard.pause(asks(5), 5.0)
            assert not await guard.is_away(asks(5))
            guard.ended(asks(5))
        for call in range(CALLS_BEHIND):
            guard.tried(call, asks(5))
        assert await guard.is_away(asks(5))

    asyncio.run(main())


def test_an_answer_ends_the_time_that_is_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        guard = guard_of(tmp_path, there, outage_timeout_s=4.0)
        for _ in range(3):
            guard.tried(1, asks(3.0))
            pausing = asyncio.ensure_future(guard.pause(asks(3.0), 3.0))
            await asyncio.sleep(0)
            assert waiting(str(tmp_path))
            guard.tried(2, None)
            assert not waiting(str(tmp_path))
            await asyncio.sleep(0)
            pausing.cancel()

    asyncio.run(main())


@pytest.mark.parametrize(("seconds", "fails"), [(0.01, False), (3600.0, True)])
def test_where_no_server_is_waited_for_a_long_wait_fails_the_call(seconds: float, fails: bool, tmp_path: Path) -> None:
    guard = guard_of(tmp_path, there, outage_timeout_s=0.0)
    if fails:
        with pytest.raises(CallError, match="asks to wait 3600 s"):
            asyncio.run(guard.pause(asks(seconds), 600.0))
    else:
        asyncio.run(guard.pause(asks(seconds), seconds))
    assert not asyncio.run(guard.is_away(asks(seconds)))


@pytest.mark.parametrize("error", [asks(3600), REFUSED])
def test_a_call_that_waits_is_stopped_with_the_run(error: CallError, tmp_path: Path) -> None:
    async def main() -> None:
        guard = guard_of(tmp_path, there)
        pausing = asyncio.ensure_future(guard.pause(error, 600.0))
        await asyncio.sleep(0.05)
        guard.end()
        with pytest.raises(RunStopped):
            await asyncio.wait_for(pausing, 5)

    asyncio.run(main())


def test_a_server_that_asks_to_wait_at_the_start_is_waited_for(tmp_path: Path) -> None:
    left = [asks(0.3), asks(0.3, unreachable=True)]

    async def soon() -> str:
        if left:
            raise left.pop()
        return "serves m"

    asyncio.run(guard_of(tmp_path, soon).check())
    assert not waiting(str(tmp_path))

    async def never() -> str:
        raise asks(0.3)

    with pytest.raises(RunStopped, match="out of service for 1 s: rate_limited") as stopped:
        asyncio.run(guard_of(tmp_path, never, outage_timeout_s=1.0).check())
    assert stopped.value.resumable
