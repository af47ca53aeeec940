"""Makes the plan of a run, before anything is written: the recipe (pipeline), its settings, the input, the run folder
(for the outputs) and the models.
"""

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apache_beam as beam

from groundtrace.config.settings import given_values, settings_from
from groundtrace.inference.endpoint import extras_of
from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.running.plan.budget import RunBudget
from groundtrace.pipelines.running.plan.config_check import check_config
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.pipelines.running.plan.job_check import check_job
from groundtrace.pipelines.running.plan.loading import PipelineError, is_bundled, load_recipe, recipe_file
from groundtrace.pipelines.running.plan.local_run import LocalRun
from groundtrace.pipelines.running.plan.options import is_local, pipeline_options
from groundtrace.pipelines.running.plan.places import cache_path, named_folder
from groundtrace.pipelines.running.plan.wiring import UnrunPipeline, WiredPipeline, stages_of, wire
from groundtrace.pipelines.running.plan.workers import parts_of
from groundtrace.schemas.registry import plugin_files
from groundtrace.schemas.revision import revision_with
from groundtrace.schemas.user_modules import check_modules, remember_modules
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.recipe import Draw, Recipe, RunContext
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.base import Input
from groundtrace.storage.places import extras_for
from groundtrace.vision.media import MediaRoots


def check_sandbox() -> None:
    """Raise :class:`groundtrace.sandbox.errors.SandboxRefused` if this machine cannot isolate model-written code."""
    from groundtrace.sandbox.requirements import check  # only recipes that execute code need its extra

    check()


@dataclass(frozen=True)
class RunArguments:
    """Holds the arguments of a run, as the command line gives them.

    Attributes:
        pipeline: The name of a bundled pipeline, or the path of a pipeline's file.
        input: The input: a file, a folder, a URL, or the id of a data set.
        output: The path or URL of the run folder.
        config: The path of the TOML config, or its values as nested mappings; None for the defaults.
        overrides: Changes of the config, each in the form ``a.b=c``; or a mapping from dotted keys to values.
        limit: The number of records to read from the beginning of the input; None for all.
        cache: The folder of the reply cache (the stored replies of models); None for the cache in the run folder.
        resume: True to refuse a run folder that belongs to another input, or holds a finished run that has read more
            records than this run will read; False to replace the outputs in such a folder.
        beam_options: The options for Beam.
        target_sft: The target number of SFT rows; None for no target.
        budget: The spending limits.
        measure: Whether to count the calls and the cost of each record, for a preview's forecast.
        fresh: Whether to ignore replies that were requested before this command
            (:mod:`groundtrace.pipelines.running.plan.freshness`).
        replace: Whether a run that keeps no rows may replace a finished run that has rows.
    """

    pipeline: str
    input: str
    output: str
    config: str | Mapping[str, Any] | None = None
    overrides: Sequence[str] | Mapping[str, Any] = ()
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
    """Holds the plan of a run: the user's arguments, and the recipe, settings, input and folder that they name.

    Attributes:
        arguments: The arguments of the command line.
        options: The parsed Beam options. A runner changes its options, so each job gets a copy.
        recipe: The recipe, i.e. the pipeline with its name and its settings class.
        recipe_file: The path of the Python file that defines the recipe, without symbolic links.
        settings: The config, an object of the recipe's settings class.
        stages: The stages (steps) that the recipe has with these settings.
        input: The input: its files and columns.
        folder: The object that manages the run folder (the folder for the outputs).
        models: The settings of the models, for the roles (such as teacher) to which the stages send requests.
        context: The input, the media folders, the models and the selection of questions, as one object that is passed
            to the recipe's ``build``.
        own_code: Pairs of a file of the user and the folder from which the file is imported. The files are the recipe
            (unless it is a bundled one) and the modules with the plug-ins that the config names or the recipe
            registers. Files that only these files import are not included.
    """

    arguments: RunArguments
    options: Options
    recipe: Recipe
    recipe_file: Path
    settings: Any
    stages: StageList
    input: Input
    folder: LocalRun
    models: ModelsSettings
    context: RunContext
    own_code: frozenset[tuple[Path, Path]] = frozenset()

    @property
    def is_local(self) -> bool:
        """Return whether all workers run on this machine."""
        return is_local(self.options)

    @property
    def roles(self) -> dict[str, str]:
        """Return the name of the endpoint (model server) of each role (such as teacher) to which the stages (steps) of
        the recipe send requests.

        Roles without an endpoint are left out.
        """
        return {role: name for role, name in self.models.roles if role in self.stages.roles_asked}

    @property
    def extras(self) -> set[str]:
        """Return the extras (optional dependencies of Groundtrace) that this run needs on every machine."""
        places = (*(source.path for source in self.input.sources), self.models.run_root, self.models.cache_path)
        executing = {"sandbox"} if any(stage.executes for stage in self.stages) else set[str]()
        return extras_of(self.models.endpoint(role) for role in self.roles) | extras_for(places) | executing

    @property
    def models_asked(self) -> ModelsSettings:
        """Return the settings of the models, with only those roles (such as teacher) to which the stages (steps) of the
        recipe send requests.
        """
        return replace(self.models, roles=tuple(sorted(self.roles.items())))

    @functools.cached_property
    def revision(self) -> str:
        """Return the revision of the code that makes the rows: that of Groundtrace, and a digest of the user's code.

        The user's code consists of the files of the user's recipe and plug-ins, and of the files that these import from
        their folders. A bundled recipe does not count. If there is no code of the user, the result is only the revision
        of Groundtrace.
        """
        return revision_with(self.own_code)

    def wire(self, pipeline: beam.Pipeline | None = None, context: RunContext | None = None) -> WiredPipeline:
        """Add the stages (steps) of this run's recipe to a Beam pipeline, and return the pipeline's outputs and stages.

        ``pipeline`` is the pipeline; None for a new one that is never run. ``context`` is passed to the recipe's
        ``build``; None for the context of this plan. Raises the errors of
        :func:`groundtrace.pipelines.running.plan.wiring.wire`, e.g. if records would be lost, and
        :class:`groundtrace.pipelines.running.plan.loading.PipelineError` if the recipe now has other stages than in the
        plan.
        """
        wired = wire(self.recipe, pipeline or UnrunPipeline(), context or self.context, self.settings)
        if wired.stages != self.stages:
            changed = [
                stage.name
                for stage in (*self.stages, *wired.stages)
                if not (stage in self.stages and stage in wired.stages)
            ]
            raise PipelineError(
                f"two calls of `build` of the recipe {self.recipe.name} added different stages (they differ in "
                f"{', '.join(map(repr, dict.fromkeys(changed))) or 'the order'}): in `build`, let only the config "
                "decide which stages are added"
            )
        return wired


def make_plan(arguments: RunArguments) -> Plan:
    """Return the plan of a run: the recipe, its settings and stages (steps), the input, the models and the run folder.

    Nothing is written. The function parses and checks the Beam options, loads the recipe, the config and the input, and
    finds the stages. Raises the errors of these steps, e.g. ConfigError for an invalid config. ``arguments`` are the
    arguments of the command line.
    """
    options = pipeline_options(arguments.beam_options)
    check_job(options)
    recipe, file = load_recipe(arguments.pipeline), recipe_file(arguments.pipeline)
    given = given_values(arguments.config, arguments.overrides)
    settings = settings_from(recipe.settings, given)
    found = find_input(arguments.input, settings.input, settings.storage, recipe.writes_questions)
    folder = named_folder(arguments.output, settings.storage)
    run_root = folder.seen_by_workers(folder.root, not is_local(options))
    models = ModelsSettings(
        endpoints=tuple(sorted(parts_of(settings.endpoints, settings.workers or 1).items())),
        roles=tuple(sorted((role, name) for role, name in settings.roles.items() if name)),
        cache_path=cache_path(arguments.cache, folder),
        input_root=found.media_root,
        run_root=run_root,
        workers=1 if is_local(options) else settings.workers or 1,
        storage=settings.storage,
    )
    roots = MediaRoots(found.media_root, run_root, settings.storage)
    context = RunContext(found.sources, roots, models, arguments.limit, Draw(target_sft=arguments.target_sft))
    stages = stages_of(recipe, context, settings)
    check_config(stages, settings, given)
    if is_local(options) and any(stage.executes for stage in stages):
        check_sandbox()
    models = replace(models, roles=tuple((role, name) for role, name in models.roles if role in stages.roles_asked))
    context = replace(context, models=models)
    own_code = _own_code(file, given)
    return Plan(arguments, options, recipe, file, settings, stages, found, folder, models, context, own_code)


def _own_code(recipe: Path, config: Mapping[str, Any]) -> frozenset[tuple[Path, Path]]:
    """Return the files of a run that contain the user's recipe and plug-ins, as pairs of a file and a folder.

    The folder is the one from which the file is imported. A bundled recipe is not in the result. ``recipe`` is the
    recipe's file, and ``config`` are the values that the user has set. Raises StaleModule if one of these files, or a
    file that they import, has changed since this process imported it.
    """
    found = plugin_files(config) | (set() if is_bundled(recipe) else {(recipe, recipe.parent)})
    for own in found:
        check_modules(*own)
        remember_modules(*own, before=sys.modules)  # `build` may have imported further modules
    return frozenset(found)
