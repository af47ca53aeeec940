"""Implements ``beam run`` and ``beam preview``: starts a run, and prints its result in a few lines."""

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import to_toml
from groundtrace.pipelines.running.execute.dry_run import dry_run
from groundtrace.pipelines.running.execute.interrupts import stopped_like_an_interrupt
from groundtrace.pipelines.running.execute.worker_forks import end_unused_template, fork_template
from groundtrace.pipelines.running.plan.budget import RunBudget
from groundtrace.pipelines.running.plan.forecast import expected_calls, forecast_text, fullest_run_beside, workers_text
from groundtrace.pipelines.running.plan.inputs import count_records
from groundtrace.pipelines.running.plan.job_check import is_dry_run
from groundtrace.pipelines.running.plan.plan import Plan, RunArguments, make_plan
from groundtrace.pipelines.running.run import execute
from groundtrace.pipelines.shipping.ship import goes_elsewhere
from groundtrace.publishing.run_text import summary_text
from groundtrace.schemas.text import say


def run(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run a pipeline over its input, print the result, and return the exit code, which is 0.

    ``parsed`` holds the parsed arguments of the command line. ``beam_options`` are the options for Beam, which come
    after ``--`` on the command line. With Beam's option ``--dry_run``, the job is only built and described. Raises
    ConfigError for an option with a wrong value, and the errors of :func:`make_plan` (e.g. for an invalid config) and
    of :func:`execute` (e.g. if a model server is unreachable).
    """
    if any("multi_processing" in option for option in beam_options):
        fork_template()
    try:
        return _run(parsed, beam_options)
    finally:
        end_unused_template()


def _run(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    _check_limit(parsed.limit)
    if parsed.target_sft is not None and parsed.target_sft < 1:
        raise ConfigError(f"--target-sft must be at least 1, got {parsed.target_sft}")
    with stopped_like_an_interrupt():  # removes temporary folders and releases a folder in a store
        plan = make_plan(_run_arguments(parsed, beam_options))
        if is_dry_run(plan.options):
            say(*dry_run(plan))
            return 0
        summary = execute(plan)
    say(*summary_text(summary, parsed.output, _config(plan)).split("\n"))
    return 0


def preview(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run a pipeline over the first records of its input, print a forecast for all records, and return the exit code 0.

    ``parsed`` holds the parsed arguments of the command line. ``beam_options`` are the options for Beam, which come
    after ``--`` on the command line. The forecast states the numbers of model calls and rows to expect, and the cost.
    Raises ConfigError for an option with a wrong value, and the errors of :func:`make_plan` (e.g. for an invalid
    config) and of :func:`execute` (e.g. if a model server is unreachable).
    """
    _check_limit(parsed.limit)
    plan = make_plan(_run_arguments(parsed, beam_options, measure=True))
    with stopped_like_an_interrupt():
        summary = execute(plan)
    say(*summary_text(summary, parsed.output, _config(plan)).split("\n"))
    total = count_records(plan.context.sources)
    forecast = forecast_text(summary, total, plan.stages, plan.settings, fullest_run_beside(plan))
    say(*forecast.split("\n"))
    if total and summary.counts.input and (parsed.workers or goes_elsewhere(plan.options)):
        say(workers_text(total, expected_calls(summary, total, plan.stages, plan.settings)))
    return 0


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {limit}")


def _run_arguments(parsed: argparse.Namespace, beam_options: Sequence[str], measure: bool = False) -> RunArguments:
    return RunArguments(
        pipeline=parsed.pipeline,
        input=parsed.input,
        output=parsed.output,
        config=parsed.config,
        overrides=parsed.overrides,
        limit=parsed.limit,
        cache=parsed.cache,
        resume=getattr(parsed, "resume", "auto") != "never",
        beam_options=beam_options,
        target_sft=getattr(parsed, "target_sft", None),
        budget=RunBudget(parsed.budget_usd, parsed.budget_tokens),
        measure=measure,
        fresh=parsed.fresh,
        replace=parsed.replace,
    )


def _config(plan: Plan) -> Mapping[str, Any]:
    """Return the complete config of a planned run, with a dict for each section."""
    return tomllib.loads(to_toml(plan.settings))
