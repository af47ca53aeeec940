"""Giving memory back to the system between the steps of a run."""

import ctypes
import functools
import gc
from typing import Any


def release_memory() -> None:
    """Give the C library's free memory back to the system; nothing on systems whose library cannot.

    What a stage frees lies scattered between what is still in use, and glibc gives none of that back by itself. Rings
    of objects, such as the runner's bundles, are collected first.
    """
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no C library that can be opened by the process's own name
        return None
