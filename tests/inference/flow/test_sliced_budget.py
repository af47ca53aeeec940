"""A budget in slices: several processes together never take more than there is, and leave little of it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.inference.errors import BudgetUsedUp, RunStopped
from groundtrace.inference.flow.budget import Budget, Cost
from groundtrace.inference.flow.sliced_budget import MAX_SLICES, SlicedBudget, budget_of, slice_of
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.storage.places import StoreUnavailable
from groundtrace.storage.remote_path import RemotePath


@pytest.fixture
def bucket(new_bucket: Callable[[str], RemotePath]) -> RemotePath:
    return new_bucket("s3")


async def spend(budget: Budget, cost: Cost) -> int:
    """How many requests of this cost are let through."""
    count = 0
    while True:
        try:
            await budget.reserve(cost)
        except BudgetUsedUp:
            return count
        await asyncio.sleep(0)
        budget.settle(cost, cost)
        count += 1


def test_the_slices_are_the_whole() -> None:
    whole = Cost(3.0, 10**6)
    slices = [slice_of(whole, number) for number in range(MAX_SLICES)]
    assert slices == sorted(slices, key=lambda each: -each.usd)
    assert 0.998 * 3 < sum(each.usd for each in slices) <= 3.0
    assert 0.997 * 10**6 < sum(each.tokens for each in slices) <= 10**6


@pytest.mark.parametrize(
    ("usd", "tokens", "cost"),
    [
        (1.0, 3000, Cost(0.002, 10)),
        pytest.param(1.0, None, Cost(0.003, 50), marks=pytest.mark.stores),  # seconds of requests each
        pytest.param(None, 5000, Cost(0.0, 11), marks=pytest.mark.stores),
        pytest.param(1.0, None, Cost(0.3, 0), marks=pytest.mark.stores),
    ],
)
def test_processes_together_spend_no_more(
    usd: float | None, tokens: int | None, cost: Cost, bucket: RemotePath
) -> None:
    async def main() -> int:
        budgets = [SlicedBudget(usd, tokens, bucket / "notes/budget") for _ in range(3)]
        counts = await asyncio.gather(*(spend(budget, cost) for budget in budgets for _ in range(2)))
        for budget in budgets:
            budget.close()
        return sum(counts)

    count = asyncio.run(main())
    most = min(usd / cost.usd if usd else 1e9, tokens / cost.tokens if tokens else 1e9)
    assert count <= most + 1e-9
    assert count >= 0.9 * most - 3, "each process may be left with a part of a slice"


def test_one_that_comes_later_finds_what_is_left(bucket: RemotePath) -> None:
    async def main() -> tuple[int, int]:
        first = SlicedBudget(1.0, None, bucket / "budget")
        for _ in range(50):
            await first.reserve(Cost(0.01))
            first.settle(Cost(0.01), Cost(0.01))
        second = SlicedBudget(1.0, None, bucket / "budget")
        return await spend(second, Cost(0.01)), await spend(first, Cost(0.01))

    later, rest = asyncio.run(main())
    assert 44 <= later <= 50 and 50 + later + rest <= 100


def test_what_was_underestimated_is_made_up_for(bucket: RemotePath) -> None:
    async def main() -> None:
        budget = SlicedBudget(1.0, None, bucket / "budget")
        await budget.reserve(Cost(0.01))
        budget.settle(Cost(0.01), Cost(2.0))
        with pytest.raises(BudgetUsedUp, match=r"\$2\.0000 of \$0\.\d+, this worker's part of \$1"):
            await budget.reserve(Cost(0.01))

    asyncio.run(main())


def test_a_store_that_is_away_stops_the_run(bucket: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("s3://bucket: away")

    monkeypatch.setattr(RemotePath, "create", away)
    budget = SlicedBudget(1.0, None, bucket / "budget")
    with pytest.raises(RunStopped, match="budget cannot be read") as stopped:
        asyncio.run(budget.reserve(Cost(0.01)))
    assert stopped.value.resumable


def test_which_budget_a_worker_keeps(tmp_path: Path) -> None:
    def models(notes: str, usd: float | None) -> ModelsSettings:
        endpoint = EndpointSettings("classical", "colour")
        return ModelsSettings((("e", endpoint),), (("policy", "e"),), "c", "i", "r", notes=notes, budget_usd=usd)

    assert isinstance(budget_of(models("s3://bucket/run/ledger/now", 1.0)), SlicedBudget)
    assert type(budget_of(models(str(tmp_path), 1.0))) is Budget
    unbounded = budget_of(models("s3://bucket/run/ledger/now", None))
    asyncio.run(unbounded.reserve(Cost(5.0, 5)))
    unbounded.settle(Cost(5.0, 5), Cost(5.0, 5))
