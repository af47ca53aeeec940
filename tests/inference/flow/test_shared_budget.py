"""One budget of several processes: what they spend together, what a lost one had under way, and where it is kept."""

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from groundtrace.inference.errors import BudgetUsedUp, RunStopped
from groundtrace.inference.flow.budget import LOST_S, Budget, Cost, Ledger, budget_path, share_budget

ONE = Cost(0.0, 30)


def tokens(count: int) -> Cost:
    return Cost(0.0, count)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = budget_path(str(tmp_path))
    assert found is not None
    share_budget(found, None, 100)
    return found


def budgets(path: Path, count: int, limit: int = 100) -> list[Budget]:
    return [Budget(None, limit, path) for _ in range(count)]


def test_what_one_spends_is_missing_for_the_others(path: Path) -> None:
    async def main() -> None:
        one, two = budgets(path, 2)
        await one.reserve(tokens(60))
        one.settle(tokens(60), tokens(90))
        with pytest.raises(BudgetUsedUp, match="the budget is used up: 90 of 100 tokens"):
            await two.reserve(tokens(20))
        with pytest.raises(BudgetUsedUp):
            await one.reserve(tokens(1))  # after one was refused, all are
        for each in (one, two):
            each.close()

    asyncio.run(main())


def test_an_idle_process_takes_nothing_away(path: Path) -> None:
    async def main() -> int:
        busy, idle = budgets(path, 2)
        await idle.reserve(tokens(10))
        idle.settle(tokens(10), tokens(10))
        for _ in range(9):
            await busy.reserve(tokens(10))
            busy.settle(tokens(10), tokens(10))
        return busy.spent.tokens

    assert asyncio.run(main()) == 100


def test_one_waits_for_what_another_has_under_way(path: Path) -> None:
    async def main() -> None:
        one, two = budgets(path, 2)
        await one.reserve(tokens(60))
        waiting = asyncio.create_task(two.reserve(tokens(60)))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        one.settle(tokens(60), tokens(10))
        await asyncio.wait_for(waiting, 5)
        assert two.spent == tokens(10)

    asyncio.run(main())


def test_what_a_lost_process_had_under_way_counts_as_spent() -> None:
    ledger = Ledger(None, 100)
    assert ledger.reserve("lost", tokens(60), 1000.0) is True
    assert ledger.reserve("other", tokens(60), 1000.0 + LOST_S - 1) is None
    assert ledger.reserve("other", tokens(40), 1000.0 + LOST_S) is True
    assert ledger.spent == tokens(60)
    ledger.settle("lost", tokens(60), tokens(10), "p", 1, 5)  # it was only stopped for long
    assert ledger.spent == tokens(10)
    assert ledger.reserve("lost", tokens(50), 1000.0 + LOST_S) is True
    ledger.settle("lost", tokens(50), tokens(50), "p", 1, 5)
    ledger.settle("other", tokens(40), tokens(40), "p", 1, 5)
    assert ledger.spent == tokens(100)


def test_a_process_that_says_that_it_is_there_is_not_lost() -> None:
    ledger = Ledger(None, 100)
    assert ledger.reserve("slow", tokens(60), 1000.0) is True
    ledger.renewed("slow", 1000.0 + LOST_S - 1)
    assert ledger.reserve("other", tokens(60), 1000.0 + LOST_S) is None


def test_what_was_under_way_when_all_were_killed_counts_as_spent(path: Path) -> None:
    async def main() -> None:
        (killed,) = budgets(path, 1)
        await killed.reserve(tokens(60))
        killed.close()
        (later,) = budgets(path, 1)
        with pytest.raises(BudgetUsedUp, match="60 of 100 tokens"):
            await later.reserve(tokens(50))

    asyncio.run(main())


def test_what_a_prompt_took_is_learnt_by_all(path: Path) -> None:
    async def main() -> int:
        one, two = budgets(path, 2)
        for each in (one, two):
            await each.reserve(tokens(1))
            each.settle(tokens(1), tokens(1), "p", samples=19, tokens_out=1644)
        return two.expected_tokens_out("p", 1, 4096)

    assert asyncio.run(main()) == -(-(256 + 2 * 1644) // 39)


def test_a_folder_that_a_worker_does_not_see_ends_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        await Budget(None, 100, tmp_path / "elsewhere" / "budget.json").reserve(tokens(1))

    with pytest.raises(RunStopped, match=r"a worker cannot find .*elsewhere/budget\.json, .*: give all workers access"):
        asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_ends_the_run(path: Path) -> None:
    path.write_text("{", "utf-8")
    with pytest.raises(RunStopped, match=r"a worker cannot use .*budget\.json"):
        asyncio.run(budgets(path, 1)[0].reserve(tokens(1)))


def test_a_file_that_is_there_is_not_begun_anew(path: Path) -> None:
    async def main() -> Cost:
        (one,) = budgets(path, 1)
        await one.reserve(ONE)
        one.settle(ONE, ONE)
        one.close()
        share_budget(path, None, 100)  # the next wave
        (two,) = budgets(path, 1)
        await two.reserve(ONE)
        return two.spent

    assert asyncio.run(main()) == ONE


def test_without_a_bound_there_is_no_file(tmp_path: Path) -> None:
    async def main() -> Cost:
        budget = Budget(None, None, tmp_path / "budget.json")
        await budget.reserve(ONE)
        budget.settle(ONE, ONE)
        budget.close()
        return budget.spent

    assert asyncio.run(main()) == ONE
    assert list(tmp_path.iterdir()) == []
    assert budget_path("") is None


@examples(max_examples=25, deadline=None)
@given(limit=st.integers(50, 400), processes=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_the_overshoot_is_what_those_under_way_were_underestimated(
    limit: int, processes: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And what is left over does not pay for one more request."""
    drawn, path = random.Random(seed), tmp_path_factory.mktemp("run") / "budget.json"
    share_budget(path, None, limit)
    under = [0]

    async def ask(budget: Budget) -> None:
        with pytest.raises(BudgetUsedUp):
            while True:
                took = drawn.randint(0, 45)
                await budget.reserve(ONE)
                await asyncio.sleep(0)
                under.append(max(0, took - ONE.tokens))
                budget.settle(ONE, tokens(took))

    async def main() -> int:
        opened = budgets(path, processes, limit)
        await asyncio.gather(*(ask(budget) for budget in opened for _ in range(3)))
        return max(budget.spent.tokens for budget in opened)

    spent = asyncio.run(main())
    at_once = 3 * processes
    assert spent <= limit + sum(sorted(under)[-at_once:])
    assert spent > limit - ONE.tokens
