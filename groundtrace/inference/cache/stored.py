"""Reads a reply cache (the stored replies of models). No file of the cache is created or changed."""

import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from groundtrace.inference.cache.foreign_files import check_schema
from groundtrace.inference.cache.index import Damaged, find, reporting_damage
from groundtrace.inference.cache.log import MAX_LINE_BYTES, LogEntry
from groundtrace.inference.cache.replies import KEYS_PER_QUERY, CachedReply
from groundtrace.schemas.safe_files import refuse_links

READ_S = 10.0
"""The maximum time of one look-up, in seconds. The limit is needed because the file may come from another person, and
may hold data that take long to read.
"""
BUSY_S = 1.0
"""The maximum time, in seconds, to wait for another process that has locked the database."""
_STEPS = 1000
"""SQLite checks the time limit :data:`READ_S` each time its virtual machine has executed this number of steps."""


class StoredReplies:
    """Looks up replies in the cache with the SQLite file ``path``.

    If ``in_use`` is False, no process may change the cache meanwhile. Replies that are only in SQLite's write-ahead log
    are then not found. If ``in_use`` is True, other processes may add replies, and the write-ahead log is read, too.
    The files ``-wal`` and ``-shm`` beside the database must then exist, and are opened for reading only.

    The constructor raises FileNotFoundError if the file does not exist. It raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file is a link, or if the database contains anything
    besides the tables of a cache. The constructor and the methods raise
    :class:`groundtrace.inference.cache.index.Damaged` if the database or a reply is damaged, or if a look-up takes
    longer than :data:`READ_S`. They raise sqlite3.Error if the file cannot be read for another reason.
    """

    def __init__(self, path: Path, in_use: bool = False) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist")
        uri = f"file:{quote(os.fsencode(path))}?{'mode=ro&readonly_shm=1' if in_use else 'immutable=1'}"
        refuse_links(path.parent, path.name)
        self._ends_s = time.monotonic() + READ_S
        self._db = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=BUSY_S)
        try:
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE_BYTES)
            self._db.set_progress_handler(lambda: time.monotonic() > self._ends_s, _STEPS)
            with reporting_damage():
                check_schema(self._db, str(path))
        except BaseException:
            self._db.close()
            raise

    def entries(self, keys: Iterable[str]) -> list[LogEntry]:
        """Return the stored entries (replies with their keys and times) of these keys, in no particular order. A key
        without a stored reply has no entry in the result.
        """
        wanted = list(keys)
        self._ends_s = time.monotonic() + READ_S
        parts = (wanted[first : first + KEYS_PER_QUERY] for first in range(0, len(wanted), KEYS_PER_QUERY))
        try:
            return [entry for part in parts for entry in find(self._db, part)]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            raise Damaged(f"the look-up took longer than {READ_S:.0f} s") from error

    def get(self, keys: Iterable[str]) -> dict[str, CachedReply]:
        """Return the stored replies of these keys, by key. Keys without a stored reply are missing in the result."""
        return {each.entry.key: CachedReply.of(each.entry, each.created_s) for each in self.entries(keys)}

    def close(self) -> None:
        """Close the file."""
        self._db.close()
