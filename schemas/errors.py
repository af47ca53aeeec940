"""Defines the base class of errors that a user can correct.

The functions of this module yield the causes of an error, and add to an error the id of the data record that was being
processed.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Raised for a mistake that the user can correct in a command, a config, an input, a file or a folder.

    The message is one line that states what is wrong, where it is wrong, and what to do. The commands print it without
    a traceback and exit with code 2. Other faults are not UserErrors: faults of a server or a machine, bad replies of
    models, and bad records of the input.
    """


class RecordNote(str):
    """Holds the id of the record at which a stage (a step of the pipeline) or a reward failed, as a note on the error.

    The error is a defect of the code, and not a reason to reject the record.
    """


class ResponseNote(str):
    """Holds the start of the response at which a scorer (code that checks a response) failed, as a note on the error.

    The text is on one line.
    """


_RESPONSE_CHARS = 60
"""The maximum length of the start of a response in a note on an error."""


@contextmanager
def naming_record(record_id: str) -> Iterator[None]:
    """Add the record's id ``record_id``, as a note, to an error that is raised in the ``with`` block."""
    try:
        yield
    except Exception as error:
        error.add_note(RecordNote(record_id))
        raise


@contextmanager
def naming_response(text: str) -> Iterator[None]:
    """Add the start of the response ``text``, as a note, to an error that is raised in the ``with`` block."""
    try:
        yield
    except Exception as error:
        line = " ".join(text.split())
        is_long = len(line) > _RESPONSE_CHARS
        error.add_note(ResponseNote(f"{line[: _RESPONSE_CHARS - 1]}…" if is_long else line))
        raise


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, then its cause (``__cause__``), then the cause of that cause, and so on. Each of them is yielded
    once, even if the chain of causes is a cycle. Nothing is yielded for None.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
