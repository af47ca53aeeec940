"""Running a pipeline: prepare the folder, execute the DAG, check conservation, put the outputs in place."""

import contextlib
import datetime
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from groundtrace.config.settings import config_sha256, to_toml
from groundtrace.inference.flow.notes import paid_in
from groundtrace.inference.runtime import runtime
from groundtrace.inference.serving import started_servers
from groundtrace.inference.settings import Neighbour
from groundtrace.pipelines.running.budget import spent_of
from groundtrace.pipelines.running.call_estimate import calls_to_expect
from groundtrace.pipelines.running.changes import replaced_by
from groundtrace.pipelines.running.counts import Figures, agreements, figures_of, ledger
from groundtrace.pipelines.running.errors import ConservationError
from groundtrace.pipelines.running.failure_report import Made, reporting_failure
from groundtrace.pipelines.running.failures import check_failures, check_records, most_frequent_details, stop_of
from groundtrace.pipelines.running.following import follow
from groundtrace.pipelines.running.forecast import count_records
from groundtrace.pipelines.running.freshness import FreshnessError, fresh_since
from groundtrace.pipelines.running.interrupts import is_interrupt
from groundtrace.pipelines.running.job_check import check_job, is_dry_run
from groundtrace.pipelines.running.kept_rows import check_kept
from groundtrace.pipelines.running.last_replies import await_last_replies
from groundtrace.pipelines.running.loading import PipelineError, recipe_file
from groundtrace.pipelines.running.outputs import write_ends
from groundtrace.pipelines.running.plan import Plan, RunArguments, check_cache, check_plan, make_plan, wire_plan
from groundtrace.pipelines.running.progress import show_progress
from groundtrace.pipelines.running.run_folder import SPOOL
from groundtrace.pipelines.running.runner import OptionError, choose_runner, pipeline_options
from groundtrace.pipelines.running.spending import Spending
from groundtrace.pipelines.running.truncation import truncated_replies
from groundtrace.pipelines.running.waves import Wave, first_share, next_share, threshold
from groundtrace.pipelines.running.wiring import Wired
from groundtrace.pipelines.running.workers import is_local, runner_line
from groundtrace.pipelines.shipping.ship import shipped
from groundtrace.prompts.loader import load_prompt
from groundtrace.publishing.blind_baseline import blind_baseline
from groundtrace.publishing.card import write_card
from groundtrace.publishing.figures import read_rubrics
from groundtrace.publishing.report import write_report
from groundtrace.rewards.mined_rubrics import missing_stratum
from groundtrace.schemas.revision import code_revision
from groundtrace.schemas.run_summary import TRAINING_SETS, AnsweredFigures, RunSummary, StageFigures, TargetFigures
from groundtrace.schemas.text import say
from groundtrace.stages.plumbing.metrics import clear_board
from groundtrace.stages.plumbing.recipe import Draw, RunContext
from groundtrace.stages.plumbing.rows import RowContext
from groundtrace.stages.plumbing.spill import spooling
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.base import RUN_MARKER
from groundtrace.stages.sources.rows import kept_columns
from groundtrace.storage.places import is_remote


def execute(arguments: RunArguments, plan: Plan | None = None) -> RunSummary:
    """Run the pipeline and return its summary; ``plan`` is the one that was made of the arguments, if any.

    Raises :class:`ConservationError` when the counts differ, besides the errors of planning; old outputs then stay. A
    run that began and does not finish leaves RUN/failed.html, and its error has a note
    (:class:`groundtrace.pipelines.running.endings.RunNote`) of what it has cost.
    """
    options = pipeline_options(arguments.beam_options)
    check_job(options)
    if is_dry_run(options):
        raise OptionError("--dry_run submits nothing: it is of `beam run`")
    plan = plan or make_plan(arguments)
    check_plan(plan, arguments)
    with plan.folder.locked():
        plan.folder.prepare(plan.input.name, plan.input.fingerprint, arguments.resume, arguments.fresh)
        clear_board()
        spending = Spending(plan.folder.root, plan.folder.bring_notes)
        say(runner_line(options), file=sys.stderr)
        with reporting_failure(plan, spending, arguments.output) as made:
            return _execute(plan, arguments, is_local(options), spending, made)


def _execute(plan: Plan, arguments: RunArguments, local: bool, spending: Spending, made: Made) -> RunSummary:
    """Run the plan in its folder, which is this process's, and put the outputs in place."""
    with contextlib.ExitStack() as stack:
        if local and not is_remote(plan.models.cache_path):
            check_cache(arguments.cache or "", Path(plan.models.cache_path))
        started = time.monotonic()
        models = stack.enter_context(started_servers(plan.models_asked, str(plan.folder.root / "logs")))
        notes = stack.enter_context(spending.run())
        since = fresh_since(plan.folder.root)
        neighbours = () if arguments.cache or not local or since else _neighbours(plan)
        # A stage that asks what it does not declare is to be told: it finds all roles.
        models = replace(models, roles=plan.models.roles, notes=str(notes), neighbours=neighbours, fresh_since=since)
        served = replace(plan, models=models)
        waves = _run_waves(served, arguments)
        summary = _summarise(served, waves, arguments, time.monotonic() - started)
        staging, config = plan.folder.staging, to_toml(plan.settings)
        blind = blind_baseline(staging.glob("rl/*.parquet"), plan.recipe.reward)
        rubrics = read_rubrics(staging)
        kept = {name: stage.kept for name, stage in summary.stages.items()}
        missing = [missing_stratum(rubrics)] if rubrics else []
        warnings = (*filter(None, missing), *plan.stages.unchecked(plan.settings, plan.models, kept))
        details = most_frequent_details(staging)
        summary = made.summary = replace(summary, details=details, blind=blind, warnings=warnings)
        check_records(summary)
        check_failures(plan.stages, summary, staging, plan.settings.max_failed)
        if not arguments.replace:
            check_kept(plan.folder.root, arguments.output, summary)
        replaced = replaced_by(plan.folder.root, summary, config, (staging / RUN_MARKER).exists())
        summary = replace(summary, replaced=replaced)
        (staging / "config.toml").write_text(config, "utf-8")
        (staging / "run.json").write_text(json.dumps(summary.to_fields(), indent=1), "utf-8")
        write_card(staging, summary)
        write_report(staging, plan.folder.root, summary, plan.context.roots.store())
        plan.folder.commit(keep_previous=replaced is not None and replaced.kept)
    return summary


def _neighbours(plan: Plan) -> tuple[Neighbour, ...]:
    """The reply caches of the runs beside this one that are the same input's."""
    found = []
    for folder in plan.folder.beside(plan.input.fingerprint):
        with contextlib.suppress(FreshnessError):  # nobody knows which of its replies count
            found.append(Neighbour(folder.root.name, str(folder.cache_path), fresh_since(folder.root)))
    return tuple(found)


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
        if wave.figures.refused:  # once more, so that what there is of it is a whole run's outcome
            return [*waves, _run_wave(plan, arguments, Draw(threshold(share), target, last=True), waves)]
        share = next_share(target, wave.accepted, wave.drawn, wave.questions, share)


def _run_wave(plan: Plan, arguments: RunArguments, draw: Draw, before: Sequence[Wave]) -> Wave:
    """Run the DAG once; ``before`` are the waves before it."""
    options = pipeline_options(arguments.beam_options)  # the runner changes them, so each wave has its own
    local = is_local(options)
    notes = plan.folder.seen_by_workers(Path(plan.models.notes), not local)
    models = arguments.budget.kept(replace(plan.models, notes=notes))
    plan.folder.clear_staging()
    clear_board()
    context = replace(plan.context, models=models, draw=draw)
    file = recipe_file(arguments.pipeline)
    with (
        plan.folder.job(not local) as folder,
        spooling(str(folder.here / SPOOL) if local else ""),
        shipped(options, file, plan.extras),
    ):
        pipeline = wire_job(plan, options, context, folder.name, file)
        try:
            with show_progress(plan.stages, *_shown(plan, draw, len(before) + 1)):
                follow(pipeline, options, local)
        except BaseException as error:
            if is_interrupt(error):
                await_last_replies(models)
            elif isinstance(error, Exception) and (stop := stop_of(error)) is not None:
                raise stop from error
            raise
        finally:
            runtime().close(models)
        job = folder.read()
        plan.folder.bring_notes()
        figures = figures_of(job, frozenset(stage.name for stage in plan.stages if stage.is_sample))
        if figures.unbalanced:
            raise ConservationError(figures.unbalanced)
        return Wave(figures, plan.folder.take_over(folder, job))


def wire_job(plan: Plan, options: PipelineOptions, context: RunContext, folder: str, file: Path) -> beam.Pipeline:
    """The whole job: the DAG of the recipe in ``file``, and what writes its ends into ``folder``."""
    pipeline = beam.Pipeline(runner=choose_runner(options, file), options=options)
    wired = wire_plan(plan, pipeline, context)
    write_ends(wired, row_context(plan, wired), folder, context.roots, plan.settings.write)
    return pipeline


def row_context(plan: Plan, wired: Wired) -> RowContext:
    """What all rows of the run share."""
    written, kept = plan.settings.write, kept_columns(plan.settings.input.keep)
    return RowContext(
        plan.recipe.name,
        code_revision(),
        plan.models.self_judging,
        plan.models.self_checking,
        written.other_traces,
        written.rejected_images,
        {name: (*added, *kept) for name, added in wired.added.items()},
    )


def _shown(plan: Plan, draw: Draw, wave: int) -> tuple[str, str, float | None]:
    """What the live view is told: which wave this is, the folder of the notes, and the calls that the run will make."""
    if draw.target_sft is not None:
        return f"wave {wave}: ", plan.models.notes, None
    return "", plan.models.notes, calls_to_expect(plan)


def _summarise(plan: Plan, waves: Sequence[Wave], arguments: RunArguments, wall_s: float) -> RunSummary:
    recipe = plan.recipe
    figures, files = waves[-1].figures, waves[-1].files
    paid = list(paid_in(Path(plan.models.notes)))
    target = arguments.target_sft
    sft = figures.counts.sft
    if target is not None and sft > target:
        raise PipelineError(f"{arguments.pipeline} uses no CutToTarget: {sft} SFT rows for --target-sft {target}")
    reached = None
    if target is not None:
        reached = TargetFigures(target, sft == target, tuple(wave.summary() for wave in waves))
    budget = None
    if arguments.budget.bounded:
        budget = arguments.budget.summary(spent_of(paid), figures)
    return RunSummary(
        recipe=recipe.name,
        makes=recipe.makes,
        input=plan.input.name,
        counts=figures.counts,
        sets=tuple(name for name in TRAINING_SETS if (plan.folder.staging / name).is_dir()),
        stages=stage_figures(plan.stages, figures),
        ledger=ledger(figures.asked, paid),
        truncated=truncated_replies(figures.truncated, plan),
        judges=agreements(figures.labels),
        roles={role: plan.models.endpoint(role).model for role in plan.roles},
        answered=_answered(plan, figures),
        taken_over=figures.taken_over,
        fresh_since=plan.models.fresh_since or None,
        self_judged=plan.models.self_judging,
        self_checked=plan.models.self_checking,
        config_sha256=config_sha256(plan.settings),
        revision=code_revision(),
        prompts={name: load_prompt(name).sha256 for name in plan.stages.prompts_sent(plan.models_asked, plan.settings)},
        artifacts=tuple(sorted(name for name in files if "/" not in name)),
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        wall_s=round(wall_s, 2),
        target=reached,
        budget=budget,
        forecast=figures.forecast if arguments.measure else None,
        paid=Spending(plan.folder.root).total(),
        files=files,
    )


def _answered(plan: Plan, figures: Figures) -> dict[str, AnsweredFigures]:
    """The endpoints whose servers named another model than the one asked for, with the replies of each name."""
    found: dict[str, AnsweredFigures] = {}
    for role, models in figures.answered.items():
        name, asked = plan.models.endpoint_name(role), plan.models.endpoint(role).model
        before = found[name].answered if name in found else {}
        found[name] = AnsweredFigures(asked, dict((Counter(before) + Counter(models)).most_common()))
    return found


def stage_figures(stages: StageList, figures: Figures) -> dict[str, StageFigures]:
    """What the stages did that any record reached, with what each says of itself, in their order."""
    return {
        stage.name: StageFigures(
            read=figures.seen(stage.name),
            kept=figures.passed(stage.name),
            does=stage.does,
            is_sample=stage.is_sample,
            for_target=stage.for_target,
            prompts=tuple(sorted({name for ask in stage.asks for name in ask.prompts})),
            reasons=stage.meanings,
        )
        for stage in stages
        if figures.seen(stage.name)
    }
