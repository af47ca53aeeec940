"""Starts the isolated processes of a trajectory, and exchanges messages with them.

A trajectory is a series of executions of code that share their state. The module runs outside the sandbox, in the host,
which is the process that opened the sandbox.
"""

import asyncio
import contextlib
import os
import secrets
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from groundtrace.sandbox.bubblewrap import binds, command, packages
from groundtrace.sandbox.errors import SandboxLost
from groundtrace.sandbox.filter import filter_program
from groundtrace.sandbox.groups import ControlGroup, make_group
from groundtrace.sandbox.inside import frames
from groundtrace.sandbox.observation import BadObservation, Observation, observation_of
from groundtrace.sandbox.settings import SandboxSettings

_START_S = 60.0
_GRACE_S = 30.0
"""The number of seconds for which the host still waits for the supervisor's answer after a call's time limit. The
supervisor itself ends a call at its time limit.
"""
_USERS = range(1_000_000_000, 2_000_000_000)
"""The range of user ids for trajectories. If this process is root, each trajectory gets a user id of its own from this
range, so that the kernel counts the processes of each trajectory separately.
"""
MAX_INPUT_BYTES = 1 << 29


@dataclass
class Process:
    """Holds one running program bubblewrap, which isolates all processes of one trajectory in a sandbox.

    A trajectory is a series of executions of code that share their state. If the program ends, these processes end too.

    Attributes:
        popen: the program, with the pipes to the supervisor (the first process in the sandbox).
        group: the control group of the processes.
        landlock: the version of the interface of Landlock (a Linux security module) that restricts the code; 0 without
            Landlock.
    """

    popen: subprocess.Popen[bytes]
    group: ControlGroup
    landlock: int = 0

    @classmethod
    def start(cls, settings: SandboxSettings) -> "Process":
        """Start a supervisor, which is the first process in a sandbox, and wait until it is ready.

        ``settings`` holds the limits of the code, such as its memory. Raises SandboxLost if the supervisor does not
        start; the message of this error contains the error output of the sandbox.
        """
        name = secrets.token_hex(6)
        group = make_group(name, settings.group_memory_mb, settings.max_processes + 8)
        # A shell joins the groups before bubblewrap starts, so that no process of the trajectory is ever outside.
        join = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1"; shift; n=$((n - 1)); done; exec "$@"'
        words = ["/bin/sh", "-c", join, "sh", str(len(group.joining)), *group.joining, *command(settings.folder_mb)]
        try:
            popen = subprocess.Popen(
                words,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            )
        except OSError as error:  # no process or file descriptor is left
            group.remove()
            raise SandboxLost(
                f"cannot start a process for the sandbox: {error}: end other programs on this machine, or lower "
                "sandbox.sessions"
            ) from None
        process = cls(popen, group)
        uid = secrets.choice(_USERS) if os.geteuid() == 0 else 0
        hello = {"uid": uid, "paths": packages(), "readable": list(binds())}
        try:
            process.send({**hello, "limits": settings.limits, "max_bytes": MAX_INPUT_BYTES}, [filter_program()])
            header, _ = process.receive(0, _START_S)
            process.landlock = int(header["landlock"])
        except (SandboxLost, KeyError, TypeError, ValueError) as error:
            wrote = process.end()
            raise SandboxLost(f"the sandbox's process did not start: {wrote or error}") from None
        return process

    def send(self, header: dict[str, Any], parts: Sequence[bytes]) -> None:
        """Send a request to the supervisor, which is the first process in the sandbox.

        ``header`` is the request as a JSON object, and ``parts`` is its binary data. Raises SandboxLost if the
        supervisor does not accept the request.
        """
        assert self.popen.stdin
        try:
            data = memoryview(frames.pack(header, parts))
            while data:
                data = data[self.popen.stdin.write(data) or 0 :]
        except (OSError, ValueError) as error:
            raise SandboxLost(f"the sandbox does not accept a request: {error}") from None

    def receive(self, max_bytes: int, timeout_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """Wait for the supervisor's next message, and return its header and its binary parts.

        The supervisor is the first process in the sandbox. ``max_bytes`` is the maximum size of all parts together, and
        ``timeout_s`` the maximum time to wait. Raises SandboxLost if no valid message arrives in time, or if the
        message states that no further code can be run.
        """
        assert self.popen.stdout
        fd, deadline = self.popen.stdout.fileno(), time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(fd, select.POLLIN)

        def exactly(size: int) -> bytes:
            found = bytearray()
            while len(found) < size:
                if not poll.poll(1000 * max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                data = os.read(fd, min(size - len(found), 1 << 20))
                if not data:
                    raise EOFError
                found += data
            return bytes(found)

        try:
            header, parts = frames.read(exactly, max_bytes)
        except (EOFError, OSError, TimeoutError, frames.BadFrame) as error:
            raise SandboxLost(
                "the sandbox gave no valid answer, so the variables of the code are lost: "
                f"{str(error) or type(error).__name__}"
            ) from None
        if "lost" in header:
            raise SandboxLost(str(header["lost"]))
        return header, parts

    def end(self) -> str:
        """End all processes of the trajectory (a series of executions of code), and remove their control group.

        Returns the last 500 characters that the sandbox wrote to stderr. If the processes have been ended before, this
        method does nothing and returns "".
        """
        if self.popen.returncode is not None and self.popen.stdin and self.popen.stdin.closed:
            return ""
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        wrote = b""
        try:
            self.popen.wait(2)
        except subprocess.TimeoutExpired:
            self.popen.kill()  # because of --die-with-parent, all processes in the sandbox end with it
            self.popen.wait()
        if self.popen.stderr:
            os.set_blocking(self.popen.stderr.fileno(), False)
            with contextlib.suppress(OSError):
                wrote = self.popen.stderr.read() or b""
            self.popen.stderr.close()
        self.group.remove()
        return wrote.decode("utf-8", "replace").strip()[-500:]


class Session:
    """Runs the calls of one trajectory.

    A call is one execution of code; it continues with the variables of the last successful call. A trajectory is a
    series of such calls.

    Close the session, or use it in a ``with`` statement. :meth:`groundtrace.sandbox.sandbox.Sandbox.open` creates it.
    """

    def __init__(
        self,
        process: Process,
        settings: SandboxSettings,
        images: Sequence[bytes],
        closed: Callable[[], None],
        callers: Executor,
    ) -> None:
        self._process, self._settings, self._callers = process, settings, callers
        self._closed: Callable[[], None] | None = closed
        self._left_s = settings.trajectory_timeout_s
        self._lost = ""
        self._turn = threading.Lock()
        self._process.send({"do": "open"}, images)
        self._process.receive(0, _START_S)

    def run(self, code: str) -> Observation:
        """Execute code, and return what it printed and showed, and how it ended.

        The code continues from the state after the last successful call, so it finds the variables of earlier code. If
        several threads call this method, their calls run one after the other.

        Raises SandboxLost if the session cannot continue, for example if :meth:`close` was called before or during the
        call.
        """
        with self._turn:
            return self._run(code)

    def _run(self, code: str) -> Observation:
        if self._lost:
            raise SandboxLost(self._lost)
        if len(code) > self._settings.max_code_chars:
            return Observation("error", error=f"the code is longer than {self._settings.max_code_chars} characters")
        if self._left_s <= 0:
            return Observation("timeout", error="the calls of this trajectory have used up their time")
        data = code.encode("utf-8", "surrogatepass")
        timeout_s = min(self._settings.call_timeout_s, self._left_s)
        limits = self._settings.limits
        kills = self._process.group.out_of_memory_kills()
        try:
            self._process.send({"do": "run", "timeout_s": timeout_s}, [data])
            header, parts = self._process.receive(
                limits["max_answer_bytes"] + 2 * limits["max_output_bytes"], timeout_s + _GRACE_S
            )
            found = observation_of(header, parts, self._settings.max_output_chars, self._settings.max_image_pixels)
        except (SandboxLost, BadObservation, KeyError, TypeError, ValueError) as error:
            self._lost = self._lost or f"the state of this trajectory is gone: {error}"
            self._process.end()
            raise SandboxLost(self._lost) from None
        except BaseException as error:  # KeyboardInterrupt: the next call would read this one's answer
            self._lost = f"a call of this trajectory was interrupted by {type(error).__name__}"
            self._process.end()
            raise
        self._left_s -= found.duration_s
        if found.status == "killed" and self._process.group.out_of_memory_kills() > kills:
            return Observation("memory", found.stdout, found.stderr, "the call needs more memory than it may use")
        return found

    async def run_async(self, code: str) -> Observation:
        """Execute code as :meth:`run` does, but as a coroutine.

        The coroutine waits for the result in a thread of the sandbox, so it does not block the event loop.
        """
        return await asyncio.get_running_loop().run_in_executor(self._callers, self.run, code)

    @property
    def is_open(self) -> bool:
        """Return whether the session is still open: True until :meth:`close` is called."""
        return self._closed is not None

    @property
    def landlock(self) -> int:
        """Return the version of the interface of Landlock that restricts the code; 0 without Landlock.

        Landlock is a Linux security module that restricts the access to files.
        """
        return self._process.landlock

    def close(self) -> None:
        """End the session with all its processes; no code can be run afterwards.

        Code that another thread is running in the session is ended.
        """
        self._lost = self._lost or "the trajectory was closed"
        if self._turn.locked():
            self._process.popen.kill()  # ends all processes in the sandbox, so that the call ends
        with self._turn:
            if self._closed is not None:
                self._process.end()
                closed, self._closed = self._closed, None
                closed()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
