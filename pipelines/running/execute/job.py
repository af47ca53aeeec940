"""Runs all stages (steps) of a planned pipeline once, as one Beam job that writes its files into a folder."""

from dataclasses import replace
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from groundtrace.inference.runtime import runtime
from groundtrace.pipelines.running.endings import is_interrupt
from groundtrace.pipelines.running.execute.beam_inspection import inspected_once
from groundtrace.pipelines.running.execute.following import follow, stop_of
from groundtrace.pipelines.running.execute.job_folder import SPOOL, JobFolder
from groundtrace.pipelines.running.execute.last_replies import await_last_replies
from groundtrace.pipelines.running.execute.outputs import write_ends
from groundtrace.pipelines.running.execute.progress import show_progress
from groundtrace.pipelines.running.execute.runner import choose_runner
from groundtrace.pipelines.running.plan.forecast import run_to_expect
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.pipelines.running.plan.wiring import WiredPipeline
from groundtrace.pipelines.shipping.ship import shipped
from groundtrace.schemas.arrow import INPUT_ROW
from groundtrace.schemas.run_summary import TRAINING_SETS
from groundtrace.stages.plumbing.metrics import clear_board
from groundtrace.stages.plumbing.recipe import Draw, RunContext
from groundtrace.stages.plumbing.rows import RowContext
from groundtrace.stages.plumbing.spill import spooling
from groundtrace.stages.sources.rows import kept_columns


def run_job(plan: Plan, draw: Draw, folder: JobFolder, part: str = "") -> None:
    """Run all stages (steps) of a pipeline once, as a Beam job, and wait for its end.

    ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. ``draw`` determines which
    questions of the input the job uses: all of them, or those with the lowest hashes of their ids.

    ``folder`` is the folder for the files of the job. ``part`` is a text for the user that names this pass over the
    input, such as ``wave 2: ``; "" if the run has only one pass. If the user interrupts the command, the function first
    waits for the replies to requests that were already sent. Raises the error of the job. If a model server or a store
    failed, this is the error for the user that :func:`groundtrace.pipelines.running.execute.following.stop_of` returns.
    """
    options = plan.options.copied()
    notes = plan.folder.seen_by_workers(Path(plan.models.notes), not plan.is_local)
    models = plan.arguments.budget.kept(replace(plan.models, notes=notes))
    expected = None if draw.target_sft is not None else run_to_expect(plan)
    clear_board()
    with (
        spooling(str(folder.here / SPOOL) if plan.is_local else ""),
        shipped(options, plan.recipe_file, plan.extras),
        inspected_once(),
    ):
        pipeline = wire_job(plan, options, replace(plan.context, models=models, draw=draw), folder.name)
        try:
            with show_progress(plan.stages, part, plan.models.notes, expected):
                follow(pipeline, options, plan.is_local)
        except BaseException as error:
            if is_interrupt(error):
                await_last_replies(models)
            elif isinstance(error, Exception) and (stop := stop_of(error)) is not None:
                raise stop from error
            raise
        finally:
            runtime().close(models)


def wire_job(plan: Plan, options: PipelineOptions, context: RunContext, folder: str) -> beam.Pipeline:
    """Return a run's job as a Beam pipeline: the recipe's stages (steps), and the transforms that write the outputs.

    ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. ``options`` are the Beam
    options of the job. ``context`` is passed to the recipe: the input, the models and the selection of questions.
    ``folder`` is the path or URL of the folder for the outputs. The job is not started.
    """
    pipeline = beam.Pipeline(runner=choose_runner(options, plan.recipe_file), options=options)
    wired = plan.wire(pipeline, context)
    write_ends(wired, row_context(plan, wired), folder, context.roots, plan.settings.write)
    return pipeline


def row_context(plan: Plan, wired: WiredPipeline) -> RowContext:
    """Return the data that all rows of a run share, such as the recipe's name and the columns of each set.

    ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. ``wired`` holds the recipe's
    stages (steps) on a Beam pipeline, which determine the columns. The sets are ``sft``, ``rl`` and ``rejected``.
    """
    written, kept = plan.settings.write, kept_columns(plan.settings.input.keep)
    places = {name: (INPUT_ROW,) if written.input_row and name in TRAINING_SETS else () for name in wired.added}
    return RowContext(
        plan.recipe.name,
        plan.revision,
        plan.models.self_judging,
        plan.models.self_checking,
        written.other_traces,
        written.rejected_images,
        {name: (*added, *kept, *places[name]) for name, added in wired.added.items()},
    )
