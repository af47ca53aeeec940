"""Provides three functions of ``import groundtrace``: run a pipeline, preview it, or reload its code after an edit.

A user's mistake raises :class:`groundtrace.schemas.errors.UserError`.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from groundtrace.pipelines.running.arguments import check_arguments
from groundtrace.pipelines.running.beam_logs import without_beam_logs
from groundtrace.pipelines.running.endings import without_beams_words
from groundtrace.pipelines.running.plan.forecast import forecast_text, fullest_run_beside
from groundtrace.pipelines.running.plan.inputs import count_records
from groundtrace.pipelines.running.plan.loading import forget_user_code
from groundtrace.pipelines.running.plan.plan import Plan, RunArguments, make_plan
from groundtrace.pipelines.running.run import execute
from groundtrace.publishing.opened_run import OpenedRun, open_run
from groundtrace.schemas.error_places import place_of
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.registry import near
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.stages.plumbing.recipe import Recipe

PREVIEWED_RECORDS = 10


@dataclass(frozen=True, repr=False)
class PreviewedRun(OpenedRun):
    """Holds a finished preview: a run on the first records of an input. ``forecast`` is the text that forecasts calls,
    cost and rows for the whole input.
    """

    forecast: str

    def __str__(self) -> str:
        """Return the text that ``beam preview`` prints: a text on the finished run, and the forecast."""
        return f"{super().__str__()}\n{self.forecast}"


def run(pipeline: str, input: str, output: str, **arguments: Any) -> OpenedRun:
    """Run a pipeline, as ``beam run`` does, and return the finished run.

    Like the command, the function hides Beam's log messages. To see them, set a level of the logger ``apache_beam``
    before.

    Args:
        pipeline: The name of a bundled pipeline, or the path of a pipeline's file.
        input: The file, folder or data set with the questions.
        output: The run folder, which is created if it is missing.
        arguments: Further arguments, those of :class:`groundtrace.pipelines.running.plan.plan.RunArguments`: for
            example ``config`` (a file, or a mapping such as ``{"difficulty": {"high": 0.8}}``), ``overrides``
            (``{"difficulty.high": 0.8}`` or ``["difficulty.high=0.8"]``), ``limit``, ``cache``, ``fresh``,
            ``target_sft``, ``replace`` and ``beam_options``.

    Raises:
        UserError: The user made a mistake, or an endpoint (model server) refuses the requests. Also raised if the run
            keeps no rows although the folder already holds a run with rows, unless ``replace`` is True.
        RunPaused: A server is unreachable. The same call resumes the run.
        ConservationError: The outputs do not hold every record exactly once.
    """
    _execute({"pipeline": pipeline, "input": input, "output": output, **arguments})
    return open_run(output)


def preview(pipeline: str, input: str, output: str, records: int = PREVIEWED_RECORDS, **arguments: Any) -> PreviewedRun:
    """Run a pipeline on the first records of an input, as ``beam preview`` does, and return the finished run.

    ``records`` is the number of these records. All other arguments (``pipeline``, ``input``, ``output`` and so on) and
    the errors are those of :func:`run`. The attribute ``forecast`` of the returned run is the forecast of calls, cost
    and rows for the whole input.
    """
    named = {"pipeline": pipeline, "input": input, "output": output, "limit": records, "measure": True}
    for name in ("limit", "measure"):
        if name in arguments:
            raise UserError(f"preview takes no argument {name!r}: give `records`, the number of records to read")
    plan, summary = _execute(named | arguments)
    total = count_records(plan.context.sources)
    forecast = forecast_text(summary, total, plan.stages, plan.settings, fullest_run_beside(plan))
    return PreviewedRun(**vars(open_run(output)), forecast=forecast)


def _execute(given: dict[str, Any]) -> tuple[Plan, RunSummary]:
    """Execute a run with the arguments ``given`` of :func:`run`, by name. Return its plan and its summary.

    Raises the errors of :func:`run`.
    """
    known = [field.name for field in fields(RunArguments)]
    if unknown := next((name for name in given if name not in known), ""):
        raise UserError(f"run() has no argument {unknown!r}; use one of {', '.join(known)}{near(unknown, known)}")
    if isinstance(recipe := given["pipeline"], Recipe):
        raise UserError(
            f"run() cannot use the recipe {recipe.name!r} itself, because other processes must import it: save it as "
            "RECIPE in a .py file, and pass the path of this file"
        )
    given = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    check_arguments("run", RunArguments, given)
    try:
        with without_beam_logs():
            plan = make_plan(RunArguments(**given))
            return plan, execute(plan)
    except Exception as error:
        error.args = tuple(without_beams_words(each) if isinstance(each, str) else each for each in error.args)
        if not isinstance(error, UserError) and (where := place_of(error)):
            error.add_note(where)
        raise


def reload() -> list[str]:
    """Forget the user's code that this session has imported, so that the next call uses the present files.

    Call this function in a notebook after you edited a recipe, a plug-in, a module that one of them imports from its
    folder, or a prompt. Returns the sorted names of the forgotten modules. Modules of Groundtrace and of installed
    packages are kept. A plug-in that :func:`groundtrace.schemas.registry.use_plugins` registered in the session itself
    must be registered again. Classes and functions that the session imported by name, and objects of these classes,
    keep their old code until the session imports them again.
    """
    return sorted(forget_user_code())
