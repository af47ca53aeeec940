"""Finds evident mistakes in a command line, such as a missing file, before Beam is imported, which takes long.

Later the module :mod:`groundtrace.pipelines.running.plan.plan` makes these and further checks.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from groundtrace.config.settings import given_values
from groundtrace.pipelines.running.plan.loading import recipe_file
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.paths import is_pipe
from groundtrace.stages.sources.hub_names import may_be_hub_id

INPUT_REMEDY = (
    "set --input to a .csv, .tsv, .jsonl, .json or .parquet file of questions, or to a folder with records.jsonl"
)


class CommandError(UserError):
    """Raised for an evident mistake in a command line."""


def check_command(pipeline: str, input: str, config: str | None, overrides: Sequence[str]) -> None:
    """Raise an error if the pipeline, the config or the input that a command line names is missing or cannot be read.

    ``pipeline``, ``input`` and ``config`` are the names on the command line (``config``: None if it is left out).
    ``overrides`` are the values of ``--set``, each in the form ``a.b=c``. Raises
    :class:`groundtrace.pipelines.running.plan.loading.PipelineError`, :class:`groundtrace.config.errors.ConfigError` or
    :class:`CommandError`.

    Some things are not checked here. The file of a user's own pipeline is not imported. Keys of the config are not
    checked. A config in a pipe is not read, because it can be read only once, and
    :func:`groundtrace.pipelines.running.plan.plan.make_plan` reads it later. An input is not checked if it may be a
    data set, a pattern of files, or in a store (remote storage such as S3).
    """
    recipe_file(pipeline)
    given_values(None if config is not None and is_pipe(config) else config, overrides)
    is_path = input.strip() and "://" not in input and not may_be_hub_id(input) and not set("~*?[") & set(input)
    if is_path and not os.path.lexists(Path(input)):
        raise CommandError(f"the input {input} does not exist: {INPUT_REMEDY}")
