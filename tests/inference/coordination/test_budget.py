"""What all requests may take in all: never more under way than fits, used up to the end, then refused."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.coordination.budget import FIRST_GUESS_TOKENS_OUT, Budget
from groundtrace.inference.coordination.spending import Cost
from groundtrace.inference.errors import BudgetUsedUp


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def tokens(count: int) -> Cost:
    return Cost(0.0, count)


def test_a_request_waits_for_those_under_way_and_then_goes_on() -> None:
    async def main() -> None:
        budget = Budget(None, 100)
        await budget.reserve(tokens(60))
        waiting = asyncio.create_task(budget.reserve(tokens(60)))
        await settle()
        assert not waiting.done()
        budget.settle(tokens(60), tokens(10))
        await asyncio.wait_for(waiting, 1)
        assert budget.spent == tokens(10)
        assert not budget.exhausted

    asyncio.run(main())


def test_one_that_does_not_fit_alone_is_refused_and_then_all_are() -> None:
    async def main() -> None:
        budget = Budget(None, 100)
        await budget.reserve(tokens(90))
        budget.settle(tokens(90), tokens(90))
        for asked in (20, 1, 0):
            with pytest.raises(BudgetUsedUp, match="the budget is used up: 90 of 100 tokens"):
                await budget.reserve(tokens(asked))
        assert budget.exhausted

    asyncio.run(main())


def test_all_that_wait_are_refused_together() -> None:
    async def main() -> None:
        budget = Budget(None, 100)
        await budget.reserve(tokens(100))
        waiting = [asyncio.create_task(budget.reserve(tokens(1))) for _ in range(5)]
        await settle()
        budget.settle(tokens(100), tokens(100))
        ends = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
        assert [type(end) for end in ends] == [BudgetUsedUp] * 5
        assert len({id(end) for end in ends}) == 5

    asyncio.run(main())


@pytest.mark.parametrize(
    ("usd", "limit_tokens", "cost", "fits", "said"),
    [
        (1.0, None, Cost(1.0, 10**9), True, ""),
        (1.0, None, Cost(1.01, 0), False, "the budget is used up: $0.0000 of $1"),
        (None, 10, Cost(10.0**9, 10), True, ""),
        (None, 10, Cost(0.0, 11), False, "the budget is used up: 0 of 10 tokens"),
        (1.0, 10, Cost(1.0, 10), True, ""),
        (1.0, 10, Cost(1.01, 10), False, "the budget is used up: $0.0000 of $1, 0 of 10 tokens"),
        (0.5, 10, Cost(0.5, 11), False, "the budget is used up: $0.0000 of $0.5, 0 of 10 tokens"),
        (0.0, None, Cost(0.01, 1), False, "the budget is used up: $0.0000 of $0"),
        (0.0, None, Cost(0.0, 10**9), True, ""),
        (None, 0, Cost(0.0, 1), False, "the budget is used up: 0 of 0 tokens"),
        (None, None, Cost(10.0**9, 10**12), True, ""),
    ],
)
def test_dollars_and_tokens(usd: float | None, limit_tokens: int | None, cost: Cost, fits: bool, said: str) -> None:
    budget = Budget(usd, limit_tokens)
    if fits:
        asyncio.run(budget.reserve(cost))
        return
    with pytest.raises(BudgetUsedUp) as caught:
        asyncio.run(budget.reserve(cost))
    assert str(caught.value) == said


def test_without_a_limit_what_is_spent_is_still_known() -> None:
    async def main() -> Cost:
        budget = Budget(None, None)
        for _ in range(3):
            await budget.reserve(Cost(1.0, 100))
            budget.settle(Cost(1.0, 100), Cost(0.25, 10))
        return budget.spent

    assert asyncio.run(main()) == Cost(0.75, 30)


def test_a_residue_of_rounding_blocks_nothing() -> None:
    """0.1 + 0.2 - 0.1 - 0.2 is not 0."""

    async def main() -> None:
        budget = Budget(1.0, None)
        for _ in range(100):
            for usd in (0.1, 0.2, 0.7):
                await budget.reserve(Cost(usd))
            for usd in (0.1, 0.2, 0.7):
                budget.settle(Cost(usd), Cost())
        await asyncio.wait_for(budget.reserve(Cost(1.0)), 1)

    asyncio.run(main())


def test_a_budget_of_ten_dimes_pays_for_ten_dimes() -> None:
    """Ten times 0.1 is 0.9999999999999999, three times is 0.30000000000000004."""

    async def main(limit_usd: float, dimes: int) -> None:
        budget = Budget(limit_usd, None)
        for _ in range(dimes):
            await budget.reserve(Cost(0.1))
            budget.settle(Cost(0.1), Cost(0.1))
        with pytest.raises(BudgetUsedUp):
            await budget.reserve(Cost(0.1))

    for limit_usd, dimes in ((1.0, 10), (0.3, 3), (0.6, 6)):
        asyncio.run(main(limit_usd, dimes))


def test_a_waiting_request_that_is_cancelled_takes_nothing() -> None:
    async def main() -> None:
        budget = Budget(None, 100)
        await budget.reserve(tokens(100))
        waiting = asyncio.create_task(budget.reserve(tokens(100)))
        await settle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        budget.settle(tokens(100), tokens(0))
        await asyncio.wait_for(budget.reserve(tokens(100)), 1)

    asyncio.run(main())


def test_what_a_prompt_will_take_is_learnt_from_what_it_took() -> None:
    budget = Budget(None, None)
    assert budget.expected_tokens_out("p", 1, 4096) == FIRST_GUESS_TOKENS_OUT
    assert budget.expected_tokens_out("p", 3, 4096) == 3 * FIRST_GUESS_TOKENS_OUT
    assert budget.expected_tokens_out("p", 3, 16) == 48
    for _ in range(999):
        budget.saw("p", 1, 20)
    assert budget.expected_tokens_out("p", 10, 4096) == 210
    assert budget.expected_tokens_out("other", 1, 4096) == FIRST_GUESS_TOKENS_OUT
    budget.saw("other", 0, 0)
    assert budget.expected_tokens_out("other", 1, 4096) == FIRST_GUESS_TOKENS_OUT


@settings(max_examples=150)
@given(
    st.integers(0, 500),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 5)), max_size=40),
)
def test_never_more_under_way_than_fits(limit: int, requests: list[tuple[int, int, int]]) -> None:
    """Where no request takes more than was reserved for it, the limit is kept; each goes on or is refused."""

    async def main() -> None:
        budget, under_way = Budget(None, limit), 0

        async def ask(reserved: int, share: int, takes: int) -> bool:
            nonlocal under_way
            await budget.reserve(tokens(reserved))
            under_way += reserved
            assert budget.spent.tokens + under_way <= limit
            for _ in range(takes):
                await asyncio.sleep(0)
            under_way -= reserved
            budget.settle(tokens(reserved), tokens(reserved * share // 100))
            return True

        asked = asyncio.gather(*(ask(*request) for request in requests), return_exceptions=True)
        ends = await asyncio.wait_for(asked, 10)
        assert all(end is True or isinstance(end, BudgetUsedUp) for end in ends)
        assert budget.spent.tokens <= limit
        assert budget.exhausted == any(isinstance(end, BudgetUsedUp) for end in ends)

    asyncio.run(main())
