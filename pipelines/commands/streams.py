"""The end of a command whose output nobody reads any more, as in ``beam config | head -1``: a quiet one."""

import contextlib
import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from typing import TextIO

NOBODY_READS = 128 + signal.SIGPIPE
"""The exit code; that of a command which a closed pipe has ended, as shells tell it."""


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """Write out what the body has printed, however it ends. Raises SystemExit where nobody reads it any more."""
    try:
        try:
            yield
        finally:
            for stream in _streams():
                stream.flush()
    except BrokenPipeError:
        end_if_nobody_reads()
        raise


def end_if_nobody_reads() -> None:
    """Raises SystemExit where standard output or error is a pipe that was closed, and drops what such a one holds."""
    closed = [stream for stream in _streams() if _is_closed(stream)]
    for stream in closed:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # or Python would say at its end that it could not be written
        os.close(nowhere)
    if closed:
        raise SystemExit(NOBODY_READS)


def _streams() -> list[TextIO]:
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None]  # None: closed before we began


def _is_closed(stream: TextIO) -> bool:
    try:
        looked_at = select.poll()
        looked_at.register(stream.fileno(), 0)  # errors are told unasked
    except io.UnsupportedOperation:  # a stream of Python's own
        return False
    return bool(looked_at.poll(0))
