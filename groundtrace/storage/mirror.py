"""Keeps local copies of folders in a store, e.g. of the output folder of a finished run (a pipeline's execution).

Programs that read such a folder, such as DuckDB, read its files many times and at random offsets. So the files are
downloaded once and kept in the user's cache folder. A later call downloads only the changed files. A copy never mixes
two states of the folder: if the folder changes during the download, the changed files are downloaded again.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from filelock import FileLock

from groundtrace.schemas.text import excerpt
from groundtrace.storage.files import write_atomically, written_whole
from groundtrace.storage.listing import Stat
from groundtrace.storage.object_store import STANDARD, StorageSettings
from groundtrace.storage.places import StorageError, StoreUnavailable, check_bucket, endpoint_of, is_in_store, place
from groundtrace.storage.remote_path import RemotePath

RUN_MARKER: Final = "input.json"
LAST_WRITTEN: Final = "run.json"
_NOT_OF_A_RUN: Final = ("cache", "media", "previous", "logs", "failed.html")
"""The files and folders of a run's output folder that are not copied, because readers do not need them."""
MAX_NAME_BYTES: Final = 255
"""The maximum length of the name of a file or folder on usual disks, in bytes of UTF-8."""
MAX_TRIES: Final = 5
PIECE_BYTES: Final = 8 * 2**20


def local_copy(name: str, storage: StorageSettings = STANDARD) -> Path:
    """Return a local folder with the content of the folder ``name``.

    If ``name`` is a local path, the result is this path, with ``~`` expanded. If ``name`` is a URL such as
    ``s3://bucket/run``, the folder is copied to the user's cache folder, and the result is the copy. ``storage`` holds
    the settings of the connection to the store. If the folder is the output of a run (a pipeline's execution), the
    parts that readers do not need are not copied, such as the folders ``cache``, ``media`` and ``logs``.

    Raises :class:`groundtrace.storage.places.StorageError` if the URL has no files, or if the folder cannot be copied.
    Raises :class:`groundtrace.storage.places.StoreUnavailable` if the store stays unreachable.
    """
    if not is_in_store(name):
        return Path(name).expanduser()
    folder = place(name, storage)
    assert isinstance(folder, RemotePath)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundtrace" / "copies"
    digest = hashlib.sha256(f"{endpoint_of(str(folder), storage)}{folder}".encode()).hexdigest()[:32]
    copy = base / digest / folder.name
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(base / f"{digest}.lock"):
            for _ in range(MAX_TRIES):
                if _is_brought(folder, copy, base / f"{digest}.json"):
                    return copy
    except (StorageError, StoreUnavailable):
        raise
    except OSError as error:
        why = f"{error.strerror or error}: {error.filename or copy}"
        raise StorageError(
            f"{folder} cannot be copied to this machine ({why}): check that {base} is a writable folder and that its "
            "disk is not full, and run the same command again"
        ) from error
    raise StorageError(f"{folder} keeps changing while it is copied: wait until the run that writes it has ended")


def _is_brought(folder: RemotePath, target: Path, known: Path) -> bool:
    """Update the local copy ``target``; return True if the folder in the store did not change during the update.

    ``known`` is the file that records the versions of the files already copied.
    """
    found = _wanted(folder)
    if not found:
        check_bucket(folder)
        raise StorageError(f"{folder} is empty or does not exist: give the --output folder of a `beam run`")
    if (name := _unstorable(found)) is not None:
        raise StorageError(
            f"{folder} cannot be copied to this machine, because the object {excerpt(name)} cannot be a file on a "
            "disk: its name is too long, has a NUL character, or is also the name of a folder. Rename or remove this "
            "object in the store"
        )
    try:
        versions = json.loads(known.read_bytes())
    except (OSError, ValueError):
        versions = {}
    for path in sorted(target.rglob("*"), reverse=True):  # what a folder contains comes before the folder
        if path.is_dir():
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()
        elif path.relative_to(target).as_posix() not in found:
            path.unlink()
    for relative, stat in found.items():
        stamp, file = [stat.st_size, stat.version], target / relative
        if versions.get(relative) != stamp or not file.is_file() or file.stat().st_size != stat.st_size:
            try:
                fetch(folder / relative, stat.st_size, file)
            except FileNotFoundError:  # deleted since it was listed, as run.json is while a run is delivered
                return False
            versions[relative] = stamp
    write_atomically(known, json.dumps({name: versions[name] for name in found}))
    return _wanted(folder) == found


def _unstorable(names: Collection[str]) -> str | None:
    """Return the first of the relative paths ``names`` that cannot be a file on a disk; None if all can be files.

    A store allows three kinds of names that a disk does not: a name with a NUL character, a very long name, and a name
    that is also the name of a folder. E.g. if ``names`` are "a" and "a/b", then "a" cannot be a file.
    """
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name in names:
        is_long = any(len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for part in name.split("/"))
        if name in folders or "\0" in name or is_long:
            return name
    return None


def _wanted(folder: RemotePath) -> Mapping[str, Stat]:
    """Return the files of the folder: a mapping from each file's relative path to its metadata.

    If the folder is the output folder of a run (a pipeline's execution), files that a reader does not need are left
    out. A file is left out if the first part of its path, e.g. ``cache`` in ``cache/a.json``, begins with a full stop
    or is in :data:`_NOT_OF_A_RUN`. If the folder is another folder, all files are returned.
    """
    found = {str(path.relative_to(folder)): stat for path, stat in folder.walked().items()}
    if RUN_MARKER not in found:
        return found
    parts = {name: name.split("/")[0] for name in found}
    return {name: found[name] for name, top in parts.items() if top not in _NOT_OF_A_RUN and not top.startswith(".")}


def fetch(source: RemotePath, size: int, target: Path) -> None:
    """Download an object to the local file ``target``. A failed download leaves no partial file.

    ``source`` is the object, and ``size`` is its size in bytes according to an earlier listing of its folder. Raises
    FileNotFoundError if the object was deleted since then, or is now shorter than ``size``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(target) as unfinished, unfinished.open("wb") as stream:
        for start in range(0, size, PIECE_BYTES):
            stream.write(source.read_bytes(start, min(start + PIECE_BYTES, size)))
        if stream.tell() != size:  # it became shorter since it was listed
            raise FileNotFoundError(
                f"{source} changed while it was copied (it had {size} bytes): run the same command again"
            )
