"""Giving memory back to the system between the steps of a run."""

import ctypes
import functools
import gc
import mmap
from pathlib import Path
from typing import Any

MIN_GROWTH_BYTES = 32 << 20
"""Below this there is too little to give back for what it takes: a walk over all objects that the process holds."""

_kept_bytes = 0


def release_memory() -> None:
    """Give the C library's free memory back to the system; nothing on systems whose library cannot.

    What a stage frees lies scattered between what is still in use, and glibc gives none of that back by itself. Rings
    of objects, such as the runner's bundles, are collected first. Nothing is done while the process has grown by less
    than :data:`MIN_GROWTH_BYTES` since the last time, as in every step of a small run.
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
    """The memory that this process holds; None where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def _trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no C library that can be opened by the process's own name
        return None
