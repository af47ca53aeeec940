"""One budget of several processes: what they spend together, what a lost one had under way, and where it is kept."""

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from groundtrace.inference.coordination.budget import Budget
from groundtrace.inference.coordination.peers import Peers
from groundtrace.inference.coordination.spending import Cost
from groundtrace.inference.errors import BudgetUsedUp, RunStopped

ONE = Cost(0.0, 30)


def tokens(count: int) -> Cost:
    return Cost(0.0, count)


class Process(Budget):
    """The budget of one process of the run with notes in ``folder/run``."""

    def __init__(self, folder: Path, limit: int, **fields: object) -> None:
        run = folder / "run"
        run.mkdir(exist_ok=True)
        self.peers = Peers(folder / "coordination")
        super().__init__(None, limit, str(run), self.peers, **fields)


def meet(budgets: Sequence[Process]) -> None:
    """All know of each other."""
    end_s = time.monotonic() + 20
    while waiting := [each for each in budgets if not (each.peers.join() and each.peers.has_peers)]:
        assert time.monotonic() < end_s, waiting
        time.sleep(0.002)


def budgets(folder: Path, count: int, limit: int = 100) -> list[Process]:
    every = [Process(folder, limit) for _ in range(count)]
    if count > 1:
        meet(every)
    return every


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path


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
            each.peers.close()

    asyncio.run(main())


def test_an_idle_process_takes_nothing_away(path: Path) -> None:
    async def main() -> int:
        busy, idle = budgets(path, 2)
        await idle.reserve(tokens(10))
        idle.settle(tokens(10), tokens(10))
        for _ in range(9):
            await busy.reserve(tokens(10))
            busy.settle(tokens(10), tokens(10))
        for each in (busy, idle):
            each.peers.close()
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
        for each in (one, two):
            each.peers.close()

    asyncio.run(main())


def test_what_was_under_way_when_all_were_killed_counts_as_spent(path: Path) -> None:
    async def main() -> None:
        (killed,) = budgets(path, 1)
        await killed.reserve(tokens(60))
        killed.peers.close()
        (later,) = budgets(path, 1)
        with pytest.raises(BudgetUsedUp, match="60 of 100 tokens"):
            await later.reserve(tokens(50))

    asyncio.run(main())


def note(folder: Path, process: str, *paid: int, in_process: bool = False) -> None:
    lines = [{"tokens_in": each, "tokens_out": 0, "cost_usd": 0.0, "in_process": in_process} for each in paid]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / f"paid-{process}.jsonl").write_text(text + '{"tokens_in": 5', "utf-8")


def test_what_a_killed_process_has_spent_is_read_from_its_notes(path: Path) -> None:
    note(path, "12-ab", 30, 20)
    note(path, "13-ab", 1000, in_process=True)
    (path / "run" / "failed-12-ab.jsonl").write_text("x", "utf-8")

    async def main() -> None:
        (later,) = budgets(path, 1)
        await later.reserve(tokens(40))
        later.settle(tokens(40), tokens(40))
        with pytest.raises(BudgetUsedUp, match="90 of 100 tokens"):
            await later.reserve(tokens(20))
        later.peers.close()

    asyncio.run(main())


def test_a_worker_that_replaces_a_lost_one_spends_no_second_part(path: Path) -> None:
    """Each of two machines has 50; one is replaced when all is spent but 10."""

    async def main() -> None:
        one = Process(path, 100, workers=2)
        await one.reserve(tokens(50))
        one.settle(tokens(50), tokens(50))
        with pytest.raises(BudgetUsedUp, match="50 of 100 tokens, by 2 workers in equal parts"):
            await one.reserve(tokens(1))
        one.peers.close()
        note(path, one.peers.me, 50)
        note(path, "77-ab", 40)
        (path / "coordination").rename(path / "lost")
        another = Process(path, 100, workers=2)
        await another.reserve(tokens(5))
        another.settle(tokens(5), tokens(5))
        note(path, "77-ab", 40, 2)
        another.read_notes()
        with pytest.raises(BudgetUsedUp, match="97 of 100 tokens"):
            await another.reserve(tokens(5))
        another.peers.close()

    asyncio.run(main())


def test_a_folder_that_a_worker_does_not_see_ends_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        peers = Peers(tmp_path / "coordination")
        try:
            await Budget(None, 100, str(tmp_path / "elsewhere"), peers).reserve(tokens(1))
        finally:
            peers.close()

    with pytest.raises(RunStopped, match=r"cannot find the folder .*elsewhere with .*: give all workers access"):
        asyncio.run(main())
    assert not (tmp_path / "elsewhere").exists()


def test_the_next_wave_goes_on_with_what_is_left(path: Path) -> None:
    async def main() -> Cost:
        (one,) = budgets(path, 1)
        await one.reserve(ONE)
        one.settle(ONE, ONE)
        one.peers.close()
        (two,) = budgets(path, 1)
        await two.reserve(ONE)
        two.peers.close()
        return two.spent

    assert asyncio.run(main()) == ONE


def test_a_run_beside_has_its_own_budget(path: Path) -> None:
    async def main() -> None:
        one, two = budgets(path, 2)
        (path / "other").mkdir()
        other = Budget(None, 100, str(path / "other"), two.peers)
        await one.reserve(tokens(100))
        await other.reserve(tokens(100))
        for each in (one, two):
            each.peers.close()

    asyncio.run(main())


def test_without_a_bound_nothing_is_shared(tmp_path: Path) -> None:
    async def main() -> Cost:
        budget = Budget(None, None, str(tmp_path / "run"), Peers(tmp_path / "coordination"))
        await budget.reserve(ONE)
        budget.settle(ONE, ONE)
        return budget.spent

    assert asyncio.run(main()) == ONE
    assert list(tmp_path.iterdir()) == []


@examples(max_examples=25, deadline=None)
@given(limit=st.integers(50, 400), processes=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_the_overshoot_is_what_those_under_way_were_underestimated(
    limit: int, processes: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And what is left over does not pay for one more request."""
    drawn, path = random.Random(seed), tmp_path_factory.mktemp("run")
    under = [0]

    async def ask(budget: Process) -> None:
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
        for budget in opened:
            budget.peers.close()
        return max(budget.spent.tokens for budget in opened)

    spent = asyncio.run(main())
    at_once = 3 * processes
    assert spent <= limit + sum(sorted(under)[-at_once:])
    assert spent > limit - ONE.tokens
