"""Running a pipeline: prepare the folder, execute the DAG, check conservation, put the outputs in place."""

import contextlib
import datetime
import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam

from inference.runtime import runtime
from inference.serving import started_servers
from pipelines.running.budget import Spent, is_local, is_used_up, spent_of, worker_processes
from pipelines.running.context import Outcome
from pipelines.running.counts import agreements, ledger, metric_counters, unbalanced, written_counts
from pipelines.running.forecast import count_records, measured
from pipelines.running.outputs import write_outcome
from pipelines.running.plan import PipelineError, Plan, RunArguments, check_cache, check_plan, make_plan
from pipelines.running.progress import show_progress
from pipelines.running.runner import choose_runner, pipeline_options
from pipelines.running.waves import Wave, first_share, joined_counters, next_share, threshold, wave_of
from prompts.loader import load_prompt, prompt_names
from publishing.card import write_card
from publishing.report import write_report
from schemas.config import to_toml
from schemas.reasons import Reason
from schemas.revision import code_revision
from stages.draw_questions import Draw
from stages.plumbing.metrics import clear_board
from stages.plumbing.packing import packing
from stages.plumbing.rows import RowContext


class ConservationError(Exception):
    """Records were lost or made up; the outputs were not put in place."""


def execute(arguments: RunArguments, plan: Plan | None = None) -> dict[str, Any]:
    """Run the pipeline and return the content of run.json; ``plan`` is the one that was made of the arguments, if any.

    Raises :class:`ConservationError` when the counts differ, besides the errors of planning; old outputs then stay.
    """
    options = pipeline_options(arguments.beam_options)
    arguments.budget.check(options)
    plan = plan or make_plan(arguments)
    check_plan(plan, arguments, is_local(options))
    with plan.folder.locked(), contextlib.ExitStack() as stack:
        plan.folder.prepare(plan.input.name, plan.input.fingerprint, arguments.resume)
        if arguments.cache and is_local(options):
            check_cache(arguments.cache, Path(plan.models.cache_path))
        started = time.monotonic()
        models = stack.enter_context(started_servers(plan.models, str(plan.folder.root / "logs")))
        served = replace(plan, models=models)
        waves = _run_waves(served, arguments)
        summary = _summarise(plan, waves, arguments, time.monotonic() - started)
        staging = plan.folder.staging
        (staging / "config.toml").write_text(to_toml(plan.settings), "utf-8")
        (staging / "run.json").write_text(json.dumps(summary, indent=1), "utf-8")
        write_card(staging, summary)
        write_report(staging, plan.folder.root, summary)
        plan.folder.commit()
    return summary


def _run_waves(plan: Plan, arguments: RunArguments) -> list[Wave]:
    """Run the DAG until the target is reached, or the input or the budget ends; once when there is no target.

    What the last wave wrote stays in the staging folder.
    """
    target = arguments.target_sft
    if target is None:
        return [_run_wave(plan, arguments, Draw(), [])]
    waves: list[Wave] = []
    share = first_share(target, count_records(plan.context.sources, plan.context.limit))
    while True:
        waves.append(_run_wave(plan, arguments, Draw(threshold(share), target, last=share >= 1), waves))
        wave = waves[-1]
        if wave.accepted >= target or share >= 1:
            return waves
        if is_used_up(wave.counters):  # once more, so that what there is of it is a whole run's outcome
            return [*waves, _run_wave(plan, arguments, Draw(threshold(share), target, last=True), waves)]
        share = next_share(target, wave.accepted, wave.drawn, wave.questions, share)


def _run_wave(plan: Plan, arguments: RunArguments, draw: Draw, before: Sequence[Wave]) -> Wave:
    """Run the DAG once, with what the waves before it have left of the budget."""
    options = pipeline_options(arguments.beam_options)  # the runner changes them, so each wave has its own
    spent = spent_of(joined_counters([wave.counters for wave in before])) if before else Spent()
    models = arguments.budget.share(plan.models, spent, worker_processes(options))
    staging = plan.folder.staging
    shutil.rmtree(staging)
    staging.mkdir()
    clear_board()
    context = replace(plan.context, models=models, draw=draw)
    shared = RowContext(plan.module.RECIPE, code_revision(), models.self_judging)
    with plan.folder.spool() as spool, packing(str(spool) if is_local(options) else ""):
        pipeline = beam.Pipeline(runner=choose_runner(options), options=options)
        outcome: Outcome = plan.module.build(pipeline, context, plan.settings)
        write_outcome(outcome, shared, staging, context.roots, plan.settings.write, arguments.measure)
        try:
            with show_progress("" if draw.target_sft is None else f"wave {len(before) + 1}: "):
                result = pipeline.run()
                result.wait_until_finish()
        finally:
            runtime().close(models)
    return wave_of(metric_counters(result.metrics()), written_counts(staging))


def _summarise(plan: Plan, waves: Sequence[Wave], arguments: RunArguments, wall_s: float) -> dict[str, Any]:
    counters = joined_counters([wave.counters for wave in waves])
    sft, rl, rejected = waves[-1].written
    read = counters.get(("stage/ingest", "in"), 0)
    problem = unbalanced(read, sft, rl, rejected)
    if problem:
        raise ConservationError(problem)
    target = arguments.target_sft
    if target is not None and sft > target:
        raise PipelineError(f"{arguments.pipeline} uses no CutToTarget: {sft} SFT rows for --target-sft {target}")
    stages = {
        namespace.removeprefix("stage/"): {
            "in": counters.get((namespace, "in"), 0),
            "kept": counters.get((namespace, "kept"), 0),
        }
        for namespace in sorted({name for name, _ in counters if name.startswith("stage/")})
    }
    extra: dict[str, Any] = {}
    if target is not None:
        extra["target"] = {"sft": target, "reached": sft == target, "waves": [wave.summary() for wave in waves]}
    if arguments.budget.bounded:
        left = sum(reasons.get(Reason.BUDGET.value, 0) for reasons in rejected.values())
        extra["budget"] = arguments.budget.summary(counters, left)
    if arguments.measure:
        extra["forecast"] = measured(counters)
    return extra | {
        "recipe": plan.module.RECIPE,
        "input": plan.input.name,
        "counts": {"input": read, "sft": sft, "rl": rl, "rejected": rejected},
        "stages": stages,
        "ledger": ledger(counters),
        "judges": agreements(counters),
        "roles": {role: plan.models.endpoint(role).model for role, _ in plan.models.roles},
        "self_judged": plan.models.self_judging,
        "config_sha256": hashlib.sha256(to_toml(plan.settings).encode()).hexdigest(),
        "revision": code_revision(),
        "prompts": {name: load_prompt(name).sha256 for name in prompt_names()},
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "wall_s": round(wall_s, 2),
    }
