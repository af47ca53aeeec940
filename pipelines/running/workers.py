"""Where a run's workers are, from its Beam options, and checks for workers that see no disk of this machine."""

from collections.abc import Iterable
from pathlib import Path

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions, StandardOptions

from groundtrace.pipelines.running.runner import OptionError
from groundtrace.schemas.text import counted, without_password
from groundtrace.storage.places import is_remote

LOCAL_RUNNERS = ("directrunner", "fnapirunner", "bundlebaseddirectrunner")
CLOUD_RUNNERS = ("dataflowrunner",)
"""Their workers see no folder of this machine. Those of other engines may."""
_PLACES = {"sparkrunner": "spark_master_url", "flinkrunner": "flink_master", "dataflowrunner": "region"}
"""The option with the place of a runner's workers, if no job server is named."""


def runner_name(options: PipelineOptions) -> str:
    """The runner that the options name, in lower case and without its module; "" for the one on this machine.

    Beam takes ``Dataflow`` for ``DataflowRunner``; its runner for tests sends the same job to the same service.
    """
    name = (options.view_as(StandardOptions).runner or "").rsplit(".", 1)[-1].lower()
    whole = name if not name or name.endswith("runner") else f"{name}runner"
    return "dataflowrunner" if whole == "testdataflowrunner" else whole


def is_local(options: PipelineOptions) -> bool:
    """Whether all workers run on this machine."""
    return runner_name(options) in ("", *LOCAL_RUNNERS)


def runner_line(options: PipelineOptions) -> str:
    """The user's line on the runner and its workers: their number, or the place or server where they run."""
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
    """Whether the workers certainly see no folder of this machine."""
    return runner_name(options) in CLOUD_RUNNERS


def check_in_store(named: Iterable[tuple[str, str]]) -> None:
    """Refuse folders of this machine for workers that see none; ``named`` are options with their values.

    A name that is neither a local path nor a URL, such as the id of a data set of the Hub, passes. Raises
    :class:`groundtrace.pipelines.running.runner.OptionError`.
    """
    for option, name in named:
        if not is_remote(name) and (option != "--input" or Path(name).exists()):
            raise OptionError(
                f"{option} {name}: Dataflow's workers cannot read this machine's disk: name a place in a store, such "
                "as gs://BUCKET/FOLDER"
            )
