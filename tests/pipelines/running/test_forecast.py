"""The forecast of a preview: what the intervals are, what grows with the records, and what the cache has."""

import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.grounded_cot import RECIPE, Settings
from groundtrace.pipelines.rubric_curriculum import RECIPE as RUCL
from groundtrace.pipelines.rubric_curriculum import SampledRubrics
from groundtrace.pipelines.rubric_curriculum import Settings as Rucl
from groundtrace.pipelines.running.forecast import Sums, count_records, expected_calls, forecast_text, t_quantile
from groundtrace.rewards.rubrics import RubricSettings
from groundtrace.schemas.run_summary import Counts, RoleLedger, RunSummary, StageFigures
from groundtrace.schemas.usage import Usage
from groundtrace.stages.sources.base import Source
from tests.wired import default_stages

STAGES, RUCL_STAGES = default_stages(RECIPE), default_stages(RUCL)

# Two-sided 95 % quantiles of Student's t, as in any printed table.
QUANTILES = [
    (1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (10, 2.2281), (29, 2.0452), (30, 2.0423),
    (100, 1.9840), (1000, 1.9623),
]  # fmt: skip


@pytest.mark.parametrize(("degrees", "t"), QUANTILES)
def test_students_quantile(degrees: int, t: float) -> None:
    assert t_quantile(degrees) == pytest.approx(t, abs=1e-4)


def test_students_quantile_has_no_step_where_the_formula_changes() -> None:
    steps = [t_quantile(degrees) - t_quantile(degrees + 1) for degrees in (198, 199, 200, 201, 202)]
    assert all(0 < step < 2e-4 for step in steps)
    with pytest.raises(ValueError, match="at least 1"):
        t_quantile(0)


def test_the_interval_of_a_sum() -> None:
    values = [4.0, 9.0, 5.0, 6.0]
    found = Sums(4, sum(values), sum(v * v for v in values)).predict(100)
    half = 3.1824 * statistics.stdev(values) * math.sqrt(96 * 100 / 4)
    assert found == pytest.approx((600.0, max(24.0, 600 - half), 600 + half), rel=1e-4)
    assert Sums(4, 24.0, 158.0).predict(4) == (24.0, 24.0, 24.0)
    assert Sums(1, 24.0, 576.0).predict(3) == (72.0, 24.0, math.inf)
    assert Sums(3, 12.0, 48.0).predict(300) == (1200.0, 1200.0, 1200.0)


def summary(sft: int, rl: int, seen: int, calls: list[int], worth_usd: list[float], **stages: Usage) -> RunSummary:
    figures = {
        "records": len(calls),
        "calls": sum(calls),
        "calls_squared": sum(c * c for c in calls),
        "worth_usd": sum(worth_usd),
        "worth_usd_squared": sum(w * w for w in worth_usd),
    }
    facts = dict.fromkeys(("recipe", "input", "finished", "revision", "config_sha256"), "x")
    nothing: dict[str, Any] = {name: {} for name in ("stages", "roles", "prompts")}
    ledger = {f"role of {name}": RoleLedger({name: usage}) for name, usage in stages.items()}
    counts = Counts(seen, sft, rl, {})
    return RunSummary(**facts, **nothing, counts=counts, ledger=ledger, wall_s=1.0, self_judged=False, forecast=figures)


def side(calls: int, worth_usd: float) -> Usage:
    return Usage(calls=calls, worth_usd=worth_usd)


ALIKE = summary(5, 1, 10, [2, 1] * 5, [0.2, 0.15] * 5)
FORECASTS = [
    (summary(0, 0, 10, [1], [0.0]), None, "forecast: the size of this input is not known"),
    (summary(0, 0, 0, [], []), 0, "forecast: the input has no records"),
    (
        ALIKE,
        200,
        "forecast for 200 records from 10, at the prices of the config\n"
        "  calls: 300 (95 %: 227 to 373)\n"
        "  cost: $35.00 (95 %: $31.33 to $38.67)\n"
        "  already in the cache: 15 calls, $1.75 (5%)\n"
        "  sft rows: 100 (95 %: 47 to 153)\n"
        "  rl rows: 20 (95 %: 4 to 81)",
    ),
    (
        summary(3, 0, 3, [1, 1, 4], [0.0] * 3),
        3,
        "forecast for 3 records from 3, at the prices of the config\n"
        "  calls: 6 (95 %: 6 to 6)\n"
        "  cost: $0.00 (95 %: $0.00 to $0.00)\n"
        "  already in the cache: 6 calls, $0.00 (100%)\n"
        "  sft rows: 3 (95 %: 1 to 3)\n"
        "  rl rows: 0 (95 %: 0 to 2)",
    ),
    (
        summary(1, 0, 1, [3], [0.5]),
        10,
        "forecast for 10 records from 1, at the prices of the config\n"
        "  calls: 30 (95 %: 3 to unknown)\n"
        "  cost: $5.00 (95 %: $0.50 to unknown)\n"
        "  already in the cache: 3 calls, $0.50 (10%)\n"
        "  sft rows: 10 (95 %: 2 to 10)\n"
        "  rl rows: 0 (95 %: 0 to 8)",
    ),
]


@pytest.mark.parametrize(("given", "total", "text"), FORECASTS)
def test_the_forecast(given: RunSummary, total: int | None, text: str) -> None:
    assert forecast_text(given, total, STAGES, Settings()) == text


@pytest.mark.parametrize(
    ("stage", "made", "calls", "cost"),
    [
        ("rubric_candidates", 1, "1001", "$3.00"),
        ("rubric_judge", 10, "1064", "$13.80"),
        ("attempt", 10, "1000", "$1.00"),
    ],
)
def test_what_grows_with_the_records(stage: str, made: int, calls: str, cost: str) -> None:
    """Candidates are asked for once a run, and judged on 64 questions at most; records' own calls are measured."""
    given = summary(5, 5, 10, [1] * 10, [0.001] * 10, **{stage: side(made, 2.0)})
    lines = forecast_text(given, 1000, STAGES, Settings(rubrics=RubricSettings(sample=64))).splitlines()
    assert lines[1].startswith(f"  calls: {calls} (")
    assert lines[2].startswith(f"  cost: {cost} (")


def test_the_calls_of_a_run_by_an_earlier_one() -> None:
    """A record's calls grow with the records, whoever is asked; candidates are asked for once a run."""
    ran = summary(5, 5, 10, [], [], attempt=side(40, 0.0), trace=side(25, 0.0), rubric_candidates=side(1, 0.0))
    assert expected_calls(ran, 1000, STAGES, Settings()) == 6501


def test_what_only_a_sample_of_the_records_is_asked_grows_up_to_the_sample() -> None:
    """RuCL attempts 64 of 1,000 questions, of which the preview has attempted all 10."""
    ran = summary(0, 10, 10, [1] * 10, [0.5] * 10, attempt=side(10, 5.0))
    ran = replace(ran, stages={name: StageFigures(10, 10) for name in ("sample", "attempt")})
    settings = Rucl(rubrics=SampledRubrics(sample=64))
    lines = forecast_text(ran, 1000, RUCL_STAGES, settings).splitlines()
    assert lines[1] == "  calls: 64 (95 %: 64 to 64)"
    assert lines[2].startswith("  cost: $32.00 (")
    assert expected_calls(ran, 1000, RUCL_STAGES, settings) == 64
    everything = replace(ran, stages={"attempt": StageFigures(10, 10)})
    assert expected_calls(everything, 1000, RUCL_STAGES, settings) == 1000, "the run drew no sample"


def test_the_records_of_an_input(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n\n  \n{}\nno record\n")
    pq.write_table(pa.table({"id": ["a", "b"]}), tmp_path / "b.parquet")
    jsonl, parquet = Source("jsonl", str(tmp_path / "a.jsonl")), Source("parquet", str(tmp_path / "b.parquet"))
    assert count_records([jsonl, parquet]) == 5
    assert count_records([jsonl], limit=2) == 2
    shards = [Source("parquet", parquet.path, first) for first in (1, 3, 5)]
    assert [count_records(shards, limit) for limit in (1, 2, 3, 5, 6, 7)] == [1, 2, 3, 5, 6, 6]
    assert count_records([jsonl, Source("datasets", "org/name")]) is None
