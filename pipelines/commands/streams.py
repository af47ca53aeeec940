"""Ends a command quietly if its output pipe is closed, as in ``beam config | head -1``."""

import contextlib
import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from typing import TextIO

NOBODY_READS = 128 + signal.SIGPIPE
"""The exit code if the output pipe is closed. A shell reports the same code for a program that SIGPIPE ended."""


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """Flush standard output and standard error when the body of the ``with`` statement ends, also after an error.

    Raises SystemExit if the output pipe is closed.
    """
    try:
        try:
            yield
        finally:
            for stream in standard_streams():
                stream.flush()
    except BrokenPipeError:
        end_if_pipe_closed()
        raise


def end_if_pipe_closed() -> None:
    """End the command if the program that reads its output through a pipe has closed the pipe.

    If standard output or standard error is such a pipe, its buffered output is discarded, and SystemExit is raised.
    Otherwise nothing happens.
    """
    closed = [stream for stream in standard_streams() if _is_closed(stream)]
    for stream in closed:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # otherwise Python reports a failed flush at exit
        os.close(nowhere)
    if closed:
        raise SystemExit(NOBODY_READS)


def standard_streams() -> list[TextIO]:
    """Return standard output and standard error, each only if it is open.

    A stream that was closed before this process began is left out, because Python sets it to None.
    """
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None]


def _is_closed(stream: TextIO) -> bool:
    try:
        looked_at = select.poll()
        looked_at.register(stream.fileno(), 0)  # poll reports errors anyway
    except io.UnsupportedOperation:  # not a file, such as StringIO
        return False
    return bool(looked_at.poll(0))
