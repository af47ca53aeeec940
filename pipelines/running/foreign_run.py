"""Protects a user who replays a run that somebody else may have made.

A replay repeats the stages of a finished run for one record, with the run's config and the stored replies of models. If
the user has named the pipeline, the replay is not limited. Otherwise a stranger may have chosen the files and inputs
that the run folder names. So the replay executes neither a pipeline file nor a plug-in of a user. It also does not read
a file that the run's config extends (``extends``), nor an input in a store (remote storage such as S3) or on the
Hugging Face Hub.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from groundtrace.pipelines.running.plan.loading import bundled_names
from groundtrace.publishing.reading import InspectError, input_folder, read_config
from groundtrace.schemas.registry import installed_code_only
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import printable


@contextmanager
def harmless(run: Path, summary: RunSummary) -> Iterator[None]:
    """Execute only code of Groundtrace and of installed packages in the ``with`` block, which replays a run.

    In the block, a config that names other code, e.g. a user's plug-in, is refused. ``run`` is the run's folder, and
    ``summary`` is the content of its ``run.json``. InspectError is raised before the block if the run needs a user's
    pipeline file, another config file, or data that are not on this machine. The message states how the user can allow
    the replay.
    """
    if summary.recipe_file:
        named = shlex.quote(printable(summary.recipe_file))
        raise InspectError(
            f"the pipeline of {run} is the file {named}, whose code is not executed without your permission: to "
            f"permit it, start the view again with `beam view {run} --pipeline {named}`"
        )
    if summary.recipe not in bundled_names():
        raise InspectError(
            f"the pipeline {summary.recipe} of this run is not bundled with Groundtrace, and the run does not name the "
            f"file of this pipeline: start the view again with `beam view {run} --pipeline FILE`, where FILE is this "
            "file"
        )
    again = f"to permit it, start the view again with `beam view {run} --pipeline {summary.recipe}`"
    config = read_config(run)
    if "extends" in config:
        raise InspectError(
            f"the config of {run} extends another file, which `beam view` does not read without your permission: "
            f"{again}"
        )
    for place in _elsewhere(summary.input, config):
        raise InspectError(
            f"the config or the input of the run {run} names {printable(place)}, which is not a file or a folder of "
            f"this machine. `beam view` looks for data elsewhere only with your permission: {again}"
        )
    with installed_code_only(f"only with your permission: {again}"):
        yield


def _elsewhere(given: str, config: Mapping[str, object]) -> Iterator[str]:
    """Yield the input if it is not on this machine, and all URLs in the config except those of endpoints.

    ``given`` is the input as ``run.json`` names it. A replay sends nothing to endpoints, so their URLs are harmless.
    """
    if "://" in given or not Path(input_folder(given)).exists():
        yield given
    yield from _urls({name: value for name, value in config.items() if name != "endpoints"})


def _urls(value: object) -> Iterator[str]:
    """Yield the texts that contain a URL, from a config or a part of a config.

    ``value`` is the config or the part. The names of keys are also searched. A text contains a URL if it contains ``://``.
    """
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _urls(name)
            yield from _urls(each)
    elif isinstance(value, list):
        for each in value:
            yield from _urls(each)
    elif isinstance(value, str) and "://" in value:
        yield value
