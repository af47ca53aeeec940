"""What each command does, and how errors reach the user: one line, no traceback for a user's mistake."""

import argparse
import collections
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from inference.errors import CallError
from inference.models import Models
from inference.runtime import runtime
from pipelines.config import ConfigError
from pipelines.figures import InspectError
from pipelines.inputs import InputError
from pipelines.inspect import run_inspect
from pipelines.run import (
    ConservationError,
    PipelineError,
    Plan,
    RunArguments,
    execute,
    make_plan,
)
from pipelines.run_folder import RunFolderError
from pipelines.runner import OptionError, pipeline_options
from prompts.loader import PromptError, load_prompt, prompt_names
from rewards.rubrics import RubricSettings
from stages.mine_rubrics import CANDIDATES, JUDGE

USER_ERRORS = (ConfigError, InputError, InspectError, PipelineError, RunFolderError, OptionError, PromptError)


def dispatch(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run the parsed command; returns the exit code."""
    commands = {"run": _run, "preview": _preview, "validate": _validate, "inspect": _inspect}
    try:
        return commands[parsed.command](parsed, beam_options)
    except USER_ERRORS as error:
        return _fail(str(error), 2)
    except ConservationError as error:
        return _fail(f"conservation violated: {error}", 1)
    except KeyboardInterrupt:
        return _fail("interrupted; run the same command again to resume", 130)
    except Exception as error:  # a defect or a broken machine: say it in one line, and how to see more
        if parsed.verbose:
            raise
        return _fail(f"{_root_cause(error)} (--verbose shows where)", 1)


def _root_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"


def _fail(message: str, code: int) -> int:
    print(f"beam: {message}", file=sys.stderr)
    return code


def _run_arguments(parsed: argparse.Namespace, beam_options: Sequence[str], limit: int | None) -> RunArguments:
    return RunArguments(
        pipeline=parsed.pipeline,
        input=parsed.input,
        output=parsed.output,
        config=parsed.config,
        overrides=parsed.overrides,
        limit=limit,
        cache=parsed.cache,
        resume=getattr(parsed, "resume", "auto") != "never",
        beam_options=beam_options,
    )


def _run(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    if parsed.limit is not None and parsed.limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {parsed.limit}")
    summary = execute(_run_arguments(parsed, beam_options, parsed.limit))
    print(summary_text(summary, parsed.output))
    return 0


def summary_text(summary: dict[str, Any], output: str) -> str:
    """The end of a run in a few lines."""
    counts = summary["counts"]
    rejected = sum(sum(reasons.values()) for reasons in counts["rejected"].values())
    sent = sum(role["requests"] for role in summary["ledger"].values())
    cached = sum(role["cached"] for role in summary["ledger"].values())
    cost = sum(role["cost_usd"] for role in summary["ledger"].values())
    lines = [f"{counts['input']} records: {counts['sft']} sft, {counts['rl']} rl, {rejected} rejected"]
    reasons: collections.Counter[str] = collections.Counter()
    for by_reason in counts["rejected"].values():
        reasons.update(by_reason)
    lines += [f"  {reason}: {number}" for reason, number in reasons.most_common()]
    lines.append(f"model calls: {sent} sent, {cached} replies from the cache, ${cost:.2f}, {summary['wall_s']:.1f} s")
    lines.append(f"report: {Path(output) / 'report.html'}")
    return "\n".join(lines)


def _preview(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    if parsed.records < 1:
        raise ConfigError(f"--records must be at least 1, got {parsed.records}")
    arguments = _run_arguments(parsed, beam_options, parsed.records)
    plan = make_plan(arguments)
    summary = execute(arguments)
    print(summary_text(summary, parsed.output))
    print(forecast_text(summary, count_records(plan), plan.settings.rubrics.sample))
    return 0


def count_records(plan: Plan) -> int | None:
    """How many records the input holds, where that can be told without reading media; None for a data set by id."""
    total = 0
    for source in plan.context.sources:
        if source.kind == "jsonl":
            with Path(source.path).open("rb") as stream:
                total += sum(1 for line in stream if line.strip())
        elif source.kind == "parquet":
            total += pq.read_metadata(source.path).num_rows
        else:
            return None
    return total


def forecast_text(summary: dict[str, Any], total: int | None, sample: int = RubricSettings().sample) -> str:
    """What the whole input would take, from the previewed records: calls, cost, and yield with a 95 % interval.

    Rubrics are proposed once a run and judged on at most ``sample`` questions; every other call grows with the records.
    The interval is Wilson's for a share of n records; with few records it is wide, and says so by being wide.
    """
    counts = summary["counts"]
    seen = counts["input"]
    if total is None:
        return "forecast: the size of this input is not known"
    if not seen:
        return "forecast: the input has no records"
    calls = cost = 0.0
    for role in summary["ledger"].values():
        for stage, figures in role["stages"].items():
            factor = _growth(stage, figures["calls"], total / seen, sample)
            calls, cost = calls + figures["calls"] * factor, cost + figures["cost_usd"] * factor
    lines = [
        f"forecast for {total} records from {seen}: about {calls:.0f} calls, ${cost:.2f} at the prices of the config"
    ]
    for side in ("sft", "rl"):
        low, high = wilson(counts[side], seen)
        lines.append(
            f"  {side} rows: {counts[side] / seen * total:.0f} (95 %: {low * total:.0f} to {high * total:.0f})"
        )
    return "\n".join(lines)


def _growth(stage: str, calls: int, records: float, sample: int) -> float:
    """By how much a stage's calls grow when the records grow by a factor."""
    if stage == CANDIDATES:
        return 1.0
    return min(records, sample / calls) if stage == JUDGE and calls else records


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share: ``hits`` of ``n``."""
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    share, weight = hits / n, z * z / n
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / n + weight / (4 * n)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def _validate(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    pipeline_options(beam_options)
    plan = make_plan(
        RunArguments(parsed.pipeline, parsed.input, ".", parsed.config, parsed.overrides, beam_options=beam_options)
    )
    print(f"pipeline: {plan.module.RECIPE}")
    total = count_records(plan)
    print(f"input: {plan.input.name}, {'unknown number of' if total is None else total} records")
    print(f"prompts: {', '.join(load_prompt(name).name for name in prompt_names())}")
    healthy = True
    for name in sorted({endpoint for _, endpoint in plan.models.roles}):
        roles = sorted(role for role, endpoint in plan.models.roles if endpoint == name)
        try:
            health = runtime().submit(_check(plan, roles[0])).result()
        except (CallError, ValueError) as error:
            health, healthy = f"NOT READY: {error}", False
        print(f"endpoint {name} ({', '.join(roles)}): {health}")
    if plan.models.self_judging:
        print("note: the judge is the teacher's endpoint")
    return 0 if healthy else 2


async def _check(plan: Plan, role: str) -> str:
    models = Models(plan.models, cached=False)
    try:
        return await models.endpoint(role).check()
    finally:
        await models.close()


def _inspect(parsed: argparse.Namespace, _: Sequence[str]) -> int:
    run_inspect(parsed.run, parsed.sql)
    return 0
