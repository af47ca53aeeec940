"""Locks on files that end with the process that holds them.

flock and not filelock: many hold a file at once (LOCK_SH) while one alone is kept from it (LOCK_EX), and who has had it
alone lets the others in without letting go of it in between.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


def lock_alone(handle: int) -> bool:
    """Lock the open file against everybody; False where another process holds it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Hold the file, which is made if need be, while the body runs: ``how`` is LOCK_SH or LOCK_EX."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, how)
        yield
