"""Parses the Beam options of a run, and finds out from them where its workers (the processes that do its work) run."""

import argparse
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.runners.runner import create_runner

from groundtrace.schemas.coding import RECORD_MODULES
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import counted, without_password
from groundtrace.stages.plumbing.options import Options
from groundtrace.storage.places import is_remote

LOCAL_RUNNERS = ("directrunner", "fnapirunner", "bundlebaseddirectrunner")
CLOUD_RUNNERS = ("dataflowrunner",)
"""Runners whose workers cannot access this machine's disk. The workers of other engines may share folders with it."""
_PLACES = {"sparkrunner": "spark_master_url", "flinkrunner": "flink_master", "dataflowrunner": "region"}
"""Maps a runner to the Beam option that states where its workers run. The option's value is shown to the user; if the
options name a job server, the job server is shown instead.
"""


class OptionError(UserError, ValueError):
    """Raised for an option that the run cannot use, for example because no class of Beam options defines it."""


def pipeline_options(flags: Sequence[str]) -> Options:
    """Parse the Beam options of a command line, and return them.

    ``flags`` are the arguments after ``--``. Raises :class:`OptionError` for an option that Beam would ignore, or that
    would make Beam fail.
    """
    if broken := next((flag for flag in flags if "\n" in flag.strip()), None):
        raise OptionError(
            f"the Beam option {broken.strip()!r:.80} has several lines: pass each option as a separate argument. If "
            "a $(command) prints several options, do not put the $(command) in quotes"
        )
    flags = _with_word(flags)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in _option_classes(PipelineOptions):
        if "_add_argparse_args" in vars(options):
            options._add_argparse_args(_Tolerant(parser))
    try:
        _, unknown = parser.parse_known_args(list(flags))
    except argparse.ArgumentError as error:
        raise OptionError(f"the options for Beam cannot be read ({error}): correct this option") from error
    for flag in unknown:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(flag.split("=")[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else "remove it"
        raise OptionError(f"the Beam option {flag!r} is unknown; {hint}")
    options = Options(list(flags), save_main_session=False)
    workers = options.view_as(DirectOptions).direct_num_workers
    if workers < 0:
        raise OptionError(
            f"--direct_num_workers is {workers}: set it to the number of workers, or to 0 for one worker on each core"
        )
    named = options.view_as(StandardOptions).runner
    if named:
        try:
            create_runner(named)
        except (ValueError, ImportError, AttributeError) as error:
            raise OptionError(
                f"--runner={named} cannot be used ({str(error).splitlines()[0]}): name another runner"
            ) from error
    options.view_as(SetupOptions).beam_plugins = sorted(RECORD_MODULES)
    return options


def _with_word(flags: Sequence[str]) -> list[str]:
    """Return the command-line options ``flags``, with ``=True`` added to ``--dry_run`` if this option has no value.

    Otherwise Beam would refuse the option, or take the next option as its value.
    """
    ended = [*flags, "--"]
    return [
        "--dry_run=True" if flag == "--dry_run" and ended[place + 1].startswith("--") else flag
        for place, flag in enumerate(flags)
    ]


def runner_name(options: PipelineOptions) -> str:
    """Return the name of the Beam runner in the options, in a normal form; "" if the options name no runner.

    The normal form is in lower case, ends in ``runner`` and has no module path before the name. For example, the result
    for ``Dataflow`` is ``dataflowrunner``. The result for ``TestDataflowRunner`` is also ``dataflowrunner``, because
    this runner sends the same job to the same service as the Dataflow runner. If the options name no runner, the run
    uses this machine.
    """
    name = (options.view_as(StandardOptions).runner or "").rsplit(".", 1)[-1].lower()
    whole = name if not name or name.endswith("runner") else f"{name}runner"
    return "dataflowrunner" if whole == "testdataflowrunner" else whole


def is_local(options: PipelineOptions) -> bool:
    """Return whether all workers run on this machine, according to the Beam options of the run."""
    return runner_name(options) in ("", *LOCAL_RUNNERS)


def runner_line(options: PipelineOptions) -> str:
    """Return one line for the user that names the Beam runner and describes its workers.

    ``options`` are the Beam options of the run. For workers on this machine, the line contains their number. For other
    workers, it contains the job server, or the cloud region or cluster where they run, if the options name it.
    """
    named = options.view_as(StandardOptions).runner
    if is_local(options):
        direct = options.view_as(DirectOptions)
        number = direct.direct_num_workers
        workers = counted(number, "worker") if number else "a worker for each core"
        return f"runner: {named or 'this machine'}, {workers} ({direct.direct_running_mode})"
    endpoint = options.view_as(PortableOptions).job_endpoint
    option = _PLACES.get(runner_name(options), "")
    place = f"job server {endpoint}" if endpoint else options.get_all_options().get(option)
    return without_password(f"runner: {named}, {place}" if place else f"runner: {named}")


def see_no_disk(options: PipelineOptions) -> bool:
    """Return whether the workers cannot read this machine's disk, because the Beam options name a runner in a cloud.

    If the result is False, the workers may still be on other machines, which can share folders with this machine.
    """
    return runner_name(options) in CLOUD_RUNNERS


def check_in_store(named: Iterable[tuple[str, str]]) -> None:
    """Raise :class:`OptionError` if an option names a folder of this machine, although the workers cannot access it.

    ``named`` are pairs of an option and its value, such as ``("--output", "runs/a")``. If the value of ``--input`` is
    not an existing local path, it is accepted, since it may be the id of a data set of the Hugging Face Hub.
    """
    for option, name in named:
        if not is_remote(name) and (option != "--input" or Path(name).exists()):
            raise OptionError(
                f"{option} {name} is on this machine, but Dataflow's workers cannot read this machine's disk: name a "
                "path in an object store, such as gs://BUCKET/FOLDER"
            )


class _Tolerant:
    """Adds arguments to a parser, and skips arguments that the parser has already.

    The reason is that Beam defines a few options twice.
    """

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
