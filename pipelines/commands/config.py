"""Implements ``beam config``, which prints a config to start from: every setting's default, bounds and meaning."""

import argparse
from collections.abc import Sequence

from groundtrace.config.reference import commented_defaults
from groundtrace.pipelines.running.plan.loading import load_recipe


def print_config(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Print the commented defaults of the pipeline, and return the exit code."""
    print(commented_defaults(load_recipe(parsed.pipeline).settings), end="")
    return 0
