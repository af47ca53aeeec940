"""Defines the base class of errors that a user can correct, and a function that yields an error with its causes."""

from collections.abc import Iterator


class UserError(Exception):
    """Raised for a mistake that the user can correct in a command, a config, an input, a file or a folder.

    The message is one line that states what is wrong, where it is wrong, and what to do. The commands print it without
    a traceback and exit with code 2. Other faults are not UserErrors: faults of a server or a machine, bad replies of
    models, and bad records of the input.
    """


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, then its cause (``__cause__``), then the cause of that cause, and so on. Each of them is yielded
    once, even if the chain of causes is a cycle. Nothing is yielded for None.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
