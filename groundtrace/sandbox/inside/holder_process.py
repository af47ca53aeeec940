"""Lets the supervisor control a holder, which is the process that holds the variables of executed code.

The supervisor is the first process in the sandbox. It resumes and stops a holder, and sends it requests. The messages
of a holder are not trusted, since model-written code may have sent them.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import frames
from .call import receive_credited

_ANSWER_S = 10.0
"""A timeout, in seconds, for a holder, which is the process with the variables of executed code.

Within this time, a holder must accept a request, and must answer a request that runs no model-written code. Both
normally take milliseconds.
"""
_WATCH_S = 0.03
"""The interval, in seconds, at which the function ``watch`` is called while the supervisor waits for a holder.

The supervisor is the first process in the sandbox. A holder is the process with the variables of executed code. The
code may have changed what this process does, so ``watch`` checks the sandbox meanwhile, e.g. the memory in use.
"""


class TrajectoryLost(Exception):
    """Raised if the trajectory, which is a series of executions of code, cannot continue.

    This is the case if its holder (the process with its state) has ended or does not answer, or if processes cannot be
    killed.
    """


class TooMuchMemory(TrajectoryLost):
    """Raised if the processes of a trajectory together exceed the memory limit.

    A trajectory is a series of executions of code that share their state.
    """


@dataclass
class Holder:
    """Represents a holder, which is a process that holds the state of a trajectory.

    A trajectory is a series of executions of code; its state is the variables that the code created. ``pid`` is the id
    of the process. ``control`` is the socket over which the holder and the supervisor, the first process in the
    sandbox, exchange messages.
    """

    pid: int
    control: socket.socket

    def resume(self) -> None:
        """Let the holder continue after it was stopped (SIGCONT).

        The holder is the process that holds the variables of executed code. Raises TrajectoryLost if the process has
        ended.
        """
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            raise TrajectoryLost(
                "the process that keeps the variables of the code has ended, so no further call can run"
            ) from None

    def stop(self) -> None:
        """Pause the holder (SIGSTOP), with its threads and timers; nothing happens if it has ended.

        The holder is the process that holds the variables of executed code.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """Kill the holder (SIGKILL); nothing happens if it has ended.

        The holder is the process that holds the variables of executed code. The method does not wait until the process
        has ended, which takes some milliseconds. If the holder was stopped (:meth:`stop`) before it is killed, it runs
        no more code during this time.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def send(self, header: dict[str, Any], fds: list[int], watch: Callable[[], None] = lambda: None) -> None:
        """Send a request to the holder (the process with the variables of executed code), with open files.

        Args:
            header: the request as a JSON object.
            fds: the file descriptors that are sent with it.
            watch: a function that is called every 30 ms until the request is sent, for example to check the memory. Its
                errors are passed on.

        Raises:
            TrajectoryLost: if the holder does not accept the request.
        """
        data, deadline = memoryview(frames.pack(header)), time.monotonic() + _ANSWER_S
        self.control.settimeout(_WATCH_S)
        while data:
            try:
                data = data[socket.send_fds(self.control, [data], fds) :]
                fds = []
            except TimeoutError:
                watch()
            except OSError as error:
                raise TrajectoryLost(
                    f"the process that keeps the variables of the code accepts no request: {error}"
                ) from None
            if data and time.monotonic() > deadline:
                raise TrajectoryLost(
                    "the process that keeps the trajectory's variables did not accept a request in time, so the "
                    "trajectory is lost"
                )


def answer_of(
    control: socket.socket, timeout_s: float = _ANSWER_S, watch: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], int]:
    """Wait for a holder's next message, and return its header and the id of the process that sent it.

    A holder is a process that holds the variables of executed code. The supervisor, which is the first process in the
    sandbox, calls this function.

    Args:
        control: the supervisor's socket to the holder.
        timeout_s: the maximum time to wait, in seconds.
        watch: a function that is called every 30 ms during the waiting, for example to check the memory. Its errors are
            passed on.

    Raises:
        TrajectoryLost: if no valid message arrives in time, or if the message states that the variables are lost.
    """
    now, sender = time.monotonic(), 0
    deadline, next_watch = now + timeout_s, now + _WATCH_S

    def exactly(size: int) -> bytes:
        nonlocal sender, next_watch
        found = bytearray()
        while len(found) < size:
            now = time.monotonic()
            if now > deadline:  # for the whole message, which may arrive byte by byte
                raise TimeoutError("timed out")
            if now > next_watch:
                next_watch = now + _WATCH_S
                watch()
            control.settimeout(_WATCH_S)
            with contextlib.suppress(TimeoutError):
                data, sender = receive_credited(control, size - len(found))
                if not data:
                    raise EOFError
                found += data
        return bytes(found)

    try:
        header, _ = frames.read(exactly, 0)
    except (OSError, EOFError, frames.BadFrame) as error:
        raise TrajectoryLost(f"the process that keeps the variables of the code does not answer: {error!r}") from None
    if "lost" in header:
        raise TrajectoryLost(str(header["lost"]))
    return header, sender
