"""``beam validate``: what a run would be made of, and whether it can be done; nothing is generated."""

import argparse
from collections.abc import Sequence

from inference.errors import CallError
from inference.models import Models
from inference.runtime import runtime
from pipelines.running.capabilities import check_capabilities, check_judge, scan_answers, scan_media
from pipelines.running.forecast import count_records
from pipelines.running.plan import Plan, RunArguments, check_wiring, make_plan
from pipelines.running.runner import pipeline_options
from prompts.loader import load_prompt
from schemas.text import counted, say


def validate(parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Print what a run would be made of and whether it can be done; returns the exit code."""
    pipeline_options(beam_options)
    plan = make_plan(
        RunArguments(parsed.pipeline, parsed.input, ".", parsed.config, parsed.overrides, beam_options=beam_options)
    )
    ends = check_wiring(plan)
    say(f"pipeline: {plan.recipe.name}")
    total = count_records(plan.context.sources)
    say(f"input: {plan.input.name}, {'unknown number of records' if total is None else counted(total, 'record')}")
    say(f"prompts: {', '.join(load_prompt(name).name for name in plan.recipe.prompts)}")
    healthy = True
    for name in sorted(set(plan.roles.values())):
        roles = sorted(role for role, endpoint in plan.roles.items() if endpoint == name)
        try:
            health = runtime().submit(_check(plan, roles[0])).result()
        except (CallError, ValueError) as error:
            health, healthy = f"NOT READY: {error}", False
        say(f"endpoint {name} ({', '.join(roles)}): {health}")
    problems, notes = check_capabilities(
        plan.recipe, plan.models, scan_media(plan.context.sources, plan.settings.input)
    )
    found = check_judge(plan.models, scan_answers(plan.context.sources, plan.settings.input), ends.rl is not None)
    problems, notes = problems + found[0], notes + found[1]
    for line in [*(f"NOT POSSIBLE: {problem}" for problem in problems), *(f"note: {note}" for note in notes)]:
        say(line)
    if plan.models.self_judging:
        say("note: the judge is the teacher's endpoint")
    if plan.models_asked.self_checking:
        say("note: detector and pointer are one model: it checks its own points (lineage.self_checked)")
    if "detector" in plan.roles and "segmenter" not in plan.roles:
        say("note: no segmenter: points are checked against the boxes of the detector")
    return 0 if healthy and not problems else 2


async def _check(plan: Plan, role: str) -> str:
    """One line on the role's endpoint. A server that only a run starts is looked for, not started."""
    models = Models(plan.models, cached=False)
    try:
        return await models.endpoint(role).check()
    finally:
        await models.close()
