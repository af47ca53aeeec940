"""Implements ``beam config``, which prints a config to start from: every setting's default, bounds and meaning."""

import argparse
from collections.abc import Sequence

from groundtrace.config.reference import commented_defaults
from groundtrace.pipelines.running.plan.loading import load_recipe


def print_config(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Print a config for a pipeline as TOML, with all defaults and comments, and return the exit code, which is 0.

    ``parsed`` holds the parsed arguments of the command line. The second argument is not used. Raises
    :class:`groundtrace.pipelines.running.plan.loading.PipelineError` if the pipeline is not found or cannot be
    imported.
    """
    print(commented_defaults(load_recipe(parsed.pipeline).settings), end="")
    return 0
