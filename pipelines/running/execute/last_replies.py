"""Lets a stopped run wait for the replies to requests that were already sent, because the user pays for them anyway."""

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from groundtrace.inference.runtime import end_process, runtime
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.text import say

LAST_REPLIES_S = 20.0
"""The maximum number of seconds that a stopped run waits. Kubernetes and Slurm kill a process 30 s after SIGTERM."""
SILENT_S = 1.0
"""After a stop, the user is told about the wait if a worker still runs after this many seconds.

A worker that waits for no reply ends within this time.
"""
CLOSE_S = 2.0
STOP_FILE = "stop"
CHECK_EVERY_S = 0.1


def await_last_replies(models: ModelsSettings) -> None:
    """Send no more requests from this process, and wait for the replies to requests that were already sent.

    ``models`` are the settings of the models. The function waits at most :data:`LAST_REPLIES_S` seconds.
    """
    if runtime().drain(models, 0.0):
        _report_wait()
        runtime().drain(models, LAST_REPLIES_S)


def await_workers(folder: Path) -> None:
    """Make the worker processes stop sending requests, and wait for the replies to requests already sent.

    ``folder`` holds a file for each worker process, which the worker removes after its last reply. The function returns
    when all workers have received their last replies or have ended. It waits at most :data:`LAST_REPLIES_S` plus
    :data:`CLOSE_S` seconds.
    """
    (folder / STOP_FILE).touch()
    began_s, is_reported = time.monotonic(), False
    while any(_is_alive(path) for path in folder.glob("[0-9]*")):
        waited_s = time.monotonic() - began_s
        if waited_s > LAST_REPLIES_S + CLOSE_S:
            return
        if waited_s > SILENT_S and not is_reported:
            is_reported = True
            _report_wait()
        time.sleep(CHECK_EVERY_S)


def _report_wait() -> None:
    with contextlib.suppress(OSError):  # the terminal may be closed, which also stops a run
        say(
            f"beam: stopping; waiting up to {LAST_REPLIES_S:.0f} s for in-flight requests (Ctrl-C ends at once)",
            file=sys.stderr,
        )


def _is_alive(path: Path) -> bool:
    """Return whether a process is running and its file ``path`` exists. The name of the file is the process's id."""
    try:
        os.kill(int(path.name), 0)
    except ProcessLookupError:
        return False
    return path.exists()


class LastReplies:
    """Shows the main process that this worker process may still send requests to models, or wait for their replies.

    For this purpose, the constructor puts a marker file into ``folder``. The file is removed after the worker's last
    replies.
    """

    def __init__(self, folder: Path) -> None:
        self._stop, self._mine = folder / STOP_FILE, folder / str(os.getpid())
        self._ending: threading.Thread | None = None
        with contextlib.suppress(FileNotFoundError):  # the command has ended already
            self._mine.touch()

    def check(self) -> None:
        """Check whether the run was stopped. If so, start a thread that waits for the replies of the model servers to
        the requests that this process has already sent.

        Call this method repeatedly.
        """
        if self._ending is None and self._stop.exists():
            self._ending = threading.Thread(target=self._end, name="last replies", daemon=True)
            self._ending.start()

    def _end(self) -> None:
        try:
            end_process(LAST_REPLIES_S)
        finally:
            self._mine.unlink(missing_ok=True)
