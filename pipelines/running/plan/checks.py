"""Checks, before anything is written, that a planned run can be executed and would not damage data in its folder."""

import os
from pathlib import Path

from groundtrace.inference.cache.replies import check_files
from groundtrace.inference.endpoint import check_extras
from groundtrace.inference.open_files import allow_connections
from groundtrace.inference.serving import kinds_to_serve
from groundtrace.pipelines.running.plan.inputs import check_fields, count_records
from groundtrace.pipelines.running.plan.local_run import RunFolderError
from groundtrace.pipelines.running.plan.options import OptionError, check_in_store, see_no_disk
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.pipelines.running.plan.workers import check_workers
from groundtrace.publishing.reading import InspectError, read_config, read_summary
from groundtrace.stages.sources.registry import format_of
from groundtrace.storage.places import is_remote


def check_plan(plan: Plan) -> None:
    """Raise an error if a run cannot be executed, or if it would damage data in its folder. No file is changed.

    ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. If the run needs more open
    files than this process may have, the function increases the limit of open files of this process. Raises:

    - :class:`groundtrace.pipelines.running.plan.options.OptionError` for options that do not fit this run.
    - :class:`groundtrace.pipelines.running.plan.local_run.RunFolderError` for a folder that cannot be used.
    - :class:`groundtrace.publishing.reading.InspectError` for a damaged or unreadable config in the folder.
    - :class:`groundtrace.stages.sources.base.InputError` for an input without a required field.
    - :class:`groundtrace.config.extras.MissingExtra` for a missing package.
    - :class:`groundtrace.inference.open_files.TooFewFiles` if the concurrent requests of the run need more open files
      than the system allows.
    """
    arguments = plan.arguments
    arguments.budget.check_prices(plan.models_asked)
    if plan.settings.workers is None:
        asked = {name: plan.settings.endpoints[name] for name in plan.roles.values()}
        check_workers(asked, plan.models.cache_path, arguments.budget.bounded and not plan.is_local)
    if (served := kinds_to_serve(plan.models_asked)) and not plan.is_local:
        raise OptionError(
            f"an endpoint of the kind {served[0]} starts a model server on this machine, which workers on other "
            "machines cannot use: remove --runner, or start a server yourself, and set the endpoint's kind to openai "
            "and its base_url to the server's URL"
        )
    if plan.is_local:  # else the packages are needed on the workers, which cannot be seen from here
        check_extras(plan.models.endpoint(role) for role in plan.roles)
        allow_connections({name: plan.models.endpoint(role) for role, name in plan.roles.items()})
    check_fields(plan.input, plan.settings.input, plan.recipe.writes_questions)
    _check_apart(plan)
    if see_no_disk(plan.options):
        sources = [("--input", source.path) for source in plan.input.sources]
        check_in_store([*sources, ("--output", plan.folder.name), ("--cache", plan.models.cache_path)])
    plan.folder.check(plan.input.fingerprint, arguments.resume)
    read_config(plan.folder.root)  # the run is compared with it at its end
    if arguments.limit is not None and arguments.resume:
        _check_replaced(plan, arguments.limit, arguments.measure)


def _check_apart(plan: Plan) -> None:
    """Refuse a run folder inside the input folder, if a run reads all files of the input folder.

    Otherwise the next run would read the outputs as its input. Raises :class:`RunFolderError`. ``plan`` names the two
    folders.
    """
    read_whole = any(format_of(source).is_read_whole for source in plan.input.sources)
    if read_whole and plan.folder.root.is_relative_to(plan.input.media_root):
        raise RunFolderError(
            f"the run folder {plan.folder.root} is inside the input folder, so the next run would read the outputs as "
            "input: choose another --output"
        )


def _check_replaced(plan: Plan, limit: int, preview: bool) -> None:
    """Refuse a run on a part of the input if it would replace a finished run that has read more records.

    Raises :class:`RunFolderError`. Exception: a preview may replace any preview. ``limit`` is the maximum number of
    records that the run reads. ``preview`` is True if the run is a preview.
    """
    try:
        held = read_summary(plan.folder.root, checked=False)
    except InspectError:
        return  # no finished run, or none that can be read
    records, most = held.counts.input, count_records(plan.context.sources, limit)
    if records > (limit if most is None else most) and not (preview and held.forecast is not None):
        raise RunFolderError(
            f"{plan.folder.name} holds a finished run of {records} records, and this run would replace it by a "
            "run of fewer records: choose another --output"
        )


def check_cache(plan: Plan) -> None:
    """Raise :class:`OptionError` if the reply cache (the stored replies of models) cannot be written where the user
    wants it.

    OptionError is raised in three cases:

    - A folder or file of the cache cannot be created or written.
    - There is a folder at the path of the cache's file.
    - There is a file at the path of the cache's log folder.

    Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if a file or folder in the cache's folder is a link, a
    pipe or a device. ``plan`` holds the arguments and settings of the run. If the cache's folder is missing, it is
    created. The cache is not checked if it is remote or if the workers are on other machines.
    """
    if not plan.is_local or is_remote(plan.models.cache_path):
        return
    named, path = plan.arguments.cache or "", Path(plan.models.cache_path)
    check_files(path)
    which = f"--cache {named}" if named else f"the cache {path.parent}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"{which} cannot be used, because this folder cannot be created ({error.strerror}): name another folder "
            "with --cache"
        ) from error
    log = path.parent / "log"
    wrong = (path, "a folder, not a file") if path.is_dir() else (log, "a file, not a folder")
    if wrong[0].exists() and (path.is_dir() or not log.is_dir()):
        raise OptionError(
            f"{which} cannot be used, because {wrong[0]} is {wrong[1]}: move {wrong[0]} away, or name another folder "
            "with --cache"
        )
    for held in (path.parent, path, log):
        if held.exists() and not os.access(held, os.W_OK):
            raise OptionError(
                f"{which} cannot be used, because {held} cannot be written: name another folder with --cache, or "
                "change the permissions"
            )
