"""Bytes in flight and units a minute: in order, something too large alone, never more than allowed."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.flow.limits import BURST_S, OPENING_GAP_S, BytesInFlight, Opening, Rate


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


class Holders:
    """Tasks that hold bytes until they are let go."""

    def __init__(self, most: int, sizes: Sequence[int]) -> None:
        self.inside: list[int] = []
        self._bytes = BytesInFlight(most)
        self._go = [asyncio.Event() for _ in sizes]
        self.tasks = [asyncio.create_task(self._hold(number, size)) for number, size in enumerate(sizes)]

    async def _hold(self, number: int, size_bytes: int) -> None:
        async with self._bytes.holding(size_bytes):
            self.inside.append(number)
            try:
                await self._go[number].wait()
            finally:
                self.inside.remove(number)

    async def let_go(self, *numbers: int) -> None:
        for number in numbers:
            self._go[number].set()
        await settle()

    async def cancel(self, *numbers: int) -> None:
        for number in numbers:
            self.tasks[number].cancel()
        await settle()


def test_in_the_order_of_asking() -> None:
    """The small third one would fit beside the first, but the second came before it."""

    async def main() -> None:
        holders = Holders(10, [6, 6, 2, 2])
        await settle()
        assert holders.inside == [0]
        await holders.let_go(0)
        assert holders.inside == [1, 2, 3]
        await holders.let_go(1, 2, 3)
        assert all(task.done() for task in holders.tasks)

    asyncio.run(main())


def test_something_oversized_is_let_through_alone() -> None:
    async def main() -> None:
        holders = Holders(10, [1, 50, 1, 10, 1])
        await settle()
        assert holders.inside == [0]
        await holders.let_go(0)
        assert holders.inside == [1]
        await holders.let_go(1)
        assert holders.inside == [2]
        await holders.let_go(2)
        assert holders.inside == [3]
        await holders.let_go(3, 4)
        assert all(task.done() for task in holders.tasks)

    asyncio.run(main())


def test_cancelled_ones_hold_nothing() -> None:
    async def main() -> None:
        holders = Holders(10, [10, 10, 10, 10])
        await settle()
        await holders.cancel(1)  # it waits
        assert holders.inside == [0]
        await holders.cancel(0)  # it holds
        assert holders.inside == [2]
        await holders.let_go(2)
        assert holders.inside == [3]
        await holders.let_go(3)

    asyncio.run(main())


def test_one_cancelled_while_it_is_let_in_gives_the_bytes_back() -> None:
    async def main() -> None:
        held = BytesInFlight(10)

        async def hold() -> None:
            async with held.holding(10):
                raise AssertionError("it was cancelled before it ran")

        async with held.holding(10):
            waiting = asyncio.create_task(hold())
            await settle()
        waiting.cancel()  # the bytes are its own now, but it has not run yet
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        async with asyncio.timeout(1), held.holding(10):
            pass

    asyncio.run(main())


def test_the_one_behind_a_cancelled_one_goes_at_once() -> None:
    async def main() -> None:
        holders = Holders(10, [6, 6, 4])
        await settle()
        await holders.cancel(1)
        assert holders.inside == [0, 2]
        await holders.let_go(0, 2)

    asyncio.run(main())


def test_an_error_gives_the_bytes_back() -> None:
    async def main() -> None:
        held = BytesInFlight(10)
        for _ in range(3):
            with pytest.raises(KeyError):
                async with held.holding(10):
                    raise KeyError("a defect")
        async with asyncio.timeout(1), held.holding(10):
            pass

    asyncio.run(main())


@settings(max_examples=100)
@given(st.integers(1, 100), st.lists(st.tuples(st.integers(0, 150), st.integers(0, 4), st.booleans()), max_size=60))
def test_never_more_bytes_than_the_most_but_for_one_alone(most: int, holds: list[tuple[int, int, bool]]) -> None:
    async def main() -> None:
        held, inside = BytesInFlight(most), []

        async def hold(size_bytes: int, stays: int) -> None:
            async with held.holding(size_bytes):
                inside.append(size_bytes)
                others = [size for size in inside if size]
                assert sum(inside) <= most or len(others) == 1
                for _ in range(stays):
                    await asyncio.sleep(0)
                inside.remove(size_bytes)

        tasks = [asyncio.create_task(hold(size_bytes, stays)) for size_bytes, stays, _ in holds]
        for task, (*_, cancelled) in zip(tasks, holds, strict=True):
            if cancelled:
                task.cancel()
        ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends)
        async with asyncio.timeout(1), held.holding(most):
            pass

    asyncio.run(main())


@pytest.mark.parametrize(
    ("per_minute", "taken", "expected"),
    [
        # one a second: the burst of a second's worth is one
        (60, [(0, 1), (0, 1), (0, 1)], [0, 0, 1]),
        (60, [(0, 1), (1, 1), (2, 1), (3, 1)], [0, 0, 0, 0]),
        (60, [(0, 1), (30, 1), (30, 1), (30, 1)], [0, 0, 0, 1]),
        # ten a second
        (600, [(0, 10), (0, 10), (0, 1)], [0, 0, 1]),
        (600, [(0, 1)] * 12, [*[0] * 11, 0.1]),
        # what is larger than the burst goes at once, and the next one waits for it
        (60, [(0, 30), (0, 1), (29, 1)], [0, 29, 1]),
        # given back
        (60, [(0, 30), (0, -29), (0, 1), (0, 1)], [0, 29, 0, 1]),
        (60, [(0, -1000), (0, 1), (0, 1), (0, 1)], [0, 0, 0, 1]),
        # a correction upwards counts
        (60, [(0, 1), (0, 9), (0, 1)], [0, 0, 9]),
        (0, [(0, 10**9)] * 3, [0, 0, 0]),
    ],
)
def test_delays(per_minute: int, taken: list[tuple[float, float]], expected: list[float]) -> None:
    rate, waits_s = Rate(per_minute), []
    for now_s, amount in taken:
        waits_s.append(rate.wait_s(1000.0 + now_s))
        rate.take(amount, 1000.0 + now_s)
    assert waits_s == pytest.approx(expected)


@settings(max_examples=300)
@given(
    st.integers(1, 6000),
    st.lists(st.tuples(st.floats(0, 20), st.integers(1, 50)), min_size=1, max_size=100),
    st.floats(0, 1000),
)
def test_never_more_than_per_minute_in_any_minute(
    per_minute: int, asked: list[tuple[float, int]], start_s: float
) -> None:
    """Beyond that come the burst and the one that begins last in the minute."""
    rate, now_s, begun = Rate(per_minute), start_s, []
    for pause_s, amount in asked:
        now_s += pause_s
        now_s += rate.wait_s(now_s)
        rate.take(amount, now_s)
        begun.append((now_s, amount))
    assert [begin_s for begin_s, _ in begun] == sorted(begin_s for begin_s, _ in begun)
    largest = max(amount for _, amount in begun)
    for first_s, _ in begun:
        minute = sum(amount for begin_s, amount in begun if first_s <= begin_s < first_s + 60)
        assert minute <= per_minute * (60 + BURST_S) / 60 + largest + 1e-6


def test_the_opening_spreads_the_first_requests_only() -> None:
    opening = Opening(3)
    assert [opening.delay_s(0.0) for _ in range(5)] == pytest.approx([0.0, OPENING_GAP_S, 2 * OPENING_GAP_S, 0.0, 0.0])


def test_requests_that_come_late_by_themselves_do_not_wait() -> None:
    opening = Opening(3)
    assert [opening.delay_s(now_s) for now_s in (0.0, 1.0, 2.0)] == [0.0, 0.0, 0.0]
