"""Runs a command that must not outlive the process that wanted it: ``python process_guard.py PARENT_PID COMMAND …``.

The guard starts the command in a session of its own and stops it, with every process that it has started, when the
guard's standard input closes, when its parent is no longer the process PARENT_PID (which a kill -9 of it brings about
too) or when SIGTERM comes; and clears up after the command when that ends by itself. Its exit status is then the
command's, 128 + N for signal N, 127 for a command that can't be started. It needs Linux for adopting the processes that
detached themselves; elsewhere only the command's process group is stopped. A program of its own, run by its path:
only the standard library, no import from this package.
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
"""How long the command may take to end after SIGTERM before its processes are killed."""
TICK_S = 0.25
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    """Run the command until it ends or isn't wanted any more. Returns the exit status."""
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
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    while not stopped and os.getppid() == parent and not _ended(process.pid):
        readable, _, _ = select.select([sys.stdin], [], [], TICK_S)
        if readable and not os.read(sys.stdin.fileno(), 1024):
            break
    _stop(process)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the command and all that it has started; the command is reaped last, so that its ids can't be another's."""
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
    """Whether the child has ended; it isn't reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _children() -> Iterator[int]:
    """This process's children, adopted ones included."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The command's name, in parentheses, may hold anything; the state and the parent's id follow it.
            if int(stat.read_text("utf-8", "replace").rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
