"""What each command does, and how errors reach the user: one line, no traceback for a user's mistake."""

import argparse
import collections
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inference.errors import CallError
from inference.models import Models
from inference.runtime import runtime
from pipelines.commands.cache_command import run_cache
from pipelines.commands.inspect import run_inspect
from pipelines.running.budget import RunBudget
from pipelines.running.capabilities import check_capabilities, scan_media
from pipelines.running.forecast import count_records, forecast_text
from pipelines.running.interrupts import is_interrupt
from pipelines.running.plan import Plan, RunArguments, make_plan
from pipelines.running.run import ConservationError, execute
from pipelines.running.runner import pipeline_options
from prompts.loader import load_prompt, prompt_names
from schemas.config import ConfigError
from schemas.errors import UserError
from schemas.text import counted


def dispatch(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run the parsed command; returns the exit code. Raises what Ctrl-C led to, and with --verbose other failures."""
    commands = {"run": _run, "preview": _preview, "validate": _validate, "inspect": _inspect, "cache": _cache}
    try:
        return commands[parsed.command](parsed, beam_options)
    except Exception as error:
        if is_interrupt(error):
            raise
        if isinstance(error, UserError):
            return _fail(str(error), 2)
        if isinstance(error, ConservationError):
            return _fail(f"conservation violated: {error}", 1)
        if parsed.verbose:  # a defect or a broken machine: say it in one line, and how to see more
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


def _run_arguments(
    parsed: argparse.Namespace, beam_options: Sequence[str], limit: int | None, measure: bool = False
) -> RunArguments:
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
        target_sft=getattr(parsed, "target_sft", None),
        budget=RunBudget(parsed.budget_usd, parsed.budget_tokens),
        measure=measure,
    )


def _run(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    if parsed.limit is not None and parsed.limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {parsed.limit}")
    if parsed.target_sft is not None and parsed.target_sft < 1:
        raise ConfigError(f"--target-sft must be at least 1, got {parsed.target_sft}")
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
    lines = [f"{counted(counts['input'], 'record')}: {counts['sft']} sft, {counts['rl']} rl, {rejected} rejected"]
    reasons: collections.Counter[str] = collections.Counter()
    for by_reason in counts["rejected"].values():
        reasons.update(by_reason)
    lines += [f"  {reason}: {number}" for reason, number in reasons.most_common()]
    replies = counted(cached, "reply", "replies")
    lines.append(f"model calls: {sent} sent, {replies} from the cache, ${cost:.2f}, {summary['wall_s']:.1f} s")
    lines.append(f"report: {Path(output) / 'report.html'}")
    return "\n".join(lines + _ended_by(summary))


def _ended_by(summary: dict[str, Any]) -> list[str]:
    """What a budget and a target say of the end, the target last."""
    lines = []
    budget, target = summary.get("budget"), summary.get("target")
    used_up = budget is not None and budget["used_up"]
    if budget is not None and used_up:
        lines.append(
            f"the budget ended the run after ${budget['spent_usd']:.2f} and {budget['spent_tokens']} tokens: "
            f"{counted(budget['left'], 'record')} left as budget; "
            "the same command with a larger one goes on from the cache"
        )
    if target is not None and not target["reached"]:
        why = "budget" if used_up else "input"
        lines.append(f"target not reached: {summary['counts']['sft']} of {target['sft']}; the {why} is used up")
    elif target is not None:
        waves = counted(len(target["waves"]), "wave")
        lines.append(f"target reached: {counted(target['sft'], 'SFT row')} in {waves}")
    return lines


def _preview(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    if parsed.records < 1:
        raise ConfigError(f"--records must be at least 1, got {parsed.records}")
    arguments = _run_arguments(parsed, beam_options, parsed.records, measure=True)
    plan = make_plan(arguments)
    summary = execute(arguments, plan)
    print(summary_text(summary, parsed.output))
    print(forecast_text(summary, count_records(plan.context.sources), plan.settings.rubrics.sample))
    return 0


def _validate(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    pipeline_options(beam_options)
    plan = make_plan(
        RunArguments(parsed.pipeline, parsed.input, ".", parsed.config, parsed.overrides, beam_options=beam_options)
    )
    print(f"pipeline: {plan.module.RECIPE}")
    total = count_records(plan.context.sources)
    print(f"input: {plan.input.name}, {'unknown number of records' if total is None else counted(total, 'record')}")
    print(f"prompts: {', '.join(load_prompt(name).name for name in prompt_names())}")
    healthy = True
    for name in sorted({endpoint for _, endpoint in plan.models.roles}):
        roles = sorted(role for role, endpoint in plan.models.roles if endpoint == name)
        try:
            health = runtime().submit(_check(plan, roles[0])).result()
        except (CallError, ValueError) as error:
            health, healthy = f"NOT READY: {error}", False
        print(f"endpoint {name} ({', '.join(roles)}): {health}")
    problems, notes = check_capabilities(plan.models, scan_media(plan.context.sources, plan.settings.input))
    for line in [*(f"NOT POSSIBLE: {problem}" for problem in problems), *(f"note: {note}" for note in notes)]:
        print(line)
    if plan.models.self_judging:
        print("note: the judge is the teacher's endpoint")
    return 0 if healthy and not problems else 2


async def _check(plan: Plan, role: str) -> str:
    """One line on the role's endpoint. A server that only a run starts is looked for, not started."""
    models = Models(plan.models, cached=False)
    try:
        return await models.endpoint(role).check()
    finally:
        await models.close()


def _inspect(parsed: argparse.Namespace, _: Sequence[str]) -> int:
    run_inspect(parsed.run, parsed.sql)
    return 0


def _cache(parsed: argparse.Namespace, _: Sequence[str]) -> int:
    return run_cache(parsed)
