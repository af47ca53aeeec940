"""Runs a command that must not outlive the process that started it: ``python process_guard.py PARENT_PID COMMAND …``.

This script is called the guard. It starts the command in a session of its own. It stops the command, with all processes
that the command has started, in three cases:

- The guard's standard input closes.
- The process PARENT_PID ends (also after kill -9).
- The guard receives SIGTERM.

When the command ends by itself, the guard stops the processes that are left. The guard's exit code is the exit code of
the command, 128 + N if signal N ended the command, or 127 if the command can't be started. On Linux the guard adopts
processes that detached themselves, so it can stop them too. On other systems it stops only the command's process group.
The guard is run as a script by its path, so it uses only the standard library and imports nothing from this package.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STOP_LIMIT_S = 15.0
"""The time, in seconds, from SIGTERM until the command's processes are killed."""
TICK_S = 0.25
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    """Run the command until it ends or must be stopped, and return the exit code. ``arguments`` are the process id of
    the parent process, followed by the words of the command.
    """
    parent, command = int(arguments[0]), arguments[1:]
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else lambda *_: 0
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        # If the guard itself is killed, the command still dies, but perhaps not its children.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        )
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    while not stopped and os.getppid() == parent and not _ended(process.pid):
        readable, _, _ = select.select([sys.stdin], [], [], TICK_S)
        if readable and not os.read(sys.stdin.fileno(), 1024):
            break
    _stop(process)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop the command and all its processes. The command is reaped only after its process group was killed. Until
    then the process id of the command cannot be reused."""
    _signal_group(process.pid, signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_LIMIT_S
    while not _ended(process.pid) and time.monotonic() < deadline_s:
        time.sleep(TICK_S / 5)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    while True:
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _ended(pid: int) -> bool:
    """Return whether the child process with the id ``pid`` has ended. The child is not reaped, so that the system
    cannot reuse its id.
    """
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _children() -> Iterator[int]:
    """Return the process ids of this process's children, including adopted children."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The process name, in parentheses, may contain any character; the state and the parent's pid follow it.
            if int(stat.read_text("utf-8", "replace").rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
