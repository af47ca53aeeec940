"""The commands that read an input: run, preview and validate."""

import argparse
import collections
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inference.endpoint import SERVED
from inference.errors import CallError
from inference.models import Models
from inference.runtime import runtime
from pipelines.running.budget import RunBudget
from pipelines.running.capabilities import check_capabilities, scan_media
from pipelines.running.forecast import count_records, forecast_text
from pipelines.running.plan import Plan, RunArguments, check_wiring, make_plan
from pipelines.running.run import execute
from pipelines.running.runner import pipeline_options
from prompts.loader import load_prompt
from schemas.config import ConfigError
from schemas.text import counted


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


def run(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run the pipeline and print its end; returns the exit code."""
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


def preview(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Run the first records end to end and print the forecast for all; returns the exit code."""
    if parsed.records < 1:
        raise ConfigError(f"--records must be at least 1, got {parsed.records}")
    arguments = _run_arguments(parsed, beam_options, parsed.records, measure=True)
    plan = make_plan(arguments)
    summary = execute(arguments, plan)
    print(summary_text(summary, parsed.output))
    print(forecast_text(summary, count_records(plan.context.sources), plan.recipe, plan.settings))
    return 0


def validate(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Print what a run would be made of and whether it can be done; returns the exit code."""
    pipeline_options(beam_options)
    plan = make_plan(
        RunArguments(parsed.pipeline, parsed.input, ".", parsed.config, parsed.overrides, beam_options=beam_options)
    )
    check_wiring(plan)
    print(f"pipeline: {plan.recipe.name}")
    total = count_records(plan.context.sources)
    print(f"input: {plan.input.name}, {'unknown number of records' if total is None else counted(total, 'record')}")
    print(f"prompts: {', '.join(load_prompt(name).name for name in plan.recipe.prompts)}")
    healthy = True
    for name in sorted(set(plan.roles.values())):
        roles = sorted(role for role, endpoint in plan.roles.items() if endpoint == name)
        try:
            health = _health(plan, roles[0])
        except (CallError, ValueError) as error:
            health, healthy = f"NOT READY: {error}", False
        print(f"endpoint {name} ({', '.join(roles)}): {health}")
    problems, notes = check_capabilities(
        plan.recipe, plan.models, scan_media(plan.context.sources, plan.settings.input)
    )
    for line in [*(f"NOT POSSIBLE: {problem}" for problem in problems), *(f"note: {note}" for note in notes)]:
        print(line)
    if plan.models.self_judging:
        print("note: the judge is the teacher's endpoint")
    return 0 if healthy and not problems else 2


def _health(plan: Plan, role: str) -> str:
    """One line on the role's endpoint. A server that only a run starts is looked for, not started."""
    if plan.models.endpoint(role).kind != SERVED:
        return runtime().submit(_check(plan, role)).result()
    from inference.endpoints.vllm_server import find_vllm

    return f"a run starts {plan.models.endpoint(role).model} with {find_vllm()}"


async def _check(plan: Plan, role: str) -> str:
    models = Models(plan.models, cached=False)
    try:
        return await models.endpoint(role).check()
    finally:
        await models.close()
