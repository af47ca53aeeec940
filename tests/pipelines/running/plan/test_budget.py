"""A run's budget: its bounds, its file, what was spent of it, and where it can be kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.pipelines.running.plan.budget import RunBudget
from groundtrace.pipelines.running.plan.options import OptionError

MODELS = ModelsSettings((("e", EndpointSettings("classical", "colour")),), (("policy", "e"),), "c", "i", "r")


@pytest.mark.parametrize(
    "wrong", [{"usd": 0.0}, {"usd": -1.0}, {"usd": float("nan")}, {"usd": float("inf")}, {"tokens": 0}]
)
def test_budgets_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="--budget-"):
        RunBudget(**wrong)


def models_of(*endpoints: EndpointSettings) -> ModelsSettings:
    named = tuple((f"e{number}", endpoint) for number, endpoint in enumerate(endpoints))
    roles = ("policy", "teacher", "judge")
    return ModelsSettings(named, tuple((roles[n], f"e{n}") for n in range(len(named))), "c", "i", "r")


def server(**prices: float) -> EndpointSettings:
    fields = {f"usd_per_million_tokens_{of}": usd for of, usd in prices.items()}
    return EndpointSettings("openai", "m", base_url="http://h/v1", **fields)  # type: ignore[arg-type]


EMBEDDED = EndpointSettings("classical", "colour")
PRICED = server(**{"in": 0.1, "out": 0.4})
FREE = server(**{"in": 0.0, "out": 0.0})


@pytest.mark.parametrize("endpoints", [(EMBEDDED,), (PRICED, EMBEDDED), (FREE, PRICED), (FREE,)])
def test_a_declared_nothing_is_a_price_and_the_embedded_engine_needs_none(endpoints: Any) -> None:
    RunBudget(usd=1.0).check_prices(models_of(*endpoints))


@pytest.mark.parametrize(
    ("endpoints", "named", "settings"),
    [
        ((server(),), "e0", "endpoints.e0.usd_per_million_tokens_in, endpoints.e0.usd_per_million_tokens_out"),
        ((server(**{"in": 1.0}), EMBEDDED), "e0", "endpoints.e0.usd_per_million_tokens_out"),
        ((PRICED, server(out=1.0), server(**{"in": 1.0})), "e1, e2",
         "endpoints.e1.usd_per_million_tokens_in, endpoints.e2.usd_per_million_tokens_out"),
    ],
)  # fmt: skip
def test_dollars_on_endpoints_without_a_price_are_refused(endpoints: Any, named: str, settings: str) -> None:
    models = models_of(*endpoints)
    with pytest.raises(OptionError) as caught:
        RunBudget(usd=0.5).check_prices(models)
    assert str(caught.value) == (
        f"--budget-usd 0.5 cannot be enforced without a price for {named}: set {settings} "
        "(0 for a free server), or use --budget-tokens"
    )
    RunBudget(tokens=5).check_prices(models)
    RunBudget().check_prices(models)


def test_all_workers_of_all_waves_keep_one_budget(tmp_path: Path) -> None:
    kept = RunBudget(6.0, 100).kept(replace(MODELS, notes=str(tmp_path)))
    assert (kept.budget_usd, kept.budget_tokens) == (6.0, 100)


def test_without_a_budget_nothing_is_kept(tmp_path: Path) -> None:
    models = replace(MODELS, notes=str(tmp_path))
    assert RunBudget().kept(models) == models
    assert list(tmp_path.iterdir()) == []


def test_workers_elsewhere_take_it_from_the_store() -> None:
    models = replace(MODELS, notes="s3://bucket/run/ledger/now")
    assert RunBudget(6.0).kept(models) == replace(models, budget_usd=6.0)
