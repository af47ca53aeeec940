"""Runs the command of a step as a process of its own, and copies its output to the terminal and to a log file.

The process gets the signal SIGTERM in two cases: the loop is interrupted, or, on Linux, the loop is killed. So a
training saves the state after its last complete training step, and the process ends when its loop ends. There is one
exception: on other systems than Linux, the process may continue after its loop was killed.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from groundtrace.schemas.safe_files import opened_for_writing

PROGRAMS = {"beam": "groundtrace", "trainer": "groundtrace.trainer.cli"}
"""The Python module of each command. The module is run with the interpreter of this process.

So it does not matter which commands are on PATH.
"""
PIECE_BYTES = 65536
TICK_S = 0.2
SILENT_S = 2.0
"""The number of seconds for which the loop still waits for output after the command has ended.

This limit matters if a process that the command started still has the output pipe open. Without the limit, the loop
would wait until that process ends.
"""
_PR_SET_PDEATHSIG = 1


def run_process(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
    """Run a command such as ``beam run …`` as a process, wait for it, and return its exit code.

    The exit code is −N if the signal with the number N ended the process. ``command`` holds the words of the command;
    the first one is ``beam`` or ``trainer``. ``log`` is a file. The output of the command is copied to standard error
    and to this file, whose former content is replaced. ``environment`` are environment variables that the command gets
    in addition to those of this process. If the user interrupts this process (KeyboardInterrupt), the
    command gets SIGTERM, and KeyboardInterrupt is raised when the command has ended. A second interrupt kills the
    command. Raises UnsafeFile if the log is a link, a pipe or a device.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-P", "-m", PROGRAMS[command[0]], *command[1:]]
    interrupt: KeyboardInterrupt | None = None
    with opened_for_writing(log.parent, log.name, truncate=True) as stream:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            process_group=0,  # Ctrl-C reaches the loop only, which passes it on once
            preexec_fn=_dies_with(os.getpid()),
        )
        while True:
            try:
                _copy(process, stream)
                code = process.wait()
                break
            except KeyboardInterrupt as error:
                number = signal.SIGTERM if interrupt is None else signal.SIGKILL
                interrupt = error
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)
    if interrupt is not None:
        raise interrupt
    return code


def _copy(process: "subprocess.Popen[bytes]", log: BinaryIO) -> None:
    """Copy the output of the process to ``log`` and to the terminal, until the output ends.

    There is one exception: another process may keep the output open after ``process`` has ended. Then the output is
    copied for :data:`SILENT_S` more seconds, and after that only as long as new output arrives.
    """
    assert process.stdout is not None
    source, ended_s = process.stdout.fileno(), 0.0
    while True:
        readable, _, _ = select.select([source], [], [], TICK_S)
        if readable:
            piece = os.read(source, PIECE_BYTES)
            if not piece:
                return
            log.write(piece)
            log.flush()  # another process may read the log now
            _show(piece)
        elif process.poll() is not None:
            ended_s = ended_s or time.monotonic()
            if time.monotonic() - ended_s > SILENT_S:
                return


def _show(piece: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed terminal does not stop the step, and the log has it all
        sys.stderr.write(piece.decode("utf-8", "replace"))
        sys.stderr.flush()


def _dies_with(parent: int) -> Callable[[], None] | None:
    """Return a function that the new process calls to get SIGTERM if the process ``parent`` dies.

    Return None on systems other than Linux, which cannot do this.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return bind
