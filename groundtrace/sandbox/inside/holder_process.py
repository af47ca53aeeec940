"""The supervisor's end of a process that holds the state: it lets the process run, stops it, and asks it.

What such a process sends is not trusted: model-written code may have sent it.
"""

import contextlib
import os
import signal
import socket
import time
from dataclasses import dataclass
from typing import Any

from . import frames
from .call import receive_credited

_ANSWER_S = 10.0
"""Timeout for a holder's answer to requests that run no model-written code, and normally take milliseconds."""


class TrajectoryLost(Exception):
    """The trajectory cannot go on: its holder has ended or does not answer, or processes cannot be killed."""


@dataclass
class Holder:
    """A process that holds the state, and the socket to it."""

    pid: int
    control: socket.socket

    def resume(self) -> None:
        """Let the stopped process run again. Raises TrajectoryLost if it has ended."""
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            raise TrajectoryLost("the process that holds the state has ended") from None

    def stop(self) -> None:
        """Stop the process (SIGSTOP), with its threads and timers."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """Kill the process. A stopped one runs no more code, but its end takes a moment."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def send(self, header: dict[str, Any], fds: list[int]) -> None:
        """Send the process a request with file descriptors. Raises TrajectoryLost if it does not accept it."""
        data = frames.pack(header)
        self.control.settimeout(_ANSWER_S)
        try:
            sent = socket.send_fds(self.control, [data], fds)
            self.control.sendall(data[sent:])
        except OSError as error:
            raise TrajectoryLost(f"the process that holds the state does not take requests: {error}") from None


def answer_of(control: socket.socket, timeout_s: float = _ANSWER_S) -> tuple[dict[str, Any], int]:
    """A short message of a holder, and the process that sent it. Raises TrajectoryLost where none comes."""
    deadline, sender = time.monotonic() + timeout_s, 0

    def exactly(size: int) -> bytes:
        nonlocal sender
        found = b""
        while len(found) < size:
            control.settimeout(max(0.001, deadline - time.monotonic()))  # of all that it sends together
            data, sender = receive_credited(control, size - len(found))
            if not data:
                raise EOFError
            found += data
        return found

    try:
        header, _ = frames.read(exactly, 0)
    except (OSError, EOFError, frames.BadFrame) as error:
        raise TrajectoryLost(f"the process that holds the state does not answer: {error!r}") from None
    if "lost" in header:
        raise TrajectoryLost(str(header["lost"]))
    return header, sender
