"""Finds a reply cache (the stored replies of models, which later runs use again) and opens it for reading.

The user can name a cache in four ways: by a run folder, by a cache folder, by the SQLite file in a cache folder, or by
the location (folder or URL) of a shared cache.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from groundtrace.inference.cache.index import logs
from groundtrace.inference.cache.replies import ReplyCache, check_files
from groundtrace.inference.cache.shared import gathered, shared_location
from groundtrace.inference.cache.shared_files import SegmentFiles
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import refuse_links, refuse_special
from groundtrace.storage.places import StorageError, is_remote, place


class CacheCommandError(UserError):
    """Raised by ``beam cache`` for a mistake in the command, and for a reply cache (the stored replies of models) that
    cannot be used. The message is one line.
    """


def failure_of(named: str, error: Exception) -> CacheCommandError:
    """Return the error for the user if a reply cache (the stored replies of models) cannot be used.

    ``named`` is the cache as the command line names it, such as a run folder. ``error`` is the error that occurred; its
    message is the reason in the returned error.
    """
    reason = " ".join(str(error).split())
    return CacheCommandError(
        f"the command failed on the cache {named}: {reason}; remove the cause, and run the command again"
    )


@dataclass(frozen=True)
class Place:
    """Describes where a reply cache (the stored replies of models) is: on this machine, or in a shared location.

    A cache on this machine is the SQLite file ``path``. A shared cache consists of files that several machines upload,
    called segments; ``location`` is the folder or URL of these files. The field that is not used is "".
    """

    path: str = ""
    location: str = ""

    def __str__(self) -> str:
        return self.path or self.location


def find_cache(named: str) -> Place:
    """Find a reply cache (the stored replies of models) by its name in the command line, and return its place.

    ``named`` is a run folder, a cache folder, a SQLite file, or the location (folder or URL) of a shared cache. Raises
    :class:`CacheCommandError` if there is no cache.

    Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` in two cases:

    - The folder ``cache`` of a run folder, or the folder ``segments`` of a shared cache, is a link.
    - The files of a cache are not safe (:func:`groundtrace.inference.cache.replies.check_files`). For example, one of
      them is a link.

    There is one exception: a folder that the user names may itself be a link.
    """
    if is_remote(named):
        try:
            place(named)
        except StorageError as error:
            raise CacheCommandError(str(error)) from error
        location = (shared_location(named) or named) if named.endswith(".sqlite") else named.rstrip("/")
        for each in (location, f"{location}/cache"):
            if _has_segments(each):
                return Place(location=each)
    path = Path(named)
    folders = [path.parent] if path.suffix == ".sqlite" and not path.is_dir() else [path, path / "cache"]
    for folder in folders:
        file = path if folder == path.parent else folder / "replies.sqlite"
        if folder == path / "cache":
            refuse_links(path, "cache")
        if file.is_file() or (folder / "log").is_dir():
            check_files(file)
            return Place(path=str(file))
        if (folder / "segments").is_dir():
            refuse_links(folder, "segments")
            return Place(location=str(folder.resolve()))
    raise CacheCommandError(f"there is no reply cache at {named}: name a run folder, a cache folder or a cache's file")


def _has_segments(location: str) -> bool:
    return bool(SegmentFiles(location).sizes_bytes()[0])


@contextlib.contextmanager
def opened(place: Place) -> Iterator[ReplyCache]:
    """Open a reply cache (the stored replies of models) for reading, and yield it.

    The cache is closed when the body of the ``with`` statement ends. ``place`` is the place of the cache. A shared
    cache consists of several files; these are first merged into a temporary cache on this machine. If the cache's file
    is not writable, a temporary copy is opened.
    """
    if place.location:
        with gathered(SegmentFiles(place.location)) as (cache, _, _):
            yield cache
        return
    with contextlib.ExitStack() as stack:
        cache = ReplyCache(stack.enter_context(_writable(Path(place.path))))
        stack.callback(cache.close)
        yield cache


@contextlib.contextmanager
def _writable(file: Path) -> Iterator[str]:
    """Yield the path of a cache's SQLite file, or the path of a temporary copy if the cache is not writable.

    Opening a cache imports replies from its log files into the SQLite file. So the SQLite file must be writable. The
    cache's folder, its lock and its folder of log files must be writable, too.
    """
    log, lock = file.parent / "log", file.parent / ".cache.lock"
    stores = sorted(file.parent.glob(f"{file.name}*"))
    if all(os.access(path, os.W_OK) for path in (file.parent, log, lock, *stores) if path.exists()):
        yield str(file)
        return
    with tempfile.TemporaryDirectory(prefix="groundtrace-cache-") as folder:
        (Path(folder) / log.name).mkdir()
        for held in (*stores, *logs(log)):
            refuse_special(held)
            shutil.copy(held, Path(folder) / held.relative_to(file.parent))
        for copied in Path(folder).rglob("*"):
            copied.chmod(0o700)
        yield str(Path(folder) / file.name)
