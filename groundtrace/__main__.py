"""Runs the ``beam`` command as ``python -m groundtrace``, for environments in which its script is not installed."""

import sys

from groundtrace.pipelines.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
