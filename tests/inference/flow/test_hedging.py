"""A second copy of a request that is unanswered for long: who wins, and that all requests are counted."""

import asyncio
from typing import Any

import pytest

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.request import Completion, Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.usage import Usage

PROMPT = load_prompt("judge_answer.v1").render(question="How many?", gold="3", predicted="three")
REQUEST = Request(PROMPT, Sampling(), (0,))
FAILED = Reply((), Usage(requests=1, tokens_in=7, tokens_out=1, tokens_wasted=8))


class Tries:
    """Each try waits until it is told how to end; a number that never comes is silence."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[Reply]] = []
        self.cancelled = 0
        self._another = asyncio.Condition()

    async def __call__(self, *_: Any) -> Reply:
        end: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        async with self._another:
            self.begun.append(end)
            self._another.notify_all()
        try:
            return await end
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def reach(self, count: int) -> None:
        """Wait until that many tries have begun."""
        async with asyncio.timeout(10), self._another:
            await self._another.wait_for(lambda: len(self.begun) >= count)

    def succeed(self, number: int, text: str) -> None:
        self.begun[number].set_result(Reply((Completion(text),), Usage(requests=1, tokens_in=10, tokens_out=5)))

    def fail(self, number: int, failure: Failure = Failure.BAD_REQUEST) -> None:
        self.begun[number].set_exception(CallError(failure, f"try {number}", partial=FAILED))


def collect(play: Any, **changes: Any) -> tuple[Reply, Tries]:
    """The reply of a flow that hedges at once, and the tries; ``play`` tells them how to end."""

    async def main() -> tuple[Reply, Tries]:
        settings = EndpointSettings(**{"kind": "openai", "model": "m", "hedge_after_s": 0.001, **changes})
        flow, tries = Flow(settings), Tries()
        collected = asyncio.create_task(flow.collect(REQUEST, tries))
        await play(tries)
        reply = await asyncio.wait_for(asyncio.gather(collected, return_exceptions=True), 10)
        flow.concurrency.leave(await asyncio.wait_for(flow.concurrency.enter(), 1))  # every place was given back
        if isinstance(reply[0], BaseException):
            raise reply[0]
        return reply[0], tries

    return asyncio.run(main())


@pytest.mark.parametrize("winner", [0, 1])
def test_the_first_to_succeed_counts(winner: int) -> None:
    async def play(tries: Tries) -> None:
        await tries.reach(2)
        tries.succeed(winner, f"try {winner}")

    reply, tries = collect(play)
    assert [completion.text for completion in reply.completions] == [f"try {winner}"]
    assert (len(tries.begun), tries.cancelled) == (2, 1)
    assert reply.usage == Usage(requests=2, tokens_in=10, tokens_out=5)


def test_both_at_once_waste_one() -> None:
    async def play(tries: Tries) -> None:
        await tries.reach(2)
        tries.succeed(0, "a")
        tries.succeed(1, "b")

    reply, _ = collect(play)
    assert len(reply.completions) == 1
    assert reply.usage == Usage(requests=2, tokens_in=20, tokens_out=10, tokens_wasted=15)


@pytest.mark.parametrize("loser", [0, 1])
def test_one_that_fails_leaves_the_other(loser: int) -> None:
    async def play(tries: Tries) -> None:
        await tries.reach(2)
        tries.fail(loser)
        for _ in range(10):
            await asyncio.sleep(0)
        tries.succeed(1 - loser, "fine")

    reply, tries = collect(play)
    assert [completion.text for completion in reply.completions] == ["fine"]
    assert (reply.usage.requests, reply.usage.retries, tries.cancelled) == (2, 0, 0)
    assert (reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.tokens_wasted) == (17, 6, 8)


@pytest.mark.parametrize("at_once", [False, True])
def test_both_fail(at_once: bool) -> None:
    async def play(tries: Tries) -> None:
        await tries.reach(2)
        tries.fail(0)
        for _ in range(0 if at_once else 10):
            await asyncio.sleep(0)
        tries.fail(1)

    with pytest.raises(CallError, match="bad_request: try") as caught:
        collect(play)
    assert (caught.value.tries, caught.value.partial.usage.requests) == (1, 2)
    assert (caught.value.partial.usage.tokens_in, caught.value.partial.usage.tokens_wasted) == (14, 16)


def test_both_fail_and_are_sent_again() -> None:
    async def play(tries: Tries) -> None:
        await tries.reach(2)
        tries.fail(0, Failure.CONNECTION)
        tries.fail(1, Failure.CONNECTION)
        await tries.reach(3)
        tries.succeed(2, "fine")

    reply, tries = collect(play)
    assert (len(tries.begun), reply.usage.retries, reply.usage.tokens_in) in {(3, 1, 24), (4, 1, 24)}
    assert reply.usage.requests == len(tries.begun)


def test_a_quick_failure_is_not_hedged() -> None:
    async def play(tries: Tries) -> None:
        await tries.reach(1)
        tries.fail(0)

    with pytest.raises(CallError) as caught:
        collect(play, hedge_after_s=60.0)
    assert caught.value.partial.usage.requests == 1


def test_a_copy_that_never_got_a_place_is_not_counted() -> None:
    async def main() -> Reply:
        flow, tries = Flow(EndpointSettings("openai", "m", hedge_after_s=0.001, max_concurrency=1)), Tries()
        first, second = (asyncio.create_task(flow.collect(REQUEST, tries)) for _ in range(2))
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) < 7:  # this one, two calls, and two tries of each
                await asyncio.sleep(0)
        tries.succeed(0, "fine")
        reply = await first
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        return reply

    assert asyncio.run(main()).usage.requests == 1


def test_a_cancelled_call_cancels_both() -> None:
    async def main() -> int:
        flow = Flow(EndpointSettings("openai", "m", hedge_after_s=0.001))
        tries = Tries()
        collected = asyncio.create_task(flow.collect(REQUEST, tries))
        await tries.reach(2)
        collected.cancel()
        await asyncio.gather(collected, return_exceptions=True)
        return tries.cancelled

    assert asyncio.run(main()) == 2


def test_a_defect_in_one_of_two_ends_the_call() -> None:
    async def play(tries: Tries) -> None:
        await tries.reach(2)
        tries.begun[1].set_exception(KeyError("a defect"))

    with pytest.raises(KeyError):
        collect(play)
