"""Runs the ``beam`` command as ``python -m groundtrace``, for environments without an installed script ``beam``."""

from groundtrace.pipelines.commands.console import main

if __name__ == "__main__":
    main()
