"""Forecasts: intervals, growth of samples, the calls to come from an earlier run, and the time of workers."""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.grounded_cot import RECIPE, Settings
from groundtrace.pipelines.rubric_curriculum import RECIPE as RUCL
from groundtrace.pipelines.rubric_curriculum import SampledRubrics
from groundtrace.pipelines.rubric_curriculum import Settings as Rucl
from groundtrace.pipelines.running.plan.forecast import (
    Sums,
    expected_calls,
    expected_run,
    expected_tokens,
    forecast_text,
    fullest_run_beside,
    run_to_expect,
    t_quantile,
    worker_hours,
    workers_text,
)
from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan
from groundtrace.publishing.reading import read_summary
from groundtrace.rewards.rubrics import RubricSettings
from groundtrace.schemas.run_summary import Counts, RoleLedger, RunSummary, StageFigures
from groundtrace.schemas.usage import Usage
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
        "  already in the cache: the replies to 15 calls, $1.75 (5%)\n"
        "  sft rows: 100 (95 %: 47 to 153)\n"
        "  rl rows: 20 (95 %: 4 to 81)",
    ),
    (
        summary(3, 0, 3, [1, 1, 4], [0.0] * 3),
        3,
        "forecast for 3 records from 3\n"
        "  calls: 6 (95 %: 6 to 6)\n"
        "  cost: unknown, because no endpoint has a price and no tokens were counted\n"
        "  already in the cache: the replies to 6 calls (100%)\n"
        "  sft rows: 3 (95 %: 1 to 3)\n"
        "  rl rows: 0 (95 %: 0 to 2)",
    ),
    (
        summary(1, 0, 1, [3], [0.5]),
        10,
        "forecast for 10 records from 1, at the prices of the config\n"
        "  calls: 30 (95 %: 3 to unknown)\n"
        "  cost: $5.00 (95 %: $0.50 to unknown)\n"
        "  already in the cache: the replies to 3 calls, $0.50 (10%)\n"
        "  sft rows: 10 (95 %: 2 to 10)\n"
        "  rl rows: 0 (95 %: 0 to 8)",
    ),
]


def test_without_prices_tokens_are_forecast() -> None:
    """Half of the calls of verify came from the cache; a stage that reads a sample does not grow beyond its sample."""
    sent = Usage(calls=10, requests=10, tokens_in=1000, tokens_out=200)
    half = Usage(calls=10, requests=5, cached=5, tokens_in=500, tokens_out=50)
    sample = Usage(calls=200, requests=200, tokens_in=7000, tokens_out=70)
    given = summary(5, 0, 10, [2] * 10, [0.0] * 10, trace=sent, verify=half, rubric_candidates=sample)
    assert expected_tokens(given, 100, STAGES, Settings()) == (
        10_000 + 10_000 + 7000 * expected_growth(given), 2000 + 1000 + 70 * expected_growth(given)
    )  # fmt: skip
    lines = forecast_text(given, 100, STAGES, Settings()).splitlines()
    assert lines[0] == "forecast for 100 records from 10"
    assert lines[2].startswith("  tokens: ") and lines[2].endswith(" in all); no endpoint has a price")
    assert "$" not in "".join(lines)


def expected_growth(given: RunSummary) -> float:
    """The growth of the calls of the stage that reads a sample, without any other stage."""
    only = summary(5, 0, 10, [0] * 10, [0.0] * 10, rubric_candidates=given.ledger["role of rubric_candidates"].usage)
    return expected_calls(only, 100, STAGES, Settings()) / 200


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


def test_what_to_expect_of_each_stage() -> None:
    """Records and calls grow with the input, those of a stage that reads a sample up to its sample."""
    ran = summary(5, 5, 10, [], [], attempt=side(40, 0.0), rubric_candidates=side(1, 0.0))
    attempt = StageFigures(10, 4, wall_s=8.0, in_flight_s=32.0)
    ran = replace(ran, wall_s=20.0, stages={"attempt": attempt, "rubric_candidates": StageFigures(1, 1, wall_s=2.0)})
    found = expected_run(ran, 1000, STAGES, Settings())
    assert found.rest_s == 10.0
    assert vars(found.stages["attempt"]) == {
        "read": 1000, "kept": 400, "calls": 4000, "unit_s": pytest.approx(16 / 40), "is_sample": False,
    }  # fmt: skip
    assert (found.stages["rubric_candidates"].calls, found.stages["rubric_candidates"].is_sample) == (1, True)
    assert expected_run(replace(ran, stages={"attempt": StageFigures(10, 4)}), 20, STAGES, Settings()).rest_s == 0


ROOT = Path(__file__).resolve().parents[4]
PIPELINE = str(ROOT / "pipelines/grounded_cot.py")
SAMPLE = str(ROOT / "data/sample")


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A preview of two records."""
    folder = tmp_path_factory.mktemp("runs") / "look"
    assert main(["preview", PIPELINE, "--input", SAMPLE, "--output", str(folder), "--limit", "2"]) == 0
    return folder


@pytest.mark.parametrize("output", ["look", "run"])
def test_a_preview_in_the_folder_or_beside_it_counts(look: Path, output: str) -> None:
    summary = read_summary(look)
    assert summary.usage.calls > 0
    plan = make_plan(RunArguments(PIPELINE, SAMPLE, str(look.parent / output), limit=6))
    expected = run_to_expect(plan)
    assert expected is not None
    assert sum(each.calls for each in expected.stages.values()) == pytest.approx(3 * summary.usage.calls)
    assert list(expected.stages)[:2] == ["ingest", "clean"]
    assert 0 <= expected.rest_s < summary.wall_s
    assert any(each.unit_s > 0 for each in expected.stages.values())


@pytest.mark.parametrize(
    ("output", "overrides"), [("run", ("attempt.k=7",)), ("elsewhere/run", ())], ids=["config", "place"]
)
def test_others_do_not(look: Path, output: str, overrides: tuple[str, ...]) -> None:
    plan = make_plan(RunArguments(PIPELINE, SAMPLE, str(look.parent / output), overrides=overrides))
    assert run_to_expect(plan) is None


@pytest.mark.parametrize(
    ("arguments", "is_found"),
    [({}, True), ({"overrides": ("attempt.k=7",)}, False), ({"cache": "shared"}, False)],
    ids=["alike", "config", "cache"],
)
def test_the_run_beside_whose_replies_a_run_finds(look: Path, arguments: dict[str, Any], is_found: bool) -> None:
    plan = make_plan(RunArguments(PIPELINE, SAMPLE, str(look.parent / "run"), **arguments))
    assert fullest_run_beside(plan) == (read_summary(look) if is_found else None)


def test_replies_of_a_run_beside_are_in_the_forecast() -> None:
    def line(beside: RunSummary | None) -> str:
        return forecast_text(ALIKE, 200, STAGES, Settings(), beside).splitlines()[3]

    half, full = (replace(ALIKE, counts=Counts(n, 0, 0, {}), ledger=side_of(n)) for n in (100, 200))
    assert line(ALIKE) == "  already in the cache: the replies to 15 calls, $1.75 (5%)", "of the same records"
    assert line(half) == "  already in the cache: the replies to 100 calls, $17.50 (50%)"
    assert line(full) == "  already in the cache: the replies to 200 calls, $35.00 (100%)"


def side_of(calls: int) -> dict[str, RoleLedger]:
    return {"policy": RoleLedger({"attempt": side(calls, 0.175 * calls)})}


def test_hours_grow_with_records_and_calls() -> None:
    assert worker_hours(0, 0) == (0, 0)
    least, most = worker_hours(3_600_000, 0)
    assert (least, most) == (pytest.approx(1000 / 104.9), pytest.approx(1000 / 11.2))
    assert worker_hours(0, 3_600_000) == (pytest.approx(1.1), pytest.approx(2.2))


def test_the_line() -> None:
    assert workers_text(3_600_000, 3_600_000).startswith("  workers: 10.63 to 91.49 hours of one core")


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "shown"), [([], False), (["--workers"], True)])
def test_it_is_shown_when_asked(
    flags: list[str],
    shown: bool,
    run_beam: Callable[..., Any],
    write_questions: Callable[[Path, int], Path],
    tmp_path: Path,
) -> None:
    ran = run_beam(write_questions(tmp_path / "q", 4), tmp_path / "run", "--limit=3", *flags, command="preview")
    assert ran.code == 0
    assert ("hours of one core" in ran.out) is shown
