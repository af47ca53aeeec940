"""Hides Beam's log messages, for the command line and for the library (``gt.run``).

Beam logs warnings about its own parts, which a user cannot act on. It logs many of them on the root logger, so the
level of the logger ``apache_beam`` alone does not hide them. The errors of a run reach the user as exceptions.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

BEAM = "apache_beam"
"""The name of Beam's package, and of the logger above those of its modules."""
HIDDEN_BELOW = logging.CRITICAL
"""The level below which the messages of the logger ``apache_beam`` are hidden."""


def is_shown(record: logging.LogRecord) -> bool:
    """Return whether a log record of the root logger is shown. This function is a filter for this logger.

    Two kinds of Beam's log records are hidden: those below the level ERROR, and those of its module
    ``portable_runner``. This module logs a failed job of an engine (such as Spark) with a traceback, although the same
    error is also raised as an exception.
    """
    if record.module == "portable_runner":
        return False
    return record.levelno >= logging.ERROR or f"{os.sep}{BEAM}{os.sep}" not in record.pathname


@contextmanager
def without_beam_logs() -> Iterator[None]:
    """Hide Beam's log messages while the body of the ``with`` statement runs. Other messages are shown as before.

    Nothing changes if the logger ``apache_beam`` has a level: then the user has chosen which messages of Beam to see.
    """
    beam, root = logging.getLogger(BEAM), logging.getLogger()
    if beam.level != logging.NOTSET:
        yield
        return
    # Beam's first message would give the root logger a handler, and a later basicConfig of the user would do nothing.
    handlers = [logging.lastResort] if logging.lastResort and not root.handlers else []
    beam.setLevel(HIDDEN_BELOW)
    root.addFilter(is_shown)
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        beam.setLevel(logging.NOTSET)
        root.removeFilter(is_shown)
        for handler in handlers:
            root.removeHandler(handler)
