"""Runs a pipeline in three steps: plans it, executes its stages (steps) as a Beam job, and moves the outputs into the
run folder.

The outputs are moved only if every record of the input is in them exactly once. Each step is a package:
:mod:`groundtrace.pipelines.running.plan`, ``execute`` and ``account``.
"""

import sys
import time
from dataclasses import replace

from groundtrace.inference.serving import started_servers
from groundtrace.pipelines.running.account.counts import figures_of
from groundtrace.pipelines.running.account.failure_report import reporting_failure
from groundtrace.pipelines.running.account.finishing import finish
from groundtrace.pipelines.running.account.spending import Spending
from groundtrace.pipelines.running.account.summary import Wave, summarise
from groundtrace.pipelines.running.endings import ConservationError
from groundtrace.pipelines.running.execute.job import run_job
from groundtrace.pipelines.running.execute.job_folder import job_folder
from groundtrace.pipelines.running.execute.waves import first_wave_share, next_wave_share, threshold
from groundtrace.pipelines.running.plan.checks import check_cache, check_plan
from groundtrace.pipelines.running.plan.freshness import fresh_since
from groundtrace.pipelines.running.plan.inputs import count_records
from groundtrace.pipelines.running.plan.job_check import is_dry_run
from groundtrace.pipelines.running.plan.neighbours import MAX_NEIGHBOURS, neighbours_of, unsearched_line
from groundtrace.pipelines.running.plan.options import OptionError, runner_line
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.pipelines.running.plan.workers import overshoot_line
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import say
from groundtrace.stages.plumbing.metrics import clear_board
from groundtrace.stages.plumbing.recipe import Draw


def execute(plan: Plan) -> RunSummary:
    """Execute a planned run, put the outputs into its run folder, and return its summary (counts, costs and files).

    ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. Raises the errors of
    ``check_plan``, e.g. for a run folder of another input, and
    :class:`groundtrace.pipelines.running.endings.ConservationError` if the outputs do not hold every record exactly
    once. After an error, the outputs of an earlier run stay. If a run has begun and does not finish, the page
    ``failed.html`` is written into its run folder. The run's error then has a note with the run's cost and the path of
    this page (:class:`groundtrace.pipelines.running.endings.RunNote`).
    """
    if is_dry_run(plan.options):
        raise OptionError("--dry_run is an option of `beam run` only: remove it")
    check_plan(plan)
    with plan.folder.locked():
        plan.folder.prepare(plan.input.name, plan.input.fingerprint, plan.arguments.resume, plan.arguments.fresh)
        clear_board()
        spending = Spending(plan.folder.root, plan.folder.bring_notes)
        say(*filter(None, (runner_line(plan.options), plan.input.unread_note)), file=sys.stderr)
        if plan.models.workers > 1 and plan.arguments.budget.bounded:
            say(overshoot_line(plan.models_asked), file=sys.stderr)
        with reporting_failure(plan, spending) as made:
            check_cache(plan)
            started = time.monotonic()
            with (
                started_servers(plan.models_asked, str(plan.folder.root / "logs")) as models,
                spending.run() as notes,
            ):
                since = fresh_since(plan.folder.root)
                neighbours = neighbours_of(plan, since)
                say(*unsearched_line(neighbours), file=sys.stderr)
                # All roles are kept. So a stage that calls an undeclared role gets an error that names this role.
                models = replace(
                    models,
                    roles=plan.models.roles,
                    notes=str(notes),
                    neighbours=neighbours[:MAX_NEIGHBOURS],
                    fresh_since=since,
                )
                served = replace(plan, models=models)
                summary = summarise(served, _run_waves(served), time.monotonic() - started)
                return finish(plan, summary, made)


def _run_waves(plan: Plan) -> list[Wave]:
    """Run all stages of the pipeline in waves (passes over the input), and return the result of each wave.

    Waves are run until the target number of SFT rows is reached, or until the input or the budget is exhausted. Without
    a target number, there is one wave. The files of the last wave stay in the staging folder (the folder for new
    outputs).
    """
    target = plan.arguments.target_sft
    if target is None:
        return [_run_wave(plan, Draw())]
    waves: list[Wave] = []
    share = first_wave_share(target, count_records(plan.context.sources, plan.context.limit))
    while True:
        waves.append(_run_wave(plan, Draw(threshold(share), target, last=share >= 1), len(waves) + 1))
        wave = waves[-1]
        if wave.accepted >= target or share >= 1:
            return waves
        if wave.figures.refused:  # once more as the last wave, so that the rows made so far are a complete outcome
            return [*waves, _run_wave(plan, Draw(threshold(share), target, last=True), len(waves) + 1)]
        share = next_wave_share(target, wave.accepted, wave.drawn, wave.questions, share)


def _run_wave(plan: Plan, draw: Draw, number: int = 0) -> Wave:
    """Run all stages of the plan once, as one wave (pass over the input), and return the wave's counts and files.

    ``draw`` selects the questions of the wave. ``number`` is the number of the wave, from 1. It is 0 if the run has no
    target number of SFT rows, and so only one pass. Raises ConservationError if the outputs do not hold every record
    exactly once.
    """
    with job_folder(plan.folder, not plan.is_local) as folder:
        run_job(plan, draw, folder, f"wave {number}: " if number else "")
        job = folder.read()
        plan.folder.bring_notes()
        figures = figures_of(job, frozenset(stage.name for stage in plan.stages if stage.is_sample))
        if figures.unbalanced:
            raise ConservationError(figures.unbalanced)
        return Wave(figures, folder.take_over(job, plan.folder))
