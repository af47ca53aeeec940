"""Reads the reply cache of another run, which other processes may use meanwhile. No file is changed or locked."""

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from groundtrace.inference.cache.cached_reply import CachedReply
from groundtrace.inference.cache.foreign_files import check_journal
from groundtrace.inference.cache.index import Damaged, logs
from groundtrace.inference.cache.stored import StoredReplies
from groundtrace.schemas.safe_files import own_file, refuse_special

_State = tuple[bool, bool, int, int, int]
"""Whether the cache is in use, whether it has the file ``-shm``, and the inode, the size in bytes and the time of the
last change of its database. Size and time are 0 for a cache in use, since SQLite itself then notices changes.
"""


class LiveReplies:
    """Looks up replies in the cache with the SQLite file ``path``, which is ``cache/replies.sqlite`` in a run folder.

    If a process uses the cache, or was killed while it used the cache, new replies are in SQLite's write-ahead log (the
    file ``-wal``), which must be read, too. Otherwise there is no such file, and SQLite must not create one. So each
    look-up first checks the state of the files, and opens the database again if the state has changed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: _State | None = None
        self._replies: StoredReplies | None = None

    def get(self, keys: Iterable[str]) -> dict[str, CachedReply]:
        """Return the stored replies of these keys, by key. The result is {} if the cache was deleted.

        Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if a file of the cache is a pipe, or a link out of the
        run folder. Raises :class:`groundtrace.inference.cache.index.Damaged` if the cache is damaged or lacks a file.
        Raises OSError or sqlite3.Error if the cache cannot be read for another reason.
        """
        wanted, state = list(keys), self._state_now()
        try:
            return self._get(wanted, state)
        except (Damaged, OSError, sqlite3.Error):
            if (changed := self._state_now()) == state:
                raise
            return self._get(wanted, changed)  # another process opened, closed or rebuilt the cache meanwhile

    def close(self) -> None:
        """Close the files."""
        if self._replies is not None:
            self._replies.close()
        self._replies = self._state = None

    def _get(self, keys: list[str], state: _State | None) -> dict[str, CachedReply]:
        if state is None:
            self.close()
            return {}
        if state != self._state or self._replies is None:
            self.close()
            self._check_files(state)
            self._replies, self._state = StoredReplies(self._path, in_use=state[0]), state
        return self._replies.get(keys)

    def _check_files(self, state: _State) -> None:
        """Raise UnsafeFile or Damaged if SQLite must not open the files of the cache, which have this ``state``."""
        folder = self._path.parent
        for suffix in ("", "-wal", "-shm", "-journal"):
            refuse_special(own_file(folder.parent, f"{folder.name}/{self._path.name}{suffix}"))
        check_journal(Path(f"{self._path}-journal"))
        in_use, has_shm, inode, *_ = state
        if not inode:
            raise Damaged(f"{self._path.name} is missing, and the folder log holds replies")
        if in_use and not has_shm:
            raise Damaged(f"{self._path.name}-shm is missing, which SQLite needs to read {self._path.name}-wal")

    def _state_now(self) -> _State | None:
        """Return the present state of the cache's files; None if the cache was deleted.

        If only the log of the cache is left, the inode in the result is 0.
        """
        found = _stat(str(self._path))
        if found is None:
            return (False, False, 0, 0, 0) if logs(self._path.parent / "log") else None
        wal, has_shm = _stat(f"{self._path}-wal"), _stat(f"{self._path}-shm") is not None
        if wal is not None and wal.st_size:
            return True, has_shm, found.st_ino, 0, 0
        return False, has_shm, found.st_ino, found.st_size, found.st_mtime_ns


def _stat(path: str) -> os.stat_result | None:
    """Return the status of a file; None if it does not exist."""
    try:
        return os.stat(path)  # noqa: PTH116 (a third of the time of Path.stat, on each call)
    except FileNotFoundError:
        return None
