"""Runs the ``beam`` command as ``python -m groundtrace``, for environments in which its script is not installed."""

from groundtrace.pipelines.commands.console import main

if __name__ == "__main__":
    main()
