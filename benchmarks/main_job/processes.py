"""Runs commands to their end, and measures their time, CPU time, memory, and calls to the server."""

import os
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil
from model_access import Server

MEMORY_EVERY_S = 0.1


@dataclass(frozen=True)
class Ended:
    """Holds what is known of a process that ended: its times in seconds on the server's clock, its CPU seconds, and the
    peak memory of the process and its children together.
    """

    began_s: float
    ended_s: float
    cpu_s: float
    peak_mib: float
    code: int
    output: str

    @property
    def wall_s(self) -> float:
        """Return the seconds from its start to its exit."""
        return self.ended_s - self.began_s


@dataclass(frozen=True)
class Turn:
    """Holds a process that ended, and the server's log of its calls."""

    ran: Ended
    log: Sequence[dict[str, Any]]

    @property
    def start_s(self) -> float:
        """Return the seconds from the process's start to the first request; to its exit if there is no request."""
        return self._first_s - self.ran.began_s

    @property
    def working_s(self) -> float:
        """Return the seconds from the first request to the last reply."""
        return self._last_s - self._first_s

    @property
    def tail_s(self) -> float:
        """Return the seconds from the last reply to the exit."""
        return self.ran.ended_s - self._last_s

    def used(self, slots: int) -> float:
        """Return the share of the server's slot-seconds that was used, from the first request to the last reply."""
        return sum(asked["end_s"] - asked["begin_s"] for asked in self.log) / (slots * self.working_s)

    @property
    def _first_s(self) -> float:
        return min((asked["begin_s"] for asked in self.log), default=self.ran.ended_s)

    @property
    def _last_s(self) -> float:
        return max((asked["end_s"] for asked in self.log), default=self.ran.ended_s)


def process(*command: str) -> Ended:
    """Run a command to its end."""
    with tempfile.TemporaryFile() as output:
        began_s = time.monotonic()
        child = psutil.Popen(command, stdin=-3, stdout=output, stderr=output)
        peak, done = [0], threading.Event()
        watcher = threading.Thread(target=_watch_memory, args=(child, peak, done))
        watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        ended_s = time.monotonic()
        done.set()
        watcher.join()
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Ended(began_s, ended_s, cpu_s, peak[0] / 2**20, os.waitstatus_to_exitcode(status), text)


def _watch_memory(child: psutil.Process, peak: list[int], done: threading.Event) -> None:
    while not done.wait(MEMORY_EVERY_S):
        try:
            tree = [child, *child.children(recursive=True)]
            peak[0] = max(peak[0], sum(each.memory_info().rss for each in tree))
        except psutil.Error:
            continue  # it ended in the meantime


def with_calls(server: Server, calls: int | None, *command: str) -> Turn:
    """Run a command that makes ``calls`` calls; None allows any number.

    Raises RuntimeError if it fails or makes another number of calls.
    """
    server.ask("reset", b"{}")
    ran = process(*command)
    log = server.ask("log")
    if ran.code or calls not in (None, len(log)):
        raise RuntimeError(f"{command}: exit code {ran.code}, {len(log)} of {calls} calls\n{ran.output[-3000:]}")
    return Turn(ran, log)
