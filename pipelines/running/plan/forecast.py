"""Forecasts what a run on the whole input will need: calls, cost, rows and the time of workers.

The forecast is made from a preview or an earlier run. Calls, cost and rows have a 95 % interval. The time of workers is
computed from three constants: the seconds of a core for one record (``RECORD_S``), the seconds of a core for one call
(``CALL_S``), and the seconds until a new worker begins to work (``START_S``). The constants are from our benchmarks:

| constant | measured with | date |
|---|---|---|
| ``RECORD_S`` | ``benchmarks/bench_pipeline_overhead.py --flat --profile``: the steady rate | 2026-11-22 |
| ``CALL_S`` | ``benchmarks/bench_saturation.py`` | 2026-11-21 |
| ``START_S`` | a job of 20 records on a worker that installs the staged wheels (docs/workers.md) | 2026-11-23 |

All constants were measured on one core of a shared virtual machine with an AMD EPYC processor.
"""

import contextlib
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtrace.config.settings import config_sha256
from groundtrace.pipelines.running.plan.expected_stage import ExpectedRun, ExpectedStage, unit_seconds
from groundtrace.pipelines.running.plan.freshness import fresh_since
from groundtrace.pipelines.running.plan.inputs import count_records
from groundtrace.pipelines.running.plan.neighbours import MAX_NEIGHBOURS, neighbours_of
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.publishing.reading import InspectError, read_summary
from groundtrace.rewards.blindness import blind_text
from groundtrace.schemas.intervals import CONFIDENCE, wilson
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.schemas.text import counted
from groundtrace.schemas.usage import Usage
from groundtrace.stages.plumbing.stage import Stage
from groundtrace.stages.plumbing.stage_list import StageList, max_calls, max_kept

RECORD_S = (1 / 104.9, 1 / 11.2)
"""Seconds of one core for a record with cached replies: for drawings of 400×100 px, and for images of 1280×960 px."""
CALL_S = (1.1e-3, 2.2e-3)
"""The CPU time, in seconds, that a worker needs for one call of a model: with text only, and with a 60 KB image."""
START_S = 64.0
"""Seconds until a worker that has to install our requirements begins to work.

A worker with a custom container image, which contains the requirements, saves this time.
"""


@dataclass(frozen=True)
class Sums:
    """Sums up one value of each previewed record, such as its number of calls, so that the sum over more records can be
    predicted.

    ``n`` is the number of values, ``total`` their sum, and ``squares`` the sum of their squares.
    """

    n: int
    total: float
    squares: float

    def predict(self, records: int) -> tuple[float, float, float]:
        """Predict the sum of a value, such as the number of calls, over ``records`` records.

        These records include the ``n`` previewed records, whose values are known.

        Returns three numbers: the expected sum, and the lower and the upper bound of Student's prediction interval (95
        %). If ``n`` is 1, the variance of the value is unknown, and the interval is from the observed sum to infinity.
        """
        rest = max(0, records - self.n)
        mean = self.total / self.n
        middle = self.total + rest * mean
        if not rest:
            return middle, middle, middle
        if self.n < 2:
            return middle, self.total, math.inf
        variance = max(0.0, self.squares - self.total * mean) / (self.n - 1)
        half = t_quantile(self.n - 1) * math.sqrt(variance * rest * (rest + self.n) / self.n)
        return middle, max(self.total, middle - half), middle + half


def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return Student's two-sided quantile: the t for which P(|T| <= t) is ``confidence``.

    ``degrees`` is the number of degrees of freedom of T. For at most 200 degrees, the quantile is found by bisection on
    the distribution function. For whole degrees of freedom, the distribution function is a finite sum (Abramowitz and
    Stegun 26.7.3 and 26.7.4). Above 200 degrees, the expansion around the normal quantile is used (Abramowitz and
    Stegun 26.7.5). Raises ValueError for fewer than 1 degree.
    """
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be at least 1, got {degrees}")
    if degrees > 200:
        z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
        return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """Return P(|T| <= t) for a T with Student's t-distribution of ``degrees`` degrees of freedom."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total


def forecast_text(
    summary: RunSummary, total: int | None, stages: StageList, settings: Any, beside: RunSummary | None = None
) -> str:
    """Return a forecast (calls, cost, rows) of a run on the whole input, as text of a few lines.

    Args:
        summary: The counts and costs of a preview, i.e. of a run on the first records.
        total: The number of records of the input; None if it is unknown.
        stages: The stages (steps) of the recipe.
        settings: The config.
        beside: The counts and costs of another run, from :func:`fullest_run_beside`. A run on the whole input can use
            the stored replies of this run, and need not pay for them again. None if there is no such run.

    The forecast number of calls is proportional to the number of records, with two exceptions. Some stages read a
    sample of limited size; the calls of such a stage do not exceed the maximum of the stage. Other stages draw a sample
    and pass it on; the calls of all later stages do not exceed the calls for a full sample.

    All calls are priced as if they were sent, so a preview from the cache gives the same forecast. If no endpoint
    (model server) has a price, tokens are forecast instead of the cost. The interval of calls and cost is Student's
    prediction interval for the records that are not in the preview. The interval of the number of rows is Wilson's. Few
    previewed records give wide intervals. Raises ValueError if ``summary`` is not of a preview.
    """
    counts, seen, figures = summary.counts, summary.counts.input, summary.forecast
    if total is None:
        return "forecast: the size of this input is not known"
    if not seen:
        return "forecast: the input has no records"
    if figures is None:
        raise ValueError("a forecast needs the summary of a preview, but this is the summary of a run")
    n = int(figures["records"])
    calls = Sums(n, figures["calls"], figures["calls_squared"]).predict(total)
    cost = Sums(n, figures["worth_usd"], figures["worth_usd_squared"]).predict(total)
    known = Usage(calls=int(figures["calls"]), worth_usd=figures["worth_usd"])
    for stage, side in _side_calls(summary, stages):
        factor = _growth(side.calls, total / seen, max_calls(stage, settings))
        calls = _shifted(calls, side.calls * factor)
        cost = _shifted(cost, side.worth_usd * factor)
        known += Usage(calls=side.calls, worth_usd=side.worth_usd)
    for usage, factor in _drawn_calls(summary, total / seen, stages, settings):
        calls = _shifted(calls, usage.calls * (factor - total / seen))
        cost = _shifted(cost, usage.worth_usd * (factor - total / seen))
    if beside is not None and beside.usage.calls > known.calls:
        known = beside.usage
    share = known.worth_usd / cost[0] if cost[0] else known.calls / calls[0] if calls[0] else 0.0
    if share > 1 or (beside is not None and beside.counts.input >= total):
        share = 1.0
    prices = ", at the prices of the config" if cost[0] else ""
    lines = [f"forecast for {counted(total, 'record')} from {seen}{prices}"]
    lines.append(f"  calls: {calls[0]:.0f} (95 %: {calls[1]:.0f} to {_number(calls[2])})")
    if cost[0]:
        lines.append(f"  cost: ${cost[0]:.2f} (95 %: ${cost[1]:.2f} to {_dollars(cost[2])})")
    else:
        lines.append(_tokens_text(expected_tokens(summary, total, stages, settings), calls))
    worth = f", ${known.worth_usd:.2f}" if cost[0] else ""
    answered = counted(known.calls, "call")
    lines.append(f"  already in the cache: the replies to {answered}{worth} ({share:.0%})")
    for name in summary.sets:
        low, high = wilson(counts.rows(name), seen)
        lines.append(
            f"  {name} rows: {counts.rows(name) / seen * total:.0f} (95 %: {low * total:.0f} to {high * total:.0f})"
        )
    if summary.blind is not None:
        lines.append(f"  {blind_text(summary.blind)}")
    return "\n".join(lines)


def expected_calls(summary: RunSummary, total: int, stages: StageList, settings: Any) -> float:
    """Return how many calls of models a run on ``total`` records needs.

    ``summary`` holds the counts of a run on fewer records with the same settings, from which the number is
    extrapolated. ``stages`` are the stages (steps) of the recipe. ``settings`` is the config.
    """
    sides = _side_calls(summary, stages)
    factor = total / summary.counts.input
    of_records = summary.usage.calls - sum(side.calls for _, side in sides)
    of_samples = (side.calls * _growth(side.calls, factor, max_calls(stage, settings)) for stage, side in sides)
    of_drawn = sum(usage.calls * (growth - factor) for usage, growth in _drawn_calls(summary, factor, stages, settings))
    return of_records * factor + of_drawn + sum(of_samples)


def expected_tokens(summary: RunSummary, total: int, stages: StageList, settings: Any) -> tuple[float, float]:
    """Return how many input tokens and how many output tokens a run on ``total`` records needs, as a pair.

    ``summary`` holds the counts of a run on fewer records, from which the numbers are extrapolated. ``stages`` are the
    stages (steps) of the recipe. ``settings`` is the config. Cached calls of a stage are assumed to need as many tokens
    as the calls that the stage sent. If a stage sent no request, its number of tokens is unknown, and 0 is used.
    """
    factor = total / summary.counts.input
    growths = {id(usage): growth for usage, growth in _drawn_calls(summary, factor, stages, settings)}
    for stage, usage in _side_calls(summary, stages):
        growths[id(usage)] = _growth(usage.calls, factor, max_calls(stage, settings))
    tokens_in = tokens_out = 0.0
    for usage in (usage for role in summary.ledger.values() for usage in role.stages.values()):
        sent = usage.calls if not usage.cached else min(usage.calls, usage.requests)
        calls = usage.calls * growths.get(id(usage), factor)
        tokens_in += usage.tokens_in / sent * calls if sent else 0.0
        tokens_out += usage.tokens_out / sent * calls if sent else 0.0
    return tokens_in, tokens_out


def _tokens_text(tokens: tuple[float, float], calls: tuple[float, float, float]) -> str:
    """Return the line of the forecast with the expected numbers of input and output tokens, and a 95 % interval.

    ``tokens`` are these two numbers. ``calls`` holds the expected number of calls, and the lower and upper bound of its
    95 % interval. The line has an interval for all tokens together: each bound for the calls, multiplied by the mean
    number of tokens of a call. If no tokens were counted, the line instead states that the cost is unknown.
    """
    tokens_in, tokens_out = tokens
    if not tokens_in and not tokens_out:
        return "  cost: unknown, because no endpoint has a price and no tokens were counted"
    low, high = (sum(tokens) * bound / calls[0] for bound in calls[1:])
    between = f"{low:,.0f} to {'unknown' if math.isinf(high) else f'{high:,.0f}'}"
    return f"  tokens: {tokens_in:,.0f} in, {tokens_out:,.0f} out (95 %: {between} in all); no endpoint has a price"


def run_to_expect(plan: Plan) -> ExpectedRun | None:
    """Return the expected counts and speed of each stage (step) in the whole run; None if they cannot be estimated.

    The estimate needs the size of the input and an earlier run with the same recipe and config. The earlier run must be
    in the same run folder or in a run folder beside it. ``plan`` holds what the run needs, such as its recipe,
    settings, input and run folder.
    """
    earlier, total = _earlier_run(plan), count_records(plan.context.sources, plan.context.limit)
    return expected_run(earlier, total, plan.stages, plan.settings) if earlier and total else None


def expected_run(summary: RunSummary, total: int, stages: StageList, settings: Any) -> ExpectedRun:
    """Return the expected counts and speed of each stage (step of the pipeline) in a run on ``total`` records.

    ``summary`` holds the counts and times of a run on fewer records with the same settings, from which the result is
    extrapolated. ``stages`` are the stages of the recipe. ``settings`` is the config.
    """
    factor = total / summary.counts.input
    drawn = {id(usage): growth for usage, growth in _drawn_calls(summary, factor, stages, settings)}
    found = dict[str, ExpectedStage]()
    for stage in stages:
        figures = summary.stages.get(stage.name)
        if figures is None or not figures.read:
            continue
        usages = [role.stages[stage.name] for role in summary.ledger.values() if stage.name in role.stages]
        calls, growth = sum(usage.calls for usage in usages), factor
        if stage.is_sample:
            growth = _growth(calls, factor, max_calls(stage, settings))
        elif usages:
            growth = drawn.get(id(usages[0]), factor)
        unit_s = unit_seconds(figures.wall_s, figures.in_flight_s, calls or figures.read)
        found[stage.name] = ExpectedStage(
            figures.read * growth, figures.kept * growth, calls * growth, unit_s, stage.is_sample
        )
    worked_s = sum(figures.wall_s for figures in summary.stages.values())
    return ExpectedRun(found, max(0.0, summary.wall_s - worked_s) if worked_s else 0.0)


def _earlier_run(plan: Plan) -> RunSummary | None:
    for folder in (plan.folder, *plan.folder.beside(plan.input.fingerprint)):
        with contextlib.suppress(InspectError, UnsafeFile):
            summary = read_summary(folder.root, checked=False)
            if _is_alike(summary, plan):
                return summary
    return None


def fullest_run_beside(plan: Plan) -> RunSummary | None:
    """Return the summary of an earlier run whose stored replies a run of ``plan`` can use; None if there is none.

    The earlier run has the same input, recipe and config as ``plan``. If there are several such runs, the summary of
    the one with the most input records is returned. Its replies are those for the first records of the input, so a run
    of ``plan`` need not request these replies.
    """
    found = []
    for neighbour in neighbours_of(plan, fresh_since(plan.folder.root))[:MAX_NEIGHBOURS]:
        with contextlib.suppress(InspectError, UnsafeFile):
            found.append(read_summary(Path(neighbour.cache_path).parent.parent, checked=False))
    alike = (each for each in found if _is_alike(each, plan))
    return max(alike, key=lambda summary: summary.counts.input, default=None)


def _is_alike(summary: RunSummary, plan: Plan) -> bool:
    recipe_and_config = plan.recipe.name, config_sha256(plan.settings)
    return (summary.recipe, summary.config_sha256) == recipe_and_config and summary.counts.input > 0


def worker_hours(records: float, calls: float) -> tuple[float, float]:
    """Return the minimum and the maximum number of hours that one processor core needs for a run.

    ``records`` and ``calls`` are the numbers of records and of calls of models. The minimum is for small drawings, and
    the maximum for large images. The time of waiting for servers is not included.
    """
    least, most = (records * of_record + calls * of_call for of_record, of_call in zip(RECORD_S, CALL_S, strict=True))
    return least / 3600, most / 3600


def workers_text(records: float, calls: float) -> str:
    """Return the line of a forecast that states how long the workers need for a run.

    ``records`` and ``calls`` are the numbers of records and of calls of models in the run.
    """
    least, most = worker_hours(records, calls)
    return (
        f"  workers: {least:.2f} to {most:.2f} hours of one core (small drawings, 1.2-megapixel pictures), "
        f"{START_S:.0f} s more for each worker without a custom image; the time of waiting for servers is not included"
    )


def _side_calls(summary: RunSummary, stages: StageList) -> list[tuple[Stage, Usage]]:
    """Return the sample stages (pipeline steps) that called models, each in a pair with the usage of its calls.

    The usage holds the numbers of calls and tokens, and their cost. ``summary`` holds the counts of the run, and
    ``stages`` its stages.

    If a stage called models in several roles, such as teacher and judge, it has one pair for each role. A sample stage
    reads some of the records and passes none on. So its calls belong to the run and not to a record.
    """
    samples = {stage.name: stage for stage in stages if stage.is_sample}
    return [
        (samples[name], usage)
        for role in summary.ledger.values()
        for name, usage in role.stages.items()
        if name in samples
    ]


def _drawn_calls(summary: RunSummary, records: float, stages: StageList, settings: Any) -> list[tuple[Usage, float]]:
    """Return the model calls of stages (pipeline steps) whose input an earlier stage limits, each with a growth factor.

    ``summary`` holds the counts of an earlier run, from which a larger run is forecast. The growth factor is the number
    of a stage's calls in the larger run, divided by the number of its calls in the earlier run. ``records`` is the
    number of input records of the larger run, divided by that of the earlier run. ``stages`` are the stages of the
    recipe, and ``settings`` is the config. For example, a stage keeps at most 1000 questions. Then the stages after it
    read at most 1000 questions in the larger run, and their growth factor can be smaller than ``records``.
    """
    most, found = None, list[tuple[Usage, float]]()
    for stage in stages:
        figures = summary.stages.get(stage.name)
        if most is not None and figures is not None and figures.read and not stage.is_sample:
            growth = _growth(figures.read, records, most)
            found += [
                (role.stages[stage.name], growth) for role in summary.ledger.values() if stage.name in role.stages
            ]
        bound = None if figures is None else max_kept(stage, settings)
        most = most if bound is None else bound
    return found


def _growth(seen: int, records: float, most: int | None) -> float:
    """Return the factor by which a pipeline step's number of calls or records grows from an earlier run to a larger
    run.

    ``seen`` is the number in the earlier run. ``most`` is the maximum in the larger run, if the pipeline step reads
    only a sample or has a limited input; None means that there is no maximum. ``records`` is the factor by which the
    number of the input's records grows. The result is ``records``, or a smaller factor (at least 1) if the number would
    otherwise exceed ``most``.
    """
    return min(records, max(1.0, most / seen)) if seen and most is not None else records


def _shifted(interval: tuple[float, float, float], by: float) -> tuple[float, float, float]:
    return interval[0] + by, interval[1] + by, interval[2] + by


def _number(value: float) -> str:
    return "unknown" if math.isinf(value) else f"{value:.0f}"


def _dollars(value: float) -> str:
    return "unknown" if math.isinf(value) else f"${value:.2f}"
