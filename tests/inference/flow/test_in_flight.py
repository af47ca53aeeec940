import asyncio
from dataclasses import dataclass

import pytest

from groundtrace.inference.flow.in_flight import count_for, one_in_flight
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.request import Completion, Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import load_prompt


@dataclass
class Tally:
    in_flight: int = 0


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_only_what_is_sent_is_in_flight() -> None:
    """Six requests are asked for and two may be sent at once: four wait."""
    prompt = load_prompt("judge_answer.v1").render(question="How many?", gold="3", predicted="three")

    async def main() -> None:
        tally, answer, sent = Tally(), asyncio.Event(), 0

        async def send(request: Request, n: int) -> Reply:
            nonlocal sent
            sent += 1
            await answer.wait()
            return Reply((Completion("fine"),))

        async def work() -> None:
            count_for(tally)
            flow = Flow(EndpointSettings("openai", "m", max_concurrency=2))
            request = Request(prompt, Sampling(), (0,))
            await asyncio.gather(*(flow.collect(request, send) for _ in range(6)))

        working = asyncio.create_task(work())
        await until(lambda: sent == 2)
        await asyncio.sleep(0.05)
        assert (sent, tally.in_flight) == (2, 2)
        answer.set()
        await working
        assert (sent, tally.in_flight) == (6, 0)

    asyncio.run(main())


def test_each_task_counts_for_its_own() -> None:
    async def main() -> None:
        tallies, go = (Tally(), Tally()), asyncio.Event()

        async def work(tally: Tally) -> None:
            count_for(tally)
            with one_in_flight():
                await asyncio.gather(nested(), nested())

        async def nested() -> None:
            with one_in_flight():
                await go.wait()

        tasks = [asyncio.create_task(work(tally)) for tally in tallies]
        await until(lambda: [tally.in_flight for tally in tallies] == [3, 3])
        go.set()
        await asyncio.gather(*tasks)
        assert [tally.in_flight for tally in tallies] == [0, 0]

    asyncio.run(main())


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_what_fails_is_no_longer_in_flight(error: type[BaseException]) -> None:
    async def main() -> Tally:
        tally = Tally()
        count_for(tally)
        with pytest.raises(error), one_in_flight():
            assert tally.in_flight == 1
            raise error
        return tally

    assert asyncio.run(main()).in_flight == 0


def test_without_a_tally_nothing_is_counted() -> None:
    with one_in_flight():
        pass
