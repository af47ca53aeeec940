"""File locks that are released when their process ends.

This module uses flock instead of filelock: several processes can hold a shared lock (LOCK_SH), which excludes an
exclusive lock (LOCK_EX), and an exclusive lock can be turned into a shared lock without a release in between.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


def lock_alone(handle: int) -> bool:
    """Lock the open file exclusively, without waiting; returns False if another process holds a lock on it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Lock the file, created if necessary, while the body runs; ``how`` is LOCK_SH or LOCK_EX."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, how)
        yield
