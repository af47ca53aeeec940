"""Locks files, so that processes do not use them at the same time. The operating system releases the locks of a process
when the process ends.

This module uses ``flock`` instead of the package filelock for two reasons. First, several processes can hold a shared
lock (LOCK_SH) at the same time, while an exclusive lock (LOCK_EX) excludes all other locks. Second, an exclusive lock
can be turned into a shared lock without a release in between.
"""

import contextlib
import fcntl
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from groundtrace.schemas.safe_files import opened_for_writing


def lock_alone(handle: int) -> bool:
    """Lock an open file exclusively, without waiting. ``handle`` is the file descriptor. Returns True if the file is
    locked now, and False if another process holds a lock on the file.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Lock the file ``path`` while the body of the ``with`` statement runs. The function waits until the lock is free,
    and creates the file if necessary. ``how`` is ``fcntl.LOCK_SH`` (a shared lock) or ``fcntl.LOCK_EX`` (an
    exclusive lock). Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file is a link, a pipe or a
    device.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened_for_writing(path.parent, path.name) as handle:
        fcntl.flock(handle, how)
        yield


@contextlib.contextmanager
def locked_now(path: Path) -> Iterator[TextIO | None]:
    """Try to lock the file ``path`` exclusively, without waiting. The file is created if it does not exist. Yields the
    open file, which is locked until the ``with`` statement ends. Yields None if another process holds a lock on the
    file. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file is a link, a pipe or a device.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with io.TextIOWrapper(opened_for_writing(path.parent, path.name), "utf-8") as handle:
        yield handle if lock_alone(handle.fileno()) else None
