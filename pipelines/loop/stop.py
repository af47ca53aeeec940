"""Describes why a loop stopped before its end: for the terminal, and for the page ``loop.html``."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from groundtrace.pipelines.loop.steps import Step, log_path
from groundtrace.pipelines.running.endings import ending_of, is_interrupt
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import opened_regular

KILLED_CODE = 3
"""The exit code of ``beam loop`` if a signal ended a step. The same command then resumes the loop."""
READ_BYTES = 65536
"""The number of bytes at the end of a log in which the error of a command is searched."""
AGAIN = "Run the same command again to continue."


class StepFailed(Exception):
    """Raised if the command of a step of ``beam loop`` failed, for example the training.

    ``code`` is the exit code with which ``beam loop`` ends. ``what`` is a text that describes how the command of the
    step ended, such as "ended with code 2".
    """

    def __init__(self, step: Step, code: int, log: Path) -> None:
        self.what = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        super().__init__(
            f"the step {step.name} ({step.title}) {self.what}: read its output in {log}, correct the error, and run "
            "the same command again to continue"
        )
        self.code = KILLED_CODE if code < 0 else code
        self.is_killed = code < 0


@dataclass(frozen=True)
class Stop:
    """Describes why a loop stopped before its end.

    Attributes:
        step: The name of the step at which the loop stopped.
        reason: The reason in one line, such as "interrupted".
        remedy: What the user has to do.
    """

    step: str
    reason: str
    remedy: str


def stop_of(error: BaseException, step: str, out: Path) -> Stop:
    """Return why a loop stopped.

    Args:
        error: The error that ended the loop, such as KeyboardInterrupt or StepFailed.
        step: The name of the step that the loop had begun, or wanted to begin.
        out: The folder of the loop, in which the log of the step may be.
    """
    if is_interrupt(error):
        return Stop(step, "interrupted", AGAIN)
    if not isinstance(error, StepFailed):
        return Stop(step, ending_of(error).line, f"Correct the error. {AGAIN}")
    if error.is_killed:
        return Stop(step, f"the command {error.what}", AGAIN)
    said = _error_line(log_path(out, step))
    return Stop(step, f"the command {error.what}{f': {said}' if said else ''}", f"Correct the error. {AGAIN}")


def _error_line(log: Path) -> str:
    """Return the first line of the error with which a command ended, from its log.

    It is the last line that begins with the name of a program, such as ``beam: ``. If there is no such line, it is the
    last line with text. The result is "" if the log is empty or cannot be read.
    """
    try:
        with opened_regular(log) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - READ_BYTES))
            lines = [line.strip() for line in stream.read(READ_BYTES).decode("utf-8", "replace").splitlines()]
    except (OSError, UserError):
        return ""
    written = [line for line in lines if line]
    errors = [line.partition(": ")[2] for line in written if line.startswith(("beam: ", "trainer: "))]
    return (errors or written or [""])[-1]
