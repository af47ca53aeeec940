"""What a run is made of, before anything is written: the pipeline's module, its settings, the input and the folder."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from inference.serving import kinds_to_serve
from inference.settings import ModelsSettings
from pipelines.running.budget import RunBudget
from pipelines.running.context import RunContext
from pipelines.running.forecast import count_records
from pipelines.running.inputs import Input, find_input
from pipelines.running.run_folder import RunFolder, RunFolderError, local_path, named_folder
from pipelines.running.runner import OptionError
from publishing.figures import InspectError, read_summary
from schemas.config import load_config
from schemas.errors import UserError
from schemas.ordering import order_key
from stages.ingest_records import MediaRoots


class PipelineError(UserError):
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
    return str(local_path(named).resolve() / "replies.sqlite")


def load_pipeline(path: str) -> ModuleType:
    """The module of a pipeline file. Raises :class:`PipelineError` when it has no Settings, build and RECIPE."""
    file = Path(path)
    if not file.is_file():
        raise PipelineError(f"there is no pipeline {path}; the bundled one is pipelines/grounded_cot.py")
    bundled = file.resolve().parent == Path(__file__).resolve().parents[1]
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


def check_plan(plan: Plan, arguments: RunArguments, is_local: bool) -> None:
    """Refuse a plan that cannot be carried out, or that would do harm in its folder; touches nothing.

    Raises :class:`pipelines.running.runner.OptionError` and :class:`pipelines.running.run_folder.RunFolderError`.
    """
    if (served := kinds_to_serve(plan.models)) and not is_local:
        raise OptionError(f"the endpoint kind {served[0]} starts a server on this machine only: drop --runner")
    _check_apart(plan)
    plan.folder.check(plan.input.fingerprint, arguments.resume)
    if arguments.limit is not None and arguments.resume:
        _check_replaced(plan, arguments.limit, arguments.measure)


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


def check_cache(named: str, path: Path) -> None:
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
