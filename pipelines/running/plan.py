"""What a run is made of, before anything is written: the recipe, its settings, the input and the folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apache_beam as beam

from groundtrace.config.settings import ConfigError, given_values, load_config
from groundtrace.inference.endpoint import COORDINATE_ROLES, check_extras, extras_of, is_embedded, is_real
from groundtrace.inference.serving import kinds_to_serve
from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.running.budget import RunBudget
from groundtrace.pipelines.running.cache_place import cache_path
from groundtrace.pipelines.running.forecast import count_records
from groundtrace.pipelines.running.inputs import Input, check_fields, find_input
from groundtrace.pipelines.running.loading import PipelineError, load_recipe
from groundtrace.pipelines.running.run_folder import RunFolder, RunFolderError, named_folder
from groundtrace.pipelines.running.runner import OptionError, pipeline_options
from groundtrace.pipelines.running.wiring import Wired, stages_of, wire
from groundtrace.pipelines.running.workers import check_in_store, is_local, see_no_disk
from groundtrace.publishing.figures import InspectError, read_config, read_summary
from groundtrace.schemas.arrow import CORE, EARLIER
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.recipe import Draw, Recipe, RunContext
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.registry import format_of
from groundtrace.storage.places import extras_for
from groundtrace.vision.media import MediaRoots


@dataclass(frozen=True)
class RunArguments:
    """What the command line says of a run. ``fresh`` uses no reply that was asked for before this command
    (:mod:`groundtrace.pipelines.running.freshness`); ``measure`` counts what each record takes, for a preview's
    forecast; ``replace`` lets a run that keeps no rows take the place of one that has some.
    """

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
    fresh: bool = False
    replace: bool = False


@dataclass(frozen=True)
class Plan:
    """A run made ready: the recipe, its settings, the stages that it wires with them, the input and the folder."""

    recipe: Recipe
    settings: Any
    stages: StageList
    input: Input
    folder: RunFolder
    models: ModelsSettings
    context: RunContext

    @property
    def roles(self) -> dict[str, str]:
        """The roles that the recipe asks and that have endpoints, with these endpoints' names."""
        return {role: name for role, name in self.models.roles if role in self.stages.roles_asked}

    @property
    def extras(self) -> set[str]:
        """The extras of ours that this run needs wherever it runs."""
        places = (*(source.path for source in self.input.sources), self.models.run_root, self.models.cache_path)
        return extras_of(self.models.endpoint(role) for role in self.roles) | extras_for(places)

    @property
    def models_asked(self) -> ModelsSettings:
        """The models with these roles only."""
        return replace(self.models, roles=tuple(sorted(self.roles.items())))


def make_plan(arguments: RunArguments) -> Plan:
    """Load the pipeline, the config and the input, and find the stages; raises their errors, touches nothing."""
    recipe = load_recipe(arguments.pipeline)
    settings = load_config(recipe.settings, arguments.config, arguments.overrides)
    found = find_input(arguments.input, settings.input, settings.storage)
    folder = named_folder(arguments.output, settings.storage)
    elsewhere = not is_local(pipeline_options(arguments.beam_options))
    run_root = folder.seen_by_workers(folder.root, elsewhere)
    models = ModelsSettings(
        endpoints=tuple(sorted(settings.endpoints.items())),
        roles=tuple(sorted((role, name) for role, name in settings.roles.items() if name)),
        cache_path=cache_path(arguments.cache, folder),
        input_root=found.media_root,
        run_root=run_root,
        storage=settings.storage,
    )
    roots = MediaRoots(found.media_root, run_root, settings.storage)
    context = RunContext(found.sources, roots, models, arguments.limit, Draw(target_sft=arguments.target_sft))
    stages = stages_of(recipe, context, settings)
    _check_roles(stages, settings)
    check_kept_names(stages, settings.input.keep)
    named = given_values(arguments.config, arguments.overrides).get("roles", {})
    _check_embedded(stages, settings, frozenset(named if isinstance(named, Mapping) else ()))
    models = replace(models, roles=tuple((role, name) for role, name in models.roles if role in stages.roles_asked))
    return Plan(recipe, settings, stages, found, folder, models, replace(context, models=models))


def _check_roles(stages: StageList, settings: Any) -> None:
    """Refuse a config that gives no endpoint to a role that the stages ask."""
    for stage in stages:
        for ask in stage.asks:
            if ask.required and not settings.roles.get(ask.role):
                raise ConfigError(f"roles.{ask.role} must name an endpoint: the stage {stage.name} asks it")


def check_kept_names(stages: StageList, names: Sequence[str]) -> None:
    """Refuse to keep columns of the input under names that have another meaning in the rows. Raises ConfigError."""
    taken = {name.casefold() for name in (*CORE, *EARLIER, *(column.name for column in stages.adds))}
    if name := next((name for name in names if name.casefold() in taken), ""):
        raise ConfigError(
            f"input.keep: rows have a column {name.casefold()} of their own: rename the input's column, or leave it out"
        )


JUDGES = frozenset({"judge", "second_judge"})
"""Roles that read what others have seen: a real judge says nothing of the images."""


def _check_embedded(stages: StageList, settings: Any, named: frozenset[str]) -> None:
    """Refuse to let the embedded engine look at what real models look at, where nobody said so.

    It finds drawn shapes. On photographs it finds nothing, so that good traces would be rejected; and a segmenter that
    finds no mask is as bad when it is named in the config.
    """
    roles = {role: name for role, name in settings.roles.items() if name and role in stages.roles_asked}
    real = sorted(role for role, name in roles.items() if role not in JUDGES and is_real(settings.endpoints[name]))
    if not real or settings.allow_embedded:
        return
    for role in (*COORDINATE_ROLES, "segmenter"):
        if role not in roles or not is_embedded(settings.endpoints[roles[role]]):
            continue
        beside = f"roles.{role} is the embedded engine, which finds drawn shapes only, beside roles.{real[0]}"
        if role == "segmenter":
            no_masks = 'leave it out with roles.segmenter = "" (boxes then stand for masks)'
            raise ConfigError(f"{beside}: choose another, {no_masks}, or set allow_embedded = true")
        if role not in named:
            raise ConfigError(f"{beside}: name an endpoint for it, or set allow_embedded = true")


def wire_plan(plan: Plan, pipeline: beam.Pipeline, context: RunContext) -> Wired:
    """Wires the plan's DAG on a pipeline, for a run with that context.

    Raises what :func:`groundtrace.pipelines.running.wiring.wire` raises, and
    :class:`groundtrace.pipelines.running.loading.PipelineError` if the stages are not those of the plan.
    """
    wired = wire(plan.recipe, pipeline, context, plan.settings)
    if wired.stages != plan.stages:
        changed = [
            stage.name
            for stage in (*plan.stages, *wired.stages)
            if not (stage in plan.stages and stage in wired.stages)
        ]
        raise PipelineError(
            f"the recipe {plan.recipe.name} wires other stages in the run than in its plan "
            f"({', '.join(dict.fromkeys(changed)) or 'the order differs'}): make build depend on its settings only"
        )
    return wired


def check_wiring(plan: Plan) -> Wired:
    """Wire the plan's DAG, which nothing runs, and return it. Raises as a run would
    (:class:`groundtrace.pipelines.running.loading.PipelineError`).
    """
    return wire_plan(plan, beam.Pipeline(options=Options([])), plan.context)


def check_plan(plan: Plan, arguments: RunArguments) -> None:
    """Refuse a plan that cannot be carried out, or that would do harm in its folder; touches nothing.

    Raises :class:`groundtrace.pipelines.running.runner.OptionError`,
    :class:`groundtrace.pipelines.running.run_folder.RunFolderError`,
    :class:`groundtrace.publishing.figures.InspectError` for a damaged config in the folder, and
    :class:`groundtrace.config.extras.MissingExtra`.
    """
    options = pipeline_options(arguments.beam_options)
    local = is_local(options)
    arguments.budget.check_prices(plan.models_asked)
    if (served := kinds_to_serve(plan.models_asked)) and not local:
        raise OptionError(f"the endpoint kind {served[0]} starts a server on this machine only: drop --runner")
    if local:  # else the packages are needed on the workers, which cannot be seen from here
        check_extras(plan.models.endpoint(role) for role in plan.roles)
    check_fields(plan.input, plan.settings.input)
    _check_apart(plan)
    if see_no_disk(options):
        sources = [("--input", source.path) for source in plan.input.sources]
        check_in_store([*sources, ("--output", plan.folder.name), ("--cache", plan.models.cache_path)])
    plan.folder.check(plan.input.fingerprint, arguments.resume)
    read_config(plan.folder.root)  # the run is compared with it at its end
    if arguments.limit is not None and arguments.resume:
        _check_replaced(plan, arguments.limit, arguments.measure)


def _check_apart(plan: Plan) -> None:
    """Refuse a run folder inside a folder that is read whole: the next run would read it too."""
    read_whole = any(format_of(source).is_read_whole for source in plan.input.sources)
    if read_whole and plan.folder.root.is_relative_to(plan.input.media_root):
        raise RunFolderError(
            f"{plan.folder.root} is inside the input, which is read with all that is in it: choose another --output"
        )


def _check_replaced(plan: Plan, limit: int, preview: bool) -> None:
    """Refuse to put a part of the input in the place of a finished run that read more of it.

    Raises :class:`RunFolderError`. A preview may take the place of any preview.
    """
    try:
        held = read_summary(plan.folder.root, checked=False)
    except InspectError:
        return  # no finished run, or none that can be read
    records, most = held.counts.input, count_records(plan.context.sources, limit)
    if records > (limit if most is None else most) and not (preview and held.forecast is not None):
        raise RunFolderError(
            f"{plan.folder.name} holds a finished run of {records} records, and this one of fewer would "
            "replace it: choose another --output"
        )


def check_cache(named: str, path: Path) -> None:
    """Raises :class:`OptionError` when the folder of ``--cache`` cannot be made or written, or something else stands
    where the cache keeps its files; a remote one passes. ``named`` is "" for the cache of the run folder.
    """
    if "://" in named:
        return
    which = f"--cache {named}" if named else f"the cache {path.parent}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{which}: cannot make this folder ({error.strerror}): name another") from error
    log, remedy = path.parent / "log", "move it away, or name another with --cache"
    if path.is_dir():
        raise OptionError(f"{which}: {path} is a folder, not the cache's file: {remedy}")
    if log.exists() and not log.is_dir():
        raise OptionError(f"{which}: {log} is a file, not the cache's folder: {remedy}")
    for held in (path.parent, path, log):
        if held.exists() and not os.access(held, os.W_OK):
            raise OptionError(f"{which}: {held} cannot be written: name another folder, or change its rights")
