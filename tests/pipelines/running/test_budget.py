"""A run's budget: its bounds, its file, what was spent of it, and where it can be kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.flow.notes import Paid
from inference.settings import EndpointSettings, ModelsSettings
from pipelines.running.budget import RunBudget, Spent, spent_of
from pipelines.running.counts import Figures
from pipelines.running.runner import OptionError
from schemas.run_summary import BudgetFigures, Counts

MODELS = ModelsSettings((("e", EndpointSettings("classical", "colour")),), (("policy", "e"),), "c", "i", "r")


@pytest.mark.parametrize(
    "wrong", [{"usd": 0.0}, {"usd": -1.0}, {"usd": float("nan")}, {"usd": float("inf")}, {"tokens": 0}]
)
def test_budgets_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="--budget-"):
        RunBudget(**wrong)


def test_all_workers_of_all_waves_keep_one_budget(tmp_path: Path) -> None:
    models = replace(MODELS, notes=str(tmp_path))
    kept = RunBudget(6.0, 100).kept(models)
    assert (kept.budget_usd, kept.budget_tokens) == (6.0, 100)
    file = tmp_path / "budget.json"
    begun = file.read_bytes()
    assert RunBudget(6.0, 100).kept(models) == kept
    assert file.read_bytes() == begun


def test_without_a_budget_nothing_is_kept(tmp_path: Path) -> None:
    models = replace(MODELS, notes=str(tmp_path))
    assert RunBudget().kept(models) == models
    assert list(tmp_path.iterdir()) == []


def test_what_was_spent() -> None:
    paid = [Paid("1", "policy", 1, 0, 0, 1.5), Paid("2", "teacher", 1, 70, 9, 0.25, tokens_reasoning=5)]
    assert spent_of(paid) == Spent(1.75, 79)
    figures = Figures(Counts(9, 0, 0, {"attempt": {"budget": 3, "low": 2}, "verify": {"budget": 1}}), refused=True)
    said = BudgetFigures(usd=2.0, tokens=None, spent_usd=1.75, spent_tokens=79, used_up=True, left=4)
    assert RunBudget(usd=2.0).summary(Spent(1.75, 79), figures) == said


def test_workers_elsewhere_take_it_from_the_store() -> None:
    models = replace(MODELS, notes="s3://bucket/run/ledger/now")
    assert RunBudget(6.0).kept(models) == replace(models, budget_usd=6.0)
