"""Defines the errors of a run, and the message, exit code and remedy of a command that fails or is stopped.

This module imports no slow module, because every command needs it.
"""

import errno
import itertools
import re
from dataclasses import dataclass

from groundtrace.schemas.error_places import hint_of, place_in_own_code, place_of
from groundtrace.schemas.errors import UserError, causes
from groundtrace.schemas.loop_step import loop_section
from groundtrace.schemas.text import without_password

_BEAMS_WORDS = re.compile(r""" \[while running '[^']*'\](?=["']?$)""")
"""Matches what Beam adds to the message of an error. The message of a KeyError ends with a quote behind it."""
_JAVA_FRAME = re.compile(r"\s*(at )?[\w.$/<>]+\([\w$]+\.(java|scala):\d+\)$|\s*\.\.\. \d+ more$")
"""Matches a stack frame in the message of a Java engine."""
_DISK_FULL = re.compile(r"\[Errno (28|122)\]|No space left on device|database or disk is full|Disk quota exceeded")
"""Matches error messages about a full disk. An error of an engine (e.g. Spark) is only text, without an ``errno``."""
_AGAIN = "All replies so far are kept: they are neither requested nor paid for again."


class ConservationError(Exception):
    """Raised if the outputs of a run do not hold every record of the input exactly once.

    This means: a record has no final outcome or several ones, or the outputs hold a record that was not read. The
    outputs of an earlier run in the same folder were not replaced.
    """


class RunPaused(Exception):
    """Raised if a run stopped before its end and can be resumed, for example because a server was unreachable.

    The user resumes the run with the same command. The outputs of an earlier run in the same folder were not replaced.
    """


class JobIncomplete(Exception):
    """Raised if the runner reports a Beam job as done, but files of the job are missing or damaged.

    Also raised if a job server returns an error. The outputs of an earlier run in the same folder were not replaced.
    """


class RunNote(str):
    """Holds a note on an error (``add_note``) for the user, such as a run's cost and the path of its report.

    The message that the user gets contains the notes of this class, and no other notes of the error.
    """


@dataclass(frozen=True)
class Ending:
    """Describes the end of a command that failed or was stopped: its exit code, and the texts for the user.

    Attributes:
        code: The exit code of the command.
        line: The message that the user gets after ``beam: ``.
        what: A short form of the message, which is the title of the page on the failed run.
        remedy: What the user has to do.
        is_defect: Whether the cause may be a defect of the code or the machine, so that a traceback helps.
    """

    code: int
    line: str
    what: str
    remedy: str
    is_defect: bool = False


def ending_of(error: BaseException) -> Ending:
    """Return how a command ends if it raises ``error``: the exit code, the message for the user and the remedy."""
    if is_interrupt(error):
        line = "interrupted" if loop_section() else "interrupted; run the same command again to resume"
        return Ending(130, line, "This run was interrupted", f"Run the same command again to go on. {_AGAIN}")
    if mistake := _user_error(error):
        remedy = f"Correct the problem that the line above names, then run the command again. {_AGAIN}"
        return Ending(2, without_password(mistake), "This run failed", remedy)
    if isinstance(error, ConservationError):
        remedy = (
            "Records were lost or made up, which is a defect of a stage: report it with the line above, or correct the "
            f"stage if it is your own. {_AGAIN}"
        )
        return Ending(
            1,
            f"the run lost or added records: {error}: report this defect, or correct it in your own stage",
            "This run failed",
            remedy,
        )
    if isinstance(error, JobIncomplete):
        remedy = (
            "Look in the runner's own log for the failure of the job; the usual cause is that its workers cannot "
            f"reach or write the run folder. Then run the command again. {_AGAIN}"
        )
        return Ending(1, str(error), "This run failed", remedy)
    if isinstance(error, RunPaused):
        remedy = f"Run the same command again when the server is back: it goes on where it stopped. {_AGAIN}"
        return Ending(3, without_password(str(error)), "This run was stopped", remedy)
    if _is_disk_full(error):
        line = f"a disk is full: {without_password(without_beams_words(_root_cause(error)))}"
        return Ending(3, line, "This run was stopped", f"Make room, then run the same command again. {_AGAIN}")
    remedy = (
        "Run the same command again. If it fails again, add --verbose: the traceback shows where, and belongs in a "
        f"report of the defect. {_AGAIN}"
    )
    if place := place_in_own_code(error):
        remedy = f"Correct {place}, then run the same command again. {_AGAIN}"
    cause = without_beams_words(_root_cause(error)) if place_of(error) else _root_cause(error)
    return Ending(1, f"{without_password(cause)} ({hint_of(error)})", "This run failed", remedy, is_defect=True)


def without_beams_words(message: str) -> str:
    """Return the message of an error without the name of the step, which Beam adds to it."""
    return _BEAMS_WORDS.sub("", message)


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is a KeyboardInterrupt, or was raised because of one. If ``error`` is None, return False.

    Beam replaces a KeyboardInterrupt in a step of the pipeline with a RuntimeError. A KeyboardInterrupt while a module
    is loaded becomes an ImportError.
    """
    seen: set[int] = set()  # a chain of causes may be a cycle
    while error is not None and id(error) not in seen and not isinstance(error, KeyboardInterrupt):
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt)


def line_of(error: BaseException) -> str:
    """Return the user's message for an error, with notes such as the run's cost and the path of its report.

    Each note is in brackets. If the message without the notes has one line, the notes are at the end of this line. If
    it has several lines, each note is on a further line.
    """
    line = ending_of(error).line
    notes = [f"({note})" for note in getattr(error, "__notes__", ()) if isinstance(note, RunNote)]
    return ("\n" if "\n" in line else " ").join([line, *notes])


def _user_error(error: BaseException) -> str:
    """Return the message of the first UserError in the list: the error, its cause, the cause of this cause, and so on.

    The result is "" if none of them is a UserError.

    Beam adds the name of the step to an error from a worker. This name is removed.
    """
    return next((without_beams_words(str(each)) for each in causes(error) if isinstance(each, UserError)), "")


def _is_disk_full(error: BaseException) -> bool:
    return any(
        getattr(each, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or _DISK_FULL.search(str(each))
        for each in causes(error)
    )


def _root_cause(error: BaseException) -> str:
    *_, error = causes(error)
    lines = list(itertools.takewhile(lambda line: not _JAVA_FRAME.match(line), str(error).strip().splitlines()))
    written = [line for line in lines if line.strip()]
    return f"{type(error).__name__}: {written[-1] if written else 'no message'}"
