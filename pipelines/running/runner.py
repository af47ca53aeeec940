"""Parses the Beam options of a run and chooses its runner."""

import argparse
import difflib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions, StandardOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner, create_runner

from groundtrace.pipelines.running.local_workers import WorkersRunner
from groundtrace.schemas.coding import RECORD_MODULES
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.registry import configured_plugins
from groundtrace.stages.plumbing.options import Options


class OptionError(UserError, ValueError):
    """An option of the run that cannot be used, such as one that no Beam option class defines."""


def pipeline_options(flags: Sequence[str]) -> PipelineOptions:
    """The Beam options after ``--``. Raises :class:`OptionError` for one that Beam would ignore or crash on."""
    if any("\n" in flag.strip() for flag in flags):
        raise OptionError("a Beam option has several lines: if $(…) gives the options, write it without quotes")
    flags = _with_word(flags)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in _option_classes(PipelineOptions):
        if "_add_argparse_args" in vars(options):
            options._add_argparse_args(_Tolerant(parser))
    try:
        _, unknown = parser.parse_known_args(list(flags))
    except argparse.ArgumentError as error:
        raise OptionError(f"Beam option {error}") from error
    for flag in unknown:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(flag.split("=")[0], known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OptionError(f"unknown Beam option {flag!r}{hint}")
    options = Options(list(flags), save_main_session=False)
    workers = options.view_as(DirectOptions).direct_num_workers
    if workers < 0:
        raise OptionError(f"--direct_num_workers must be at least 0 (one for each core), got {workers}")
    named = options.view_as(StandardOptions).runner
    if named:
        try:
            create_runner(named)
        except (ValueError, ImportError, AttributeError) as error:
            raise OptionError(f"--runner={named}: {str(error).splitlines()[0]}") from error
    options.view_as(SetupOptions).beam_plugins = sorted(RECORD_MODULES)
    return options


def _with_word(flags: Sequence[str]) -> list[str]:
    """The flags with ``=True`` after a bare ``--dry_run``: Beam would refuse it, or take the next option as value."""
    ended = [*flags, "--"]
    return [
        "--dry_run=True" if flag == "--dry_run" and ended[place + 1].startswith("--") else flag
        for place, flag in enumerate(flags)
    ]


def choose_runner(options: PipelineOptions, recipe_file: Path | None = None) -> PipelineRunner | None:
    """The portable runner on this machine; None if the options name a runner, which Beam then creates.

    Beam's own default would first try to download a runner binary. It would not pass to its worker processes on this
    machine the pipeline's options, such as those of a file system, nor the contents of ``recipe_file`` (its stages and
    prompts), nor the plug-ins of the config.
    """
    if options.view_as(StandardOptions).runner:
        return None
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner()
    direct.direct_running_mode = "in_memory"  # otherwise Beam would use its own worker command
    given = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    told = beam_provision_api_pb2.ProvisionInfo(pipeline_options=given)
    return WorkersRunner(sys.executable, _worker_code(recipe_file), provision_info=ExtendedProvisionInfo(told))


def _worker_code(recipe_file: Path | None) -> str:
    """The Python code that a worker process on this machine runs."""
    lines: list[str] = []
    quiet = not logging.getLogger().isEnabledFor(logging.INFO)  # no --verbose: the run's error reaches the driver
    if quiet:
        lines += ["import logging, os, sys", "logging.disable()"]
    if recipe_file is not None:
        lines += ["from groundtrace.pipelines.running.loading import adopt_file", f"adopt_file({str(recipe_file)!r})"]
    if plugins := configured_plugins():
        lines += ["from groundtrace.schemas.registry import use_plugins", f"use_plugins({plugins!r})"]
    lines += [f"import {', '.join(sorted(RECORD_MODULES))}"]
    lines += ["from apache_beam.runners.worker.sdk_worker_main import main"]
    if quiet:  # Beam prints each exception there too
        lines += ["sys.stderr = open(os.devnull, 'w')"]
    lines += [
        "import sys",
        "main(sys.argv)",
        "from groundtrace.pipelines.running.local_workers import leave",
        "leave()",
    ]
    return "; ".join(lines)


class _Tolerant:
    """Adds arguments to a parser, and skips those that it has: Beam declares a few options twice."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def add_argument(self, *names: str, **settings: object) -> None:
        known = {name for action in self._parser._actions for name in action.option_strings}
        if not known.intersection(names):
            self._parser.add_argument(*names, **settings)  # type: ignore[arg-type]

    def add_mutually_exclusive_group(self, **_: object) -> "_Tolerant":
        return self

    add_argument_group = add_mutually_exclusive_group


def _option_classes(cls: type) -> list[type]:
    found = []
    for child in cls.__subclasses__():
        found += [child, *_option_classes(child)]
    return found
