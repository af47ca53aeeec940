"""``beam config``: prints a config to start from, with the default, bounds and meaning of every setting."""

import argparse
from collections.abc import Sequence

from groundtrace.config.reference import commented_defaults
from groundtrace.pipelines.running.plan.loading import load_recipe


def print_config(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Print the commented defaults of the pipeline; returns the exit code."""
    print(commented_defaults(load_recipe(parsed.pipeline).settings), end="")
    return 0
