"""Chooses the Beam runner of a Beam job, i.e. the software that executes it, such as Beam's local runner or Spark."""

import logging
import sys
from pathlib import Path

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner

from groundtrace.inference.open_files import check_for_workers
from groundtrace.pipelines.running.execute.local_workers import WorkersRunner
from groundtrace.schemas.coding import RECORD_MODULES
from groundtrace.schemas.module_search import searched_folders
from groundtrace.schemas.registry import configured_plugins


def choose_runner(options: PipelineOptions, recipe_file: Path | None = None) -> PipelineRunner | None:
    """Return a Beam runner for this machine; None if the options name a runner, which Beam then creates itself.

    ``options`` are the options of the job. ``recipe_file`` is the Python file of the recipe (the pipeline), which
    worker processes load; None for no recipe.

    The returned runner is Beam's class ``FnApiRunner`` or a subclass. If the options name no runner, Beam itself would
    use its default runner. This function does not use the default runner, for two reasons. The default runner would
    first try to download a binary. And its worker processes would lack the pipeline's options (such as those of a file
    system), the stages and prompts of ``recipe_file``, and the config's plug-ins.

    ``FnApiRunner`` collects its output data in a buffer. By default, a separate thread sends the buffer once per
    second, without a lock. If the runner is encoding an element at that moment, the element is cut in two, or a part of
    it is lost. :func:`choose_runner` turns the thread off: the buffer is sent when it is full, and at the end.
    """
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    if options.view_as(StandardOptions).runner:
        return None
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner()
    check_for_workers()
    direct.direct_running_mode = "in_memory"  # otherwise Beam would use its own worker command
    given = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    info = beam_provision_api_pb2.ProvisionInfo(pipeline_options=given)
    imports, work = _worker_imports(), _worker_code(recipe_file)
    return WorkersRunner(sys.executable, imports, work, provision_info=ExtendedProvisionInfo(info))


def _worker_imports() -> str:
    """Return the Python code that imports this package's modules for the workers on this machine."""
    lines = ["import logging", *(["logging.disable()"] if _is_quiet() else [])]
    lines += ["from groundtrace.pipelines.running.quick_imports import quick_imports", "with quick_imports():"]
    lines += [f"    import {module}" for module in sorted(RECORD_MODULES) if module.startswith("groundtrace.")]
    return "\n".join([*lines, "    import apache_beam.runners.worker.sdk_worker_main"])


def _worker_code(recipe_file: Path | None) -> str:
    """Return the Python code that a worker process on this machine runs.

    ``recipe_file`` is the Python file of the recipe (the pipeline), which the code imports; None for no recipe.
    """
    lines = ["import os, sys", f"sys.path += {searched_folders()!r}"]
    if recipe_file is not None:
        lines += ["from groundtrace.pipelines.running.plan.loading import adopt_file"]
        lines += [f"adopt_file({str(recipe_file)!r})"]
    if plugins := configured_plugins():
        lines += ["from groundtrace.schemas.registry import use_plugins", f"use_plugins({plugins!r})"]
    lines += [f"import {module}" for module in sorted(RECORD_MODULES) if not module.startswith("groundtrace.")]
    if _is_quiet():  # Beam prints each exception there too, and gRPC the end of each connection
        lines += ["sys.stderr = open(os.devnull, 'w')", "os.environ.setdefault('GRPC_VERBOSITY', 'NONE')"]
    return "\n".join([*lines, "from apache_beam.runners.worker.sdk_worker_main import main", "main(sys.argv)"])


def _is_quiet() -> bool:
    """Return whether the workers print nothing. The result is False if the user gives ``--verbose``, and else True.

    The output of the workers is usually not needed, because the error of a run reaches the driver (the main process).
    """
    return not logging.getLogger().isEnabledFor(logging.INFO)
