"""Lets several processes, one on each GPU of a machine, train one model together.

Each process has a number, its *rank*. The processes exchange values through torch.distributed's default group, which
:func:`join` makes. In a training of one process there is no group, and each function of this module returns its
argument, or calls it, without any exchange. So the training loops need no branches.

A call that exchanges values is a *collective*: every rank must make the same collectives in the same order, or all
ranks wait forever. An error on one rank would break this order. Therefore code that can fail on one rank alone, such as
sampling and scoring, runs in :func:`together`, which raises on all ranks if it fails on one.
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
"""The environment variable with a :class:`Place` as JSON, which :mod:`groundtrace.trainer.launch` sets."""
PATIENCE = datetime.timedelta(days=1)
"""The time after which a collective fails. One rank may sample for hours longer than another. If a rank dies, the
launcher ends the others long before."""
MEETING_S = 10.0
"""The time that a rank waits for the others in :func:`all_arrive`."""
_SEED_BITS = 48


@dataclass(frozen=True)
class Place:
    """Holds what a process must know to be a rank.

    Attributes:
        index: the rank, from 0.
        count: the number of ranks.
        port: the port of the launcher's store, through which the ranks find each other.
        alive_fd: a file descriptor that the launcher holds open; it is closed when the launcher ends.
        report: the file in which the rank reports why it failed.
    """

    index: int
    count: int
    port: int
    alive_fd: int
    report: str


class FailedElsewhere(RuntimeError):
    """Raised on the other ranks if :func:`together` fails on one rank."""


_store: Any = None
_is_alone = False


def is_rank() -> bool:
    """Whether the launcher started this process as a rank."""
    return ENV in os.environ


def place() -> Place | None:
    """Return the place that the launcher gave this process; None if it is not a rank."""
    return Place(**json.loads(os.environ[ENV])) if is_rank() else None


def join(own: Place) -> None:
    """Make this process a rank. It ends at once if the launcher ends."""
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
    """Wait until all ranks are done, and close the group. Call this only if nothing has failed."""
    if count() > 1:
        dist.barrier()
        dist.destroy_process_group()


def _end_with_launcher(alive_fd: int) -> None:
    os.read(alive_fd, 1)  # returns when the launcher has ended
    os.kill(os.getpid(), signal.SIGKILL)


def count() -> int:
    """Return the number of ranks; 1 in a training of one process."""
    return dist.get_world_size() if dist.is_initialized() else 1


def index() -> int:
    """Return the number of this rank, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_first() -> bool:
    """Whether this is the rank that writes logs, pages and models."""
    return index() == 0


def gathered(value: T) -> list[T]:
    """Return the values of all ranks, in the order of the ranks."""
    if count() == 1:
        return [value]
    found: list[Any] = [None] * count()
    dist.all_gather_object(found, value)
    return found


def of_first(value: T) -> T:
    """Return the value of the first rank."""
    return gathered(value)[0]


def total(value: int) -> int:
    """Return the sum of a number over all ranks."""
    return sum(gathered(value))


def totals(values: Mapping[str, float]) -> dict[str, float]:
    """Return the sums of named numbers over the ranks that have them."""
    found: dict[str, float] = {}
    for own in gathered(dict(values)):
        for name, value in own.items():
            found[name] = found[name] + value if name in found else value
    return found


def own_seed(seed: int) -> int:
    """Return a seed of this rank: ``seed`` itself on the first rank, so that one process has it, too."""
    return seed if is_first() else (seed + (index() << _SEED_BITS)) % 2**63


def may_interrupt() -> bool:
    """Whether an exception may be raised at any time: no other rank waits for a collective of this one."""
    return count() == 1 or _is_alone


def together(work: Callable[[], T]) -> T:
    """Return the result of work without collectives, which a signal may interrupt.

    If the work fails on any rank, it fails on all: those on which it succeeded raise FailedElsewhere.
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
    """Return the result of work that the first rank does before the others, such as filling a cache."""
    if count() == 1:
        return work()
    if is_first():
        result = together(work)
        together(lambda: None)
        return result
    together(lambda: None)
    return together(work)


def all_arrive() -> bool:
    """Whether all ranks call this function within ``MEETING_S`` seconds; call it once in a process.

    It makes no collective, so that a rank may call it after any error. If all ranks have arrived, none waits for a
    collective, and the ranks can make further ones.
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
    """Holds why a rank failed: the exit code and the message for the user.

    ``is_elsewhere`` is whether only another rank failed. ``is_dead`` is whether the rank ended without a report of its
    own, as after SIGKILL.
    """

    code: int
    message: str
    is_elsewhere: bool = False
    is_dead: bool = False


def report(failure: Report) -> bool:
    """Report the failure of this rank to the launcher, which shows it; return False without a launcher."""
    own = place()
    if own is None:
        return False
    Path(own.report).write_text(json.dumps(asdict(failure)), "utf-8")
    return True
