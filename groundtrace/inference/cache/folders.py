"""Finds the folders that belong to a reply cache. A cache is on a local disk, on a network file system, or on object
storage. In the last two cases, this machine also has a local copy of the cache.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from groundtrace.inference.cache.mounts import on_network
from groundtrace.inference.cache.replies import MEMORY
from groundtrace.storage.places import STANDARD, StorageSettings, endpoint_of, is_remote


def coordination_folder(path: str, storage: StorageSettings = STANDARD) -> Path | None:
    """Return the folder through which the processes of this machine coordinate while they use the cache ``path``. Files
    in this folder hold the rate limits, the budgets and the requests in progress of these processes.

    ``path`` is a file path, a URL, or ":memory:". ``storage`` holds the settings of the object storage. The folder is
    named "coordination". If the cache is on a local disk, this folder is in the cache's folder. For a shared cache, it
    is in the folder of this machine's local copy. Returns None for a cache in memory.
    """
    if path == MEMORY:
        return None
    location = shared_location(path)
    here = Path(os.path.realpath(path)).parent if location is None else local_folder_of(location, storage)
    return here / "coordination"


def shared_location(path: str) -> str | None:
    """Return the folder or URL of a shared cache, through which several machines share replies.

    This folder holds the cache's segments: files with replies, which the machines upload. ``path`` is the path or URL
    of the cache's file. E.g. for "s3://bucket/cache/replies.sqlite" the result is "s3://bucket/cache". Returns None for
    a cache on a local disk or in memory, since no other machine can share it.
    """
    if is_remote(path):
        return path.rpartition("/")[0]
    if path == MEMORY or not on_network(folder := Path(os.path.realpath(path)).parent):
        return None
    return str(folder)


def local_folder_of(location: str, storage: StorageSettings = STANDARD) -> Path:
    """Return the folder on this machine for the local copy of the shared cache at ``location`` (a folder path or a
    URL).

    The folder is inside the user's cache folder (``XDG_CACHE_HOME`` or ~/.cache). If that folder is on a network file
    system, the temporary folder is used instead. ``storage`` holds the settings of the object storage. Buckets with the
    same name on two different storage servers get two different folders.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundtrace"
    if on_network(base):
        base = Path(tempfile.gettempdir()) / f"groundtrace-{os.getuid()}"
    named = f"{endpoint_of(location, storage)}{location}"
    return base / hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()[:32]
