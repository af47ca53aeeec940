"""Finds the folders of a reply cache. The cache is on a local disk, on a network file system, or on object storage with
a local copy."""

import hashlib
import os
import tempfile
from pathlib import Path

from groundtrace.inference.cache.mounts import on_network
from groundtrace.inference.cache.replies import MEMORY
from groundtrace.storage.places import STANDARD, StorageSettings, endpoint_of, is_remote


def coordination_folder(path: str, storage: StorageSettings = STANDARD) -> Path | None:
    """Return the folder in which the processes of this machine coordinate while they use the cache ``path``. Its files
    hold the limits, budgets and claims that these processes share.

    The folder is beside the cache, or beside this machine's copy of a shared cache. Returns None for a cache in memory.
    """
    if path == MEMORY:
        return None
    location = shared_location(path)
    here = Path(os.path.realpath(path)).parent if location is None else local_folder_of(location, storage)
    return here / "coordination"


def shared_location(path: str) -> str | None:
    """Return the folder of the segments (uploaded pieces of the log) of the cache ``path``. Returns None for a cache on
    a local disk or in memory."""
    if is_remote(path):
        return path.rpartition("/")[0]
    if path == MEMORY or not on_network(folder := Path(os.path.realpath(path)).parent):
        return None
    return str(folder)


def local_folder_of(location: str, storage: StorageSettings = STANDARD) -> Path:
    """Return the folder of this machine's copy of the shared cache at ``location``. It is in the user's cache folder,
    or in the temporary folder if the user's cache folder is on a network file system. Two buckets of the same name at
    different store endpoints have separate copies."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundtrace"
    if on_network(base):
        base = Path(tempfile.gettempdir()) / f"groundtrace-{os.getuid()}"
    named = f"{endpoint_of(location, storage)}{location}"
    return base / hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()[:32]
