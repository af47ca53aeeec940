"""A run's budget: its bounds, its shares, what was spent of it, and where it can be kept."""

from typing import Any

import pytest

from inference.flow.notes import Paid
from inference.settings import EndpointSettings, ModelsSettings
from pipelines.running.budget import RunBudget, Spent, is_local, spent_of, worker_processes
from pipelines.running.counts import Figures
from pipelines.running.runner import OptionError, pipeline_options
from schemas.run_summary import BudgetFigures, Counts

MODELS = ModelsSettings((("e", EndpointSettings("classical", "colour")),), (("policy", "e"),), "c", "i", "r")


@pytest.mark.parametrize(
    "wrong", [{"usd": 0.0}, {"usd": -1.0}, {"usd": float("nan")}, {"usd": float("inf")}, {"tokens": 0}]
)
def test_budgets_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="--budget-"):
        RunBudget(**wrong)


@pytest.mark.parametrize(
    ("budget", "spent", "workers", "usd", "tokens"),
    [
        (RunBudget(), Spent(5.0, 100), 3, None, None),
        (RunBudget(usd=6.0), Spent(), 1, 6.0, None),
        (RunBudget(6.0, 100), Spent(2.0, 40), 2, 2.0, 30),
        (RunBudget(6.0, 100), Spent(7.0, 101), 2, 0.0, 0),
    ],
)
def test_each_worker_has_its_share_of_what_is_left(
    budget: RunBudget, spent: Spent, workers: int, usd: float | None, tokens: int | None
) -> None:
    models = budget.share(MODELS, spent, workers)
    assert (models.budget_usd, models.budget_tokens) == (usd, tokens)


def test_what_was_spent() -> None:
    paid = [Paid("1", "policy", 1, 0, 0, 1.5), Paid("2", "teacher", 1, 70, 9, 0.25, tokens_reasoning=5)]
    assert spent_of(paid) == Spent(1.75, 79)
    figures = Figures(Counts(9, 0, 0, {"attempt": {"budget": 3, "low": 2}, "verify": {"budget": 1}}), refused=True)
    said = BudgetFigures(usd=2.0, tokens=None, spent_usd=1.75, spent_tokens=79, used_up=True, left=4)
    assert RunBudget(usd=2.0).summary(Spent(1.75, 79), figures) == said


@pytest.mark.parametrize(
    ("flags", "local", "processes"),
    [
        ([], True, 1),
        (["--direct_num_workers=4"], True, 1),
        (["--direct_num_workers=4", "--direct_running_mode=multi_threading"], True, 1),
        (["--direct_num_workers=4", "--direct_running_mode=multi_processing"], True, 4),
        (["--runner=DirectRunner"], True, 1),
        (["--runner=FlinkRunner"], False, 1),
        (["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"], True, 1),
    ],
)
def test_where_the_workers_are(flags: list[str], local: bool, processes: int) -> None:
    options = pipeline_options(flags)
    assert (is_local(options), worker_processes(options)) == (local, processes)
    RunBudget().check(options)
    if local:
        RunBudget(usd=1.0).check(options)
    else:
        with pytest.raises(OptionError, match="only be kept on this machine"):
            RunBudget(usd=1.0).check(options)
