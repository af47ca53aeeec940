"""Calls to a server that is away fail at once, and go on when it is back."""

import asyncio

import pytest

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.breaker import UNREACHABLE_IN_A_ROW, Breaker

REFUSED = CallError(Failure.CONNECTION, "refused")
GATEWAY = CallError(Failure.SERVER_ERROR, "HTTP 502: no upstream", status=502)
BROKEN = CallError(Failure.SERVER_ERROR, "HTTP 500: broken", status=500)


class Server:
    """A check that meets ``error``, or waits for ever where ``hangs``; it counts how often it was asked."""

    def __init__(self, error: CallError | None = None, hangs: bool = False) -> None:
        self.error, self.hangs, self.asked = error, hangs, 0

    async def check(self) -> str:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return "serves m"


async def is_open(breaker: Breaker) -> bool:
    try:
        await breaker.admit()
    except CallError as error:
        assert (error.failure, error.retryable, error.unreachable) == (Failure.AWAY, False, True)
        return True
    return False


@pytest.mark.parametrize(
    ("server", "opens"),
    [
        (Server(), False),
        (Server(REFUSED), True),
        (Server(GATEWAY), True),
        (Server(hangs=True), True),
        (Server(BROKEN), False),
        (Server(CallError(Failure.BAD_REQUEST, "HTTP 404", status=404)), False),
    ],
    ids=["there", "refused", "gateway", "hangs", "broken", "no list"],
)
def test_a_look_finds_out(server: Server, opens: bool) -> None:
    async def main() -> None:
        breaker = Breaker(server.check)
        await breaker.check(timeout_s=0.01)
        assert await is_open(breaker) is opens
        server.error, server.hangs = None, False
        await breaker.check()
        assert not await is_open(breaker)

    asyncio.run(main())


def test_tries_without_an_answer_make_it_look_once() -> None:
    async def main() -> None:
        server = Server(REFUSED)
        breaker = Breaker(server.check)
        for _ in range(UNREACHABLE_IN_A_ROW - 1):
            breaker.tried(1, REFUSED)
            assert not await is_open(breaker)
        breaker.tried(1, REFUSED)
        assert await asyncio.gather(*(is_open(breaker) for _ in range(8))) == [True] * 8
        assert server.asked == 1

    asyncio.run(main())


def test_an_answer_between_them_counts() -> None:
    async def main() -> None:
        server = Server(REFUSED)
        breaker = Breaker(server.check)
        for error in (REFUSED, REFUSED, None, REFUSED, REFUSED, BROKEN, REFUSED, REFUSED):
            breaker.tried(1, error)
        assert not await is_open(breaker)
        assert server.asked == 0

    asyncio.run(main())


def test_a_server_that_is_there_after_all() -> None:
    """A gateway that lists the models while what is behind it is busy: calls go on."""

    async def main() -> None:
        server = Server()
        breaker = Breaker(server.check)
        for _ in range(UNREACHABLE_IN_A_ROW):
            breaker.tried(1, GATEWAY)
        assert not await is_open(breaker)
        assert server.asked == 1

    asyncio.run(main())
