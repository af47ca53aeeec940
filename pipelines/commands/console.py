"""Provides the entry point of the ``beam`` script. It ends the process faster than Python does.

Python frees every object of Beam and its packages one by one at the end (the teardown of the interpreter). This takes
up to a second and changes nothing outside the process, so it is left out. All other steps of a normal exit happen:
threads end, functions registered with ``atexit`` run, and the output is flushed.
"""

import atexit
import os
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

from groundtrace.pipelines.commands.streams import standard_streams


def main() -> NoReturn:
    """Run the command line of ``beam``, and end the process with the command's exit code.

    Ctrl-C is reported in one line, also while the command is imported.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    try:
        code = run_command()
    except KeyboardInterrupt:  # later, the command handles it
        print("beam: interrupted; run the same command again", file=sys.stderr)
        code = 128 + signal.SIGINT
    end_process(code)


def run_command() -> int:
    """Run the command line of ``beam``, and return its exit code."""
    from groundtrace.pipelines.commands.cli import main as run

    return run()


def end_process(code: int) -> NoReturn:
    """End this process with the exit code ``code``, without the teardown of the interpreter.

    First the threads end, the functions registered with ``atexit`` run, and the output is flushed. If a child process
    still runs, such as a server, or the output cannot be flushed, Python ends the process as usual.
    """
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  # joins threads and ends pools
    atexit._run_exitfuncs()
    if _has_children():
        sys.exit(code)
    try:
        for stream in standard_streams():
            stream.flush()
    except (OSError, ValueError):  # a full disk, or a closed stream
        sys.exit(code)
    os._exit(code)


def _has_children() -> bool:
    """Return whether this process has child processes.

    The result is also True if this is unknown because ``os.waitid`` is missing, as on macOS before Python 3.13.
    """
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
