"""Lets several processes, one on each GPU of a machine, train one model together.

Each process has a number, its *rank*. The processes exchange values through torch.distributed's default group, which
:func:`join` makes. A training of one process has no such group. In this case, the functions of this module exchange
nothing: those that combine the values of all ranks use only the value of this process, and those with the argument
``work`` (a function) only call ``work``. So the training loops need no branches for one and several processes.

A call that exchanges values is a *collective*. Every rank must make the same collectives in the same order. Otherwise
all ranks wait forever. An error on one rank would break this order. So code that can fail on one rank alone, such as
sampling and scoring, runs in :func:`together`. If it fails on one rank, this function raises an error on all ranks.
"""

import datetime
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

ENV = "GROUNDTRACE_RANK"
"""The environment variable through which the launcher gives a process its :class:`Place`, as JSON."""
PATIENCE = datetime.timedelta(days=1)
"""The time after which a collective fails. It is long, because one rank may sample for hours longer than another. If a
rank dies, the launcher ends the other ranks long before."""
MEETING_S = 10.0
"""The number of seconds that a rank waits for the other ranks in :func:`all_arrive`."""
_SEED_BITS = 48


@dataclass(frozen=True)
class Place:
    """Holds the data that a process needs to become a rank, i.e. one of the processes that train one model together.

    The launcher starts one process for each GPU, and gives this data to each process.

    Attributes:
        index: the number of the rank, from 0.
        count: the number of ranks.
        port: the port of the launcher's key-value store, through which the ranks find each other.
        alive_fd: the file descriptor of a pipe. The pipe is closed when the launcher ends, and the rank is then killed.
        report: the path of the file in which the rank reports why it failed.
    """

    index: int
    count: int
    port: int
    alive_fd: int
    report: str


class FailedElsewhere(RuntimeError):
    """Raised by :func:`together` on a rank (a training process) that succeeded, if another rank failed."""


_store: Any = None
_is_alone = False


def is_rank() -> bool:
    """Return whether this process is a rank: one of the processes that the launcher starts, one for each GPU."""
    return ENV in os.environ


def place() -> Place | None:
    """Return the data that the launcher gave to this process, such as the process's number and the number of processes.

    The launcher starts one process (rank) for each GPU. The result is None if the launcher did not start this process.
    """
    return Place(**json.loads(os.environ[ENV])) if is_rank() else None


def join(own: Place) -> None:
    """Connect this process to the other processes (ranks) of the training, so that they can exchange values.

    ``own`` holds the data that the launcher gave to this process: the process's number, the number of processes, and
    the port at which they find each other. Call :func:`place` to get it. After the call of this function, the process
    is killed if the launcher ends.
    """
    global _store
    threading.Thread(target=_end_with_launcher, args=(own.alive_fd,), daemon=True).start()
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    _store = dist.TCPStore("127.0.0.1", own.port)  # type: ignore[reportPrivateImportUsage] (it is documented)
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(own.index)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, store=_store, rank=own.index, world_size=own.count, timeout=PATIENCE)


def leave() -> None:
    """Wait until all training processes (ranks) have called this function, then disconnect this process from them.

    Call this function only if the training succeeded.
    """
    if count() > 1:
        dist.barrier()
        dist.destroy_process_group()


def _end_with_launcher(alive_fd: int) -> None:
    os.read(alive_fd, 1)  # returns when the launcher has ended
    os.kill(os.getpid(), signal.SIGKILL)


def count() -> int:
    """Return the number of ranks (processes) of the training; 1 in a training of one process."""
    return dist.get_world_size() if dist.is_initialized() else 1


def index() -> int:
    """Return the number of this rank (process), from 0; 0 in a training of one process."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_first() -> bool:
    """Return whether this process is the first of all training processes. Only the first writes logs and models."""
    return index() == 0


def gathered(value: T) -> list[T]:
    """Return the values that all ranks (training processes) passed to this call, in the order of the ranks.

    All ranks must call this function. Each of them gets the same list.
    """
    if count() == 1:
        return [value]
    found: list[Any] = [None] * count()
    dist.all_gather_object(found, value)
    return found


def of_first(value: T) -> T:
    """Return, on all ranks (training processes), the value that the first rank passed to this function.

    All ranks must call this function. The values of the other ranks are not used.
    """
    return gathered(value)[0]


def total(value: int) -> int:
    """Return the sum of the numbers that all ranks (training processes) passed to this function.

    All ranks must call this function. Each of them gets the sum.
    """
    return sum(gathered(value))


def totals(values: Mapping[str, float]) -> dict[str, float]:
    """Return, for each name, the sum of its numbers over all ranks (training processes).

    ``values`` maps names to the numbers of this rank. If a rank lacks a name, its number counts as 0. All ranks must
    call this function.
    """
    found: dict[str, float] = {}
    for own in gathered(dict(values)):
        for name, value in own.items():
            found[name] = found[name] + value if name in found else value
    return found


def own_seed(seed: int) -> int:
    """Return the seed of this rank (training process), so that the ranks do not sample the same responses.

    The first rank gets ``seed`` itself, as a training of one process does. Each other rank gets a number made from
    ``seed`` and from the rank's number.
    """
    return seed if is_first() else (seed + (index() << _SEED_BITS)) % 2**63


def may_interrupt() -> bool:
    """Return whether a signal may raise an exception in this process now.

    The result is False if another rank (training process) could then wait forever for a value of this process.
    """
    return count() == 1 or _is_alone


def together(work: Callable[[], T]) -> T:
    """Call ``work`` in all training processes (ranks). If it fails in any of them, raise an error in all of them.

    If ``work`` succeeds on all ranks, each rank gets the result of its own call. Otherwise, each rank on which ``work``
    failed raises the error of ``work``, and every other rank raises FailedElsewhere. ``work`` must not exchange values
    between ranks. A signal may interrupt ``work``. All ranks must call this function.
    """
    global _is_alone
    if count() == 1:
        return work()
    error: BaseException | None = None
    result: Any = None
    try:
        _is_alone = True
        result = work()
        _is_alone = False
    except BaseException as caught:  # signals, too
        error = caught
    finally:
        _is_alone = False
    failures = gathered(None if error is None else f"{type(error).__name__}: {error}")
    if error is not None:
        raise error
    for number, failure in enumerate(failures):
        if failure is not None:
            raise FailedElsewhere(f"rank {number} failed with {failure}")
    return result


def first_before_others(work: Callable[[], T]) -> T:
    """Call ``work`` in the first training process (rank), then in all other processes.

    Each process gets the result of its own call. For example, the first rank fills a cache that the other ranks then
    use. If the work fails on any rank, an error is raised on all ranks, as by :func:`together`. All ranks must call
    this function.
    """
    if count() == 1:
        return work()
    if is_first():
        result = together(work)
        together(lambda: None)
        return result
    together(lambda: None)
    return together(work)


def all_arrive() -> bool:
    """Return whether all ranks (training processes) call this function within ``MEETING_S`` seconds.

    Call this function at most once in a process. The function exchanges no values. It only counts the ranks that have
    called it, for at most ``MEETING_S`` seconds. So no rank can wait forever, and a rank may call the function after
    any error. If the result is True, all ranks are at the same point, and can exchange values again.
    """
    if count() == 1:
        return True
    deadline_s = time.monotonic() + MEETING_S
    try:
        arrived = _store.add("arrived", 1)
        while arrived < count() and time.monotonic() < deadline_s:
            time.sleep(0.05)
            arrived = _store.add("arrived", 0)
    except RuntimeError:  # the launcher has ended
        return False
    return arrived >= count()


@dataclass(frozen=True)
class Report:
    """Holds the reason why a rank (training process) failed, for the launcher, the process that started the ranks.

    Attributes:
        code: the exit code of the command.
        message: the message for the user.
        is_elsewhere: whether another rank failed, and this rank ended only for this reason.
        is_dead: whether the rank ended without writing a report, e.g. because it was killed by SIGKILL.
    """

    code: int
    message: str
    is_elsewhere: bool = False
    is_dead: bool = False


def report(failure: Report) -> bool:
    """Report the failure of this process to the launcher, which started it and shows the failure to the user.

    Returns True if this process is a rank. Otherwise nothing is reported, and the result is False.
    """
    own = place()
    if own is None:
        return False
    Path(own.report).write_text(json.dumps(asdict(failure)), "utf-8")
    return True
