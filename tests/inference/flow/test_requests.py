"""The one retry layer: what is sent again and when, how much at once, and what it all took."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from groundtrace.inference.errors import NOT_SENT, RETRYABLE, CallError, Failure
from groundtrace.inference.flow.limits import OPENING_GAP_S
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.request import Completion, Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.usage import Usage

from ..skipping import now_s, run

PROMPT = load_prompt("judge_answer.v1").render(question="How many?", gold="3", predicted="three")


def request(n: int = 1) -> Request:
    return Request(PROMPT, Sampling(n=n), tuple(range(n)))


def reply(*texts: str, tokens: int = 10, **fields: int) -> Reply:
    return Reply(tuple(map(Completion, texts)), Usage(requests=1, tokens_in=tokens, tokens_out=tokens, **fields))


def error(failure: Failure = Failure.SERVER_ERROR, **fields: Any) -> CallError:
    return CallError(failure, "no", **fields)


class Script:
    """Tries that end as the steps say, in turn, with when each began; after them all succeed."""

    def __init__(self, *steps: Reply | BaseException, takes_s: float = 0.0) -> None:
        self.steps, self.takes_s = list(steps), takes_s
        self.began_s: list[float] = []
        self.asked: list[int] = []
        self.inside = self.most_inside = 0

    async def __call__(self, _: Request, n: int) -> Reply:
        self.began_s.append(now_s())
        self.asked.append(n)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await asyncio.sleep(self.takes_s)
            step = self.steps.pop(0) if self.steps else reply(*["fine"] * n)
            if isinstance(step, BaseException):
                raise step
            return step
        finally:
            self.inside -= 1


def collect(send: Callable[[Request, int], Awaitable[Reply]], n: int = 1, **settings: Any) -> Reply:
    return run(Flow(flow_settings(**settings)).collect(request(n), send))


def flow_settings(**changes: Any) -> EndpointSettings:
    return EndpointSettings(**{"kind": "openai", "model": "m", **changes})


def failing(send: Callable[[Request, int], Awaitable[Reply]], n: int = 1, **settings: Any) -> CallError:
    with pytest.raises(CallError) as caught:
        collect(send, n, **settings)
    return caught.value


def texts(got: Reply) -> list[str]:
    return [completion.text for completion in got.completions]


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_counts_its_tries(failures: int) -> None:
    got = collect(Script(*(error() for _ in range(failures))))
    assert (texts(got), got.usage.requests, got.usage.retries) == (["fine"], failures + 1, failures)


@pytest.mark.parametrize("max_retries", [0, 1, 4])
def test_tries_are_bounded(max_retries: int) -> None:
    send = Script(*(error() for _ in range(10)))
    caught = failing(send, max_retries=max_retries)
    assert len(send.asked) == caught.tries == caught.partial.usage.requests == max_retries + 1
    assert caught.partial.usage.retries == max_retries


@pytest.mark.parametrize("failure", list(Failure))
def test_only_what_can_pass_is_sent_again(failure: Failure) -> None:
    send = Script(error(failure))
    if failure in RETRYABLE:
        assert collect(send).usage.requests == 2
    else:
        assert failing(send).failure is failure
        assert len(send.asked) == 1


def test_the_last_error_is_raised_with_all_tries() -> None:
    send = Script(error(Failure.RATE_LIMITED), error(), error(Failure.BAD_REQUEST))
    caught = failing(send)
    assert (caught.failure, caught.tries, caught.partial.usage.requests) == (Failure.BAD_REQUEST, 3, 3)
    assert str(caught) == "bad_request: no (tried 3 times)"


def test_a_try_that_was_not_sent_counts_as_none() -> None:
    caught = failing(Script(error(), error(Failure.UNSUPPORTED, partial=NOT_SENT)))
    assert (caught.tries, caught.partial.usage.requests) == (2, 1)


def test_a_defect_is_not_retried_and_gives_its_place_back() -> None:
    async def main() -> Reply:
        flow = Flow(flow_settings(max_concurrency=1))
        with pytest.raises(KeyError):
            await flow.collect(request(), Script(KeyError("defect")))
        return await flow.collect(request(), Script())

    assert run(main()).usage.requests == 1


def test_waits_as_long_as_the_server_asked() -> None:
    send = Script(*(error(Failure.RATE_LIMITED, retry_after_s=wait_s) for wait_s in (2.0, 0.0, 7.5)))
    collect(send)
    assert send.began_s == pytest.approx([0.0, 2.0, 2.0 + OPENING_GAP_S, 9.5 + OPENING_GAP_S])


def test_what_failed_tries_took_is_counted() -> None:
    def spent(**fields: int) -> Reply:
        return Reply((), Usage(requests=1, tokens_in=100, tokens_out=7, **fields))

    garbled = error(Failure.GARBLED, partial=spent(tokens_wasted=107, tokens_reasoning=2, tokens_cached=50))
    got = collect(Script(garbled, error(Failure.EMPTY, partial=spent(tokens_wasted=107))))
    assert (texts(got), got.usage.requests, got.usage.retries) == (["fine"], 3, 2)
    assert (got.usage.tokens_in, got.usage.tokens_out, got.usage.tokens_wasted) == (210, 24, 214)
    assert (got.usage.tokens_reasoning, got.usage.tokens_cached) == (2, 50)


def test_the_rest_is_asked_for_again() -> None:
    send = Script(reply("a", "b"), reply("c"), reply("d", "e"))
    got = collect(send, n=5)
    assert (texts(got), send.asked) == (["a", "b", "c", "d", "e"], [5, 3, 2])
    assert (got.usage.requests, got.usage.retries, got.usage.tokens_in) == (3, 0, 30)


def test_no_more_samples_a_try_than_declared() -> None:
    send = Script()
    assert len(collect(send, n=5, samples_per_request=2).completions) == 5
    assert send.asked == [2, 2, 1]


def test_all_parts_of_a_call_are_sent_at_once() -> None:
    send = Script(takes_s=1.0)
    collect(send, n=5, samples_per_request=2)
    assert send.most_inside == 3


class Parts:
    """Replies to the parts of a call: a part's text, and after how many seconds it arrives; "" fails for good."""

    def __init__(self, *ends: tuple[str, float]) -> None:
        self.ends, self.arrived = list(ends), list[tuple[int, str]]()

    async def __call__(self, _: Request, n: int) -> Reply:
        text, takes_s = self.ends.pop(0)
        await asyncio.sleep(takes_s)
        if not text:
            raise error(Failure.REFUSED, partial=Reply((), Usage(requests=1, tokens_in=7)))
        return reply(*[text] * n)

    async def note(self, first: int, part: Reply) -> None:
        self.arrived.append((first, texts(part)[0]))
        await asyncio.sleep(1 / (1 + first))

    def of(self, n: int, **settings: Any) -> Reply:
        asked = replace(request(n), arrived=self.note)
        return run(Flow(flow_settings(**settings)).collect(asked, self))


def test_samples_are_numbered_in_the_order_in_which_they_arrive() -> None:
    parts = Parts(("a", 3.0), ("b", 1.0), ("c", 2.0))
    assert texts(parts.of(5, samples_per_request=2)) == ["b", "b", "c", "a", "a"]
    assert parts.arrived == [(0, "b"), (2, "c"), (3, "a")]


def test_if_a_part_fails_those_in_flight_are_kept_and_no_other_is_sent() -> None:
    parts = Parts(("a", 3.0), ("", 1.0), ("c", 4.0), ("never sent", 1.0))
    with pytest.raises(CallError) as caught:
        parts.of(4, samples_per_request=1, max_concurrency=2)
    assert caught.value.failure is Failure.REFUSED
    assert texts(caught.value.partial) == ["a"] and parts.arrived == [(0, "a")]
    assert (caught.value.partial.usage.requests, caught.value.partial.usage.tokens_in) == (2, 17)
    assert [text for text, _ in parts.ends] == ["c", "never sent"]


def test_a_part_that_fails_after_it_has_arrived_leaves_a_gap() -> None:
    async def lost(first: int, _: Reply) -> None:
        if first == 0:
            raise error(Failure.REFUSED, partial=NOT_SENT)

    parts = Parts(("a", 1.0), ("b", 2.0))
    with pytest.raises(CallError) as caught:
        run(Flow(flow_settings(samples_per_request=1)).collect(replace(request(2), arrived=lost), parts))
    assert texts(caught.value.partial) == [] and caught.value.partial.usage.requests == 1


def test_a_failure_keeps_the_samples_that_arrived_and_what_all_took() -> None:
    lost = error(Failure.REFUSED, partial=Reply((), Usage(requests=1, tokens_in=10, tokens_out=3, tokens_wasted=13)))
    caught = failing(Script(reply("a"), error(), reply("b"), lost), n=4)
    assert caught.failure is Failure.REFUSED
    assert texts(caught.partial) == ["a", "b"]
    assert (caught.partial.usage.requests, caught.partial.usage.retries) == (4, 1)
    lost = caught.partial.usage
    assert (lost.tokens_in, lost.tokens_out, lost.tokens_wasted) == (30, 23, 13)


def test_retries_are_bounded_for_each_request_of_a_call() -> None:
    send = Script(error(), error(), error(), reply("a"), reply("b"), reply("c"))
    assert collect(send, n=3, max_retries=1, samples_per_request=1).usage.retries == 3


def test_a_request_that_waits_to_be_sent_again_holds_no_place() -> None:
    async def main() -> list[float]:
        flow = Flow(flow_settings(max_concurrency=1))
        waits = Script(error(Failure.RATE_LIMITED, retry_after_s=100.0), takes_s=1.0)
        others = Script(takes_s=1.0)
        await asyncio.gather(flow.collect(request(), waits), *(flow.collect(request(), others) for _ in range(5)))
        assert waits.began_s == pytest.approx([0.0, 101.0])
        return others.began_s

    assert run(main()) == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0])


def test_a_request_sent_again_goes_before_new_ones() -> None:
    async def main() -> list[float]:
        flow = Flow(flow_settings(max_concurrency=1))
        again = Script(error(Failure.RATE_LIMITED, retry_after_s=1.5), takes_s=1.0)
        others = Script(takes_s=1.0)
        await asyncio.gather(flow.collect(request(), again), *(flow.collect(request(), others) for _ in range(5)))
        return again.began_s

    assert run(main()) == pytest.approx([0.0, 3.0])


def test_a_try_ends_after_the_whole_timeout() -> None:
    send = Script(takes_s=1000.0)
    caught = failing(send, timeout_s=60.0, max_retries=1)
    assert (caught.failure, caught.tries) == (Failure.TIMEOUT, 2)
    assert caught.message == "the reply was not complete within 60 s: increase timeout_s"
    assert send.began_s[0] == 0.0
    assert 60.025 <= send.began_s[1] <= 60.05
    assert send.inside == 0


def test_waiting_for_a_place_is_no_timeout() -> None:
    async def main() -> list[Reply]:
        flow, send = Flow(flow_settings(max_concurrency=1, timeout_s=2.0)), Script(takes_s=1.0)
        return await asyncio.gather(*(flow.collect(request(), send) for _ in range(10)))

    assert [got.usage.retries for got in run(main())] == [0] * 10


@pytest.mark.parametrize("failure", [Failure.OVERLOADED, Failure.RATE_LIMITED, Failure.TIMEOUT])
def test_an_overloaded_server_gets_fewer_requests_at_once(failure: Failure) -> None:
    assert limit_after(failure) == 44


@pytest.mark.parametrize("failure", [Failure.SERVER_ERROR, Failure.CONNECTION, Failure.GARBLED, Failure.BAD_REQUEST])
def test_other_faults_do_not_say_so(failure: Failure) -> None:
    assert limit_after(failure) == 64


def limit_after(failure: Failure) -> int:
    """The limit after 64 tries at once that all failed."""

    async def main() -> int:
        flow, send = Flow(flow_settings(max_retries=0)), Script(*(error(failure) for _ in range(64)), takes_s=1.0)
        await asyncio.gather(*(flow.collect(request(), send) for _ in range(64)), return_exceptions=True)
        return flow.concurrency.limit

    return run(main())


OPENING = [number * OPENING_GAP_S for number in range(5)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, OPENING),
        ({"requests_per_minute": 60}, [0.0, OPENING_GAP_S, 1.0, 2.0, 3.0]),
        # the prompt is estimated at 200 tokens or more; the reply's true count is made up for afterwards
        ({"tokens_per_minute": 600_000_000}, OPENING),
    ],
)
def test_rates(limits: dict[str, int], expected: list[float]) -> None:
    async def main() -> list[float]:
        flow, send = Flow(flow_settings(**limits)), Script()
        await asyncio.gather(*(flow.collect(request(), send) for _ in range(5)))
        return send.began_s

    assert run(main()) == pytest.approx(expected)


def test_only_the_first_requests_are_spread() -> None:
    async def main() -> list[float]:
        flow, send = Flow(flow_settings(max_concurrency=3)), Script(takes_s=1.0)
        await asyncio.gather(*(flow.collect(request(), send) for _ in range(5)))
        return send.began_s

    gap_s = OPENING_GAP_S
    assert run(main()) == pytest.approx([0.0, gap_s, 2 * gap_s, 1.0, 1.0 + gap_s])


def test_true_token_counts_replace_the_estimates() -> None:
    """A thousand a second: the first reply took ten thousand, so the second request waits ten seconds less a burst."""

    async def main() -> list[float]:
        flow, send = Flow(flow_settings(tokens_per_minute=60_000)), Script(reply("a", tokens=5_000))
        for _ in range(2):
            await flow.collect(request(), send)
        return send.began_s

    assert run(main()) == pytest.approx([0.0, 9.0])


@pytest.mark.parametrize("tokens_out", [20, 1024])
def test_tokens_a_minute_hold_for_what_is_sent_before_the_first_reply(tokens_out: int) -> None:
    """Whatever the replies take, of all those at once; and where they are short the limit is used."""
    took = 1000 + tokens_out
    limit = 60_000

    async def main() -> list[float]:
        flow = Flow(flow_settings(tokens_per_minute=limit))
        answer = Reply((Completion("a"),), Usage(requests=1, tokens_in=1000, tokens_out=tokens_out))
        send = Script(*[answer] * 200, takes_s=2.0)
        asked = Request(PROMPT, Sampling(max_tokens=1024), (0,))
        await asyncio.gather(*(flow.collect(asked, send) for _ in range(200)))
        return send.began_s

    began_s = run(main())
    busiest = max(sum(begin_s <= other < begin_s + 60 for other in began_s) for begin_s in began_s)
    assert busiest * took <= 1.05 * limit
    assert began_s[-1] <= 200 * took / limit * 60 + 5


@pytest.mark.parametrize(("failure", "later_s"), [(Failure.BAD_REQUEST, 0.0), (Failure.TIMEOUT, 1.0)])
def test_a_request_that_was_refused_takes_no_tokens(failure: Failure, later_s: float) -> None:
    async def main() -> float:
        flow = Flow(flow_settings(tokens_per_minute=60_000, max_retries=0))
        send = Script(error(failure, partial=NOT_SENT))
        asked = Request(PROMPT, Sampling(max_tokens=2000), (0,))
        with pytest.raises(CallError):
            await flow.collect(asked, send)
        await flow.collect(asked, send)
        return send.began_s[1]

    assert run(main()) == pytest.approx(later_s, abs=0.5)


def test_rates_hold_for_what_waited_for_a_place() -> None:
    """One request holds the only place for a minute; the others must not be sent in a burst after it."""

    async def main() -> list[float]:
        flow = Flow(flow_settings(max_concurrency=1, requests_per_minute=60))
        slow, others = Script(takes_s=60.0), Script()
        await asyncio.gather(flow.collect(request(), slow), *(flow.collect(request(), others) for _ in range(30)))
        return others.began_s

    began_s = run(main())
    assert all(later - sooner >= 1 - 1e-9 for sooner, later in pairwise(began_s[1:]))
