"""How much is under way at once: requests by urgency and by the server's load, bytes in order, units a minute."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.flow.limits import ConcurrencyLimit


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_no_more_inside_than_the_limit_and_everybody_in_order() -> None:
    async def main() -> None:
        concurrency, inside, order = ConcurrencyLimit(3), set(), []
        leave = asyncio.Event()

        async def visit(number: int) -> None:
            token = await concurrency.enter()
            inside.add(number)
            order.append(number)
            assert len(inside) <= 3
            await leave.wait()
            await settle()
            inside.discard(number)
            concurrency.leave(token)

        visits = [asyncio.ensure_future(visit(number)) for number in range(10)]
        await settle()
        assert inside == {0, 1, 2}
        leave.set()
        await asyncio.gather(*visits)
        assert order == list(range(10))

    asyncio.run(main())


async def queue_of(concurrency: ConcurrencyLimit, ranks: Sequence[int], order: list[int]) -> list[asyncio.Task[None]]:
    """One waiting visitor for each rank; each notes its place in ``ranks`` when it enters, and leaves."""

    async def visit(number: int, rank: int) -> None:
        token = await concurrency.enter(rank)
        order.append(number)
        concurrency.leave(token)

    tasks = [asyncio.create_task(visit(number, rank)) for number, rank in enumerate(ranks)]
    await settle()
    return tasks


def test_the_lower_rank_goes_first_and_equal_ones_in_order() -> None:
    async def main() -> list[int]:
        concurrency, order = ConcurrencyLimit(1), []
        token = await concurrency.enter()
        tasks = await queue_of(concurrency, [0, 0, -1, 0, -3, -1], order)
        assert order == []
        concurrency.leave(token)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main()) == [4, 2, 5, 0, 1, 3]


@pytest.mark.parametrize("cancelled", [[0], [2], [0, 1, 2], [1, 3], [0, 1, 2, 3]])
def test_a_cancelled_visitor_gives_no_place_away(cancelled: list[int]) -> None:
    async def main() -> None:
        concurrency, order = ConcurrencyLimit(1), []
        token = await concurrency.enter()
        tasks = await queue_of(concurrency, [0] * 4, order)
        for number in cancelled:
            tasks[number].cancel()
        await settle()
        concurrency.leave(token)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == [number for number in range(4) if number not in cancelled]
        await both_ways(concurrency)

    asyncio.run(main())


@pytest.mark.parametrize("cancelled", [[], [0]])
def test_those_who_wait_are_refused_and_later_ones_let_in(cancelled: list[int]) -> None:
    async def main() -> None:
        concurrency, order = ConcurrencyLimit(1), []
        token = await concurrency.enter()
        tasks = await queue_of(concurrency, [0, 0], order)
        concurrency.refuse(ValueError("a full disk"))
        for number in cancelled:
            tasks[number].cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ended[len(cancelled) :]] == [ValueError] * (2 - len(cancelled))
        concurrency.leave(token)
        await both_ways(concurrency)

    asyncio.run(main())


def test_a_visitor_cancelled_while_it_is_let_in_passes_its_place_on() -> None:
    async def main() -> None:
        concurrency, order = ConcurrencyLimit(1), []
        token = await concurrency.enter()
        tasks = await queue_of(concurrency, [0, 0], order)
        concurrency.leave(token)  # the first has its place now, but has not run yet
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (tasks[0].cancelled(), order) == (True, [1])
        await both_ways(concurrency)

    asyncio.run(main())


async def both_ways(concurrency: ConcurrencyLimit) -> None:
    """The limit has exactly its one place: the first enters at once, the second does not."""
    token = await asyncio.wait_for(concurrency.enter(), 1)
    second = asyncio.create_task(concurrency.enter())
    await settle()
    assert not second.done()
    concurrency.leave(token)
    concurrency.leave(await second)


async def burst(concurrency: ConcurrencyLimit, overloaded: Sequence[bool]) -> None:
    """As many requests at once as the sequence is long, which then end in its order."""
    tokens = [await concurrency.enter() for _ in overloaded]
    for token, failed in zip(tokens, overloaded, strict=True):
        concurrency.leave(token, failed)


def test_a_burst_of_overloads_cuts_once() -> None:
    """All of them were begun before the cut: they say nothing of the smaller limit."""

    async def main() -> list[int]:
        concurrency, limits = ConcurrencyLimit(64), []
        for _ in range(3):
            await burst(concurrency, [True] * concurrency.limit)
            limits.append(concurrency.limit)
        return limits

    assert asyncio.run(main()) == [44, 30, 21]


def test_the_limit_never_falls_below_one() -> None:
    async def main() -> int:
        concurrency = ConcurrencyLimit(4)
        for _ in range(200):
            await burst(concurrency, [True] * concurrency.limit)
        return concurrency.limit

    assert asyncio.run(main()) == 1


@pytest.mark.parametrize(("share", "limit"), [(0.0, 64), (0.02, 64), (0.08, 64), (0.5, 1), (1.0, 1)])
def test_single_faults_do_not_cut(share: float, limit: int) -> None:
    """Evenly spread: the limit stays at the most, or goes down to one."""

    async def main() -> int:
        concurrency, ended = ConcurrencyLimit(64), 0
        for _ in range(200):
            failures = []
            for _ in range(concurrency.limit):
                ended += 1
                failures.append(int(ended * share) > int((ended - 1) * share))
            await burst(concurrency, failures)
        return concurrency.limit

    assert asyncio.run(main()) == limit


@pytest.mark.parametrize("most", [1, 3, 16, 64, 500])
def test_the_limit_comes_back_to_the_most(most: int) -> None:
    async def main() -> list[int]:
        concurrency, limits = ConcurrencyLimit(most), []
        for _ in range(40):
            await burst(concurrency, [True] * concurrency.limit)
        for _ in range(40 * 20):
            await burst(concurrency, [False] * concurrency.limit)
            limits.append(concurrency.limit)
        return limits

    limits = asyncio.run(main())
    assert limits == sorted(limits)
    assert limits[-1] == most


def test_without_adaptation_nothing_cuts() -> None:
    async def main() -> int:
        concurrency = ConcurrencyLimit(64, adaptive=False)
        for _ in range(5):
            await burst(concurrency, [True] * 64)
        return concurrency.limit

    assert asyncio.run(main()) == 64


@settings(max_examples=100)
@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(-3, 0), st.integers(0, 4), st.booleans(), st.booleans()), max_size=80),
)
def test_never_more_inside_than_the_limit_at_entry_and_all_are_admitted(
    most: int, visits: list[tuple[int, int, bool, bool]]
) -> None:
    """Whoever stays how long, is overloaded or is cancelled on the way."""

    async def main() -> None:
        concurrency, inside, admitted = ConcurrencyLimit(most), 0, 0

        async def visit(rank: int, stays: int, overloaded: bool) -> None:
            nonlocal inside, admitted
            token = await concurrency.enter(rank)
            inside, admitted = inside + 1, admitted + 1
            assert inside <= most
            try:
                for _ in range(stays):
                    await asyncio.sleep(0)
            finally:
                inside -= 1
                concurrency.leave(token, overloaded)
                assert 1 <= concurrency.limit <= most

        tasks = [asyncio.create_task(visit(*visit_of)) for *visit_of, _ in visits]
        await asyncio.sleep(0)
        for task, (*_, cancelled) in zip(tasks, visits, strict=True):
            if cancelled:
                task.cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        defects = [end for end in done if isinstance(end, AssertionError)]
        assert defects == []
        assert admitted >= sum(not cancelled for *_, cancelled in visits)
        assert inside == 0
        concurrency.leave(await asyncio.wait_for(concurrency.enter(), 1))

    asyncio.run(main())


@settings(max_examples=100)
@given(st.integers(1, 40), st.lists(st.booleans(), min_size=1, max_size=300))
def test_a_place_is_given_only_below_the_limit_in_force(most: int, ends: list[bool]) -> None:
    """A lowered limit sends nobody out, but lets nobody in until enough have left."""

    async def main() -> None:
        concurrency, inside = ConcurrencyLimit(most), []
        for overloaded in ends:
            while len(inside) < concurrency.limit:
                inside.append(await concurrency.enter())
            waiting = asyncio.create_task(concurrency.enter())
            await settle()
            assert not waiting.done()
            concurrency.leave(inside.pop(0), overloaded)
            await settle()
            assert waiting.done() == (len(inside) < concurrency.limit)
            if waiting.done():
                inside.append(waiting.result())
            else:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(main())
