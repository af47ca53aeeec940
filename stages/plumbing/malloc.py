"""Returns free memory of this process to the operating system, between the stages of a run and while large files are
written.
"""

import ctypes
import functools
import gc
import mmap
from pathlib import Path
from typing import Any

MIN_GROWTH_BYTES = 32 << 20
"""Memory is released only if the process has grown by at least this number of bytes since the last release.

A release is slow, because it visits all objects of the process.
"""

_kept_bytes = 0


def release_memory() -> None:
    """Return the free RAM of the C library to the operating system, if the library has a function for this.

    After a stage, blocks of free RAM lie between blocks in use, so glibc does not return them by itself. Before the
    release, Python's garbage collector frees objects in reference cycles, such as the runner's bundles. The function
    does nothing if the process has grown by less than :data:`MIN_GROWTH_BYTES` since the last release. So a small run
    releases nothing.
    """
    global _kept_bytes
    held_bytes = _resident_bytes()
    if held_bytes is not None and held_bytes - _kept_bytes < MIN_GROWTH_BYTES:
        _kept_bytes = min(_kept_bytes, held_bytes)
        return
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)
    _kept_bytes = _resident_bytes() or 0


def _resident_bytes() -> int | None:
    """Return the resident memory of this process; None if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def _trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # the C library cannot be opened
        return None
