"""The Python workers of a cluster and the executors that they work for, found among the machine's processes."""

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import psutil

from .cluster import Cluster

_CONTROL = re.compile(r'SdkHarness\("localhost:(\d+)"')
LIMIT_S = 600.0
LOOK_S = 0.05
T = TypeVar("T")


@dataclass(frozen=True)
class Worker:
    """A Python worker, its executor, which controls it through a port, and the executor's host."""

    process: psutil.Process
    executor: psutil.Process
    host: str

    def ports(self) -> set[int]:
        """The ports of its connections to others, from the worker's side."""
        return ports_of(self.process)

    def has_ended(self) -> bool:
        """Whether the worker has ended; the pool may not have heard of it yet."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return self.process.status() == psutil.STATUS_ZOMBIE
        return True

    def kill_executor(self) -> None:
        """End the executor as the system does when memory is short, and wait until it has gone."""
        self.executor.kill()
        self.executor.wait(LIMIT_S)


def workers_of(cluster: Cluster) -> list[Worker]:
    """The workers whose executors live."""
    executors: dict[int, tuple[psutil.Process, str]] = {}
    for number in (1, 2):
        for process in _children(cluster.pid(f"worker{number}")):
            with contextlib.suppress(psutil.NoSuchProcess):
                listening = [each for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
                executors |= {each.laddr.port: (process, f"127.0.0.{number}") for each in listening}
    found = []
    for process in _children(cluster.pid("pool")):
        with contextlib.suppress(psutil.NoSuchProcess):
            control = _CONTROL.search(" ".join(process.cmdline()))
            if control and int(control[1]) in executors:
                found.append(Worker(process, *executors[int(control[1])]))
    return found


def ports_of(process: psutil.Process) -> set[int]:
    """The ports of a process's connections to others, from its side; none of one that has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return {each.laddr.port for each in process.net_connections("tcp") if each.raddr}
    return set()


def _children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def waited_for(what: str, look: Callable[[], T | None], limit_s: float = LIMIT_S) -> T:
    """What ``look`` returns as soon as that is not None or empty. Raises TimeoutError."""
    until = time.monotonic() + limit_s
    while not (found := look()):
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(LOOK_S)
    return found
