"""Running a pipeline: prepare the folder, execute the DAG, check conservation, put the outputs in place."""

import contextlib
import datetime
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import apache_beam as beam

from inference.endpoint import SERVED
from inference.runtime import runtime
from inference.settings import ModelsSettings
from pipelines.budget import RunBudget, Spent, is_local, is_used_up, spent_of, worker_processes
from pipelines.card import write_card
from pipelines.context import Outcome, RunContext
from pipelines.counts import agreements, ledger, metric_counters, unbalanced, written_counts
from pipelines.figures import InspectError, read_summary
from pipelines.forecast import count_records, measured
from pipelines.inputs import Input, find_input
from pipelines.outputs import write_outcome
from pipelines.progress import show_progress
from pipelines.report import write_report
from pipelines.run_folder import RunFolder, RunFolderError, named_folder
from pipelines.runner import OptionError, choose_runner, pipeline_options
from pipelines.waves import Wave, first_share, joined_counters, next_share, threshold, wave_of
from prompts.loader import load_prompt, prompt_names
from schemas.config import load_config, to_toml
from schemas.ordering import order_key
from schemas.reasons import Reason
from schemas.revision import code_revision
from stages.counting import clear_board
from stages.draw_questions import Draw
from stages.ingest_records import MediaRoots
from stages.packing import packing
from stages.rows import RowContext


class ConservationError(Exception):
    """Records were lost or made up; the outputs were not put in place."""


class PipelineError(Exception):
    """The pipeline file cannot be used."""


@dataclass(frozen=True)
class RunArguments:
    """What the command line says of a run. ``measure`` counts what each record takes, for a preview's forecast."""

    pipeline: str
    input: str
    output: str
    config: str | None = None
    overrides: Sequence[str] = ()
    limit: int | None = None
    cache: str | None = None
    resume: bool = True
    beam_options: Sequence[str] = ()
    target_sft: int | None = None
    budget: RunBudget = field(default_factory=RunBudget)
    measure: bool = False


@dataclass(frozen=True)
class Plan:
    """A run made ready: the DAG's module, its settings, the input and the folder."""

    module: ModuleType
    settings: Any
    input: Input
    folder: RunFolder
    models: ModelsSettings
    context: RunContext


def make_plan(arguments: RunArguments) -> Plan:
    """Load the pipeline, the config and the input; raises their errors, touches nothing."""
    module = load_pipeline(arguments.pipeline)
    settings = load_config(module.Settings, arguments.config, arguments.overrides)
    found = find_input(arguments.input, settings.input)
    folder = named_folder(arguments.output)
    models = ModelsSettings(
        endpoints=tuple(sorted(settings.endpoints.items())),
        roles=tuple(sorted((role, name) for role, name in settings.roles.items() if name)),
        cache_path=_cache_path(arguments.cache, folder),
        input_root=found.media_root,
        run_root=str(folder.root),
    )
    roots = MediaRoots(found.media_root, str(folder.root))
    return Plan(module, settings, found, folder, models, RunContext(found.sources, roots, models, arguments.limit))


def _cache_path(named: str | None, folder: RunFolder) -> str:
    """Where replies are kept: in the run folder, another folder, or at a remote location."""
    if not named:
        return str(folder.cache_path)
    if "://" in named:
        return f"{named.rstrip('/')}/replies.sqlite"
    return str(Path(named).resolve() / "replies.sqlite")


def _check_cache(named: str, path: Path) -> None:
    """Raises :class:`OptionError` when the folder of ``--cache`` cannot be made or written; a remote one passes."""
    if "://" in named:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--cache {named}: cannot make this folder ({error.strerror}): name another") from error
    for held in (path.parent, path, path.parent / "log"):
        if held.exists() and not os.access(held, os.W_OK):
            raise OptionError(f"--cache {named}: {held} cannot be written: name another folder, or change its rights")


def load_pipeline(path: str) -> ModuleType:
    """The module of a pipeline file. Raises :class:`PipelineError` when it has no Settings, build and RECIPE."""
    file = Path(path)
    if not file.is_file():
        raise PipelineError(f"there is no pipeline {path}; the bundled one is pipelines/grounded_cot.py")
    bundled = file.resolve().parent == Path(__file__).resolve().parent
    name = f"pipelines.{file.stem}" if bundled else f"pipeline_{file.stem}_{order_key(str(file.resolve()))[:12]}"
    module = sys.modules.get(name) or _import_file(name, file)
    missing = [part for part in ("Settings", "build", "RECIPE") if not hasattr(module, part)]
    if missing:
        raise PipelineError(f"{path} is not a pipeline: it defines no {missing[0]}")
    return module


def _import_file(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{file} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError) as error:
        del sys.modules[name]
        raise PipelineError(f"{file} cannot be imported: {error}") from error
    return module


def execute(arguments: RunArguments) -> dict[str, Any]:
    """Run the pipeline and return the content of run.json.

    Raises :class:`ConservationError` when the counts differ, besides the errors of planning; old outputs then stay.
    """
    options = pipeline_options(arguments.beam_options)
    arguments.budget.check(options)
    plan = make_plan(arguments)
    if any(plan.models.endpoint(role).kind == SERVED for role, _ in plan.models.roles) and not is_local(options):
        raise OptionError(f"the endpoint kind {SERVED} starts a server on this machine only: drop --runner")
    _check_apart(plan)
    plan.folder.check(plan.input.fingerprint, arguments.resume)
    if arguments.limit is not None and arguments.resume:
        _check_replaced(plan, arguments.limit, arguments.measure)
    with plan.folder.locked(), contextlib.ExitStack() as stack:
        plan.folder.prepare(plan.input.name, plan.input.fingerprint, arguments.resume)
        if arguments.cache and is_local(options):
            _check_cache(arguments.cache, Path(plan.models.cache_path))
        started = time.monotonic()
        served = replace(plan, models=_serve(plan, stack))
        waves = _run_waves(served, arguments)
        summary = _summarise(plan, waves, arguments, time.monotonic() - started)
        staging = plan.folder.staging
        (staging / "config.toml").write_text(to_toml(plan.settings), "utf-8")
        (staging / "run.json").write_text(json.dumps(summary, indent=1), "utf-8")
        write_card(staging, summary)
        write_report(staging, plan.folder.root, summary)
        plan.folder.commit()
    return summary


def _check_apart(plan: Plan) -> None:
    """Refuse a run folder inside a folder that ``datasets`` reads whole: the next run would read it too."""
    read_whole = any(source.kind == "datasets" for source in plan.input.sources)
    if read_whole and plan.folder.root.is_relative_to(plan.input.media_root):
        raise RunFolderError(
            f"{plan.folder.root} is inside the input, which is read with all that is in it: choose another --output"
        )


def _check_replaced(plan: Plan, limit: int, preview: bool) -> None:
    """Refuse to put a part of the input in the place of a finished run that read more of it.

    Raises :class:`RunFolderError`. A preview may take the place of any preview.
    """
    try:
        held = read_summary(plan.folder.root)
    except InspectError:
        return  # no finished run, or none that can be read
    records, most = held["counts"]["input"], count_records(plan.context.sources, limit)
    if records > (limit if most is None else most) and not (preview and "forecast" in held):
        raise RunFolderError(
            f"{plan.folder.root} holds a finished run of {records} records, and this one of fewer would "
            "replace it: choose another --output"
        )


def _serve(plan: Plan, stack: contextlib.ExitStack) -> ModelsSettings:
    """The plan's models with the servers of ``vllm`` endpoints started; the stack stops them."""
    if all(plan.models.endpoint(role).kind != SERVED for role, _ in plan.models.roles):
        return plan.models
    from inference.vllm_server import VllmServerError, serving

    try:
        return stack.enter_context(serving(plan.models, str(plan.folder.root / "logs")))
    except VllmServerError as error:
        raise PipelineError(str(error)) from error


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
