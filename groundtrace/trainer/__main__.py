"""Runs the ``trainer`` command as ``python -m groundtrace.trainer``, for environments without an installed script."""

import sys

from groundtrace.trainer.cli import main

if __name__ == "__main__":
    sys.exit(main())
