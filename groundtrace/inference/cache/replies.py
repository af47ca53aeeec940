"""Stores the replies of models in a cache on a local disk. A reply is written to the disk before it is used, and is not
lost if a file is damaged.

``replies.sqlite`` is the database. The folder ``log/``, in the same folder, holds a second copy of every reply, in one
file for each process. Each reply is written to the log first, and then to the database. Several processes on one
machine may use one cache. Each cache needs its own folder.

If a file is damaged or a process is killed, the following happens:

- A damaged or truncated database is renamed, and a new one is built from the log.
- A reply that only the log holds is imported when the cache is opened again. This is needed if the process died between
  the two writes, or if the write-ahead log that SQLite itself keeps for the database was truncated.
- If a file in ``log/`` is truncated, no reply is lost as long as the database is undamaged.
- A killed process loses at most the replies that had not arrived.

A truncated reply (``finish_reason`` "length") is cached with its token budget (``max_tokens``). So it is used again
only for requests with at most this budget.
"""

import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from groundtrace.inference.cache import index as reply_index
from groundtrace.inference.cache.cached_reply import CachedReply
from groundtrace.inference.cache.foreign_files import check_journal
from groundtrace.inference.cache.index import Damaged
from groundtrace.inference.cache.locks import lock_alone, locked
from groundtrace.inference.cache.log import (
    CacheEntry,
    LogEntry,
    LogWriter,
    encode_body,
    encode_line,
    read_log,
    stamp,
    write_log,
)
from groundtrace.schemas.safe_files import UnsafeFile, opened_for_writing, refuse_links, refuse_special

__all__ = ["CacheEntry", "CacheInUse", "CachedReply", "LogEntry", "ReplyCache", "check_files"]

MEMORY = ":memory:"
KEYS_PER_QUERY = 500
LOCK, REBUILD_LOCK = ".cache.lock", ".rebuild.lock"

_log = logging.getLogger(__name__)
T = TypeVar("T")


class CacheInUse(Exception):
    """Raised if a process needs the cache for itself alone, but another process has the cache open."""


class ReplyCache:
    """Stores replies by key. Several threads and processes may use one cache at the same time.

    ``path`` is the SQLite file, or ":memory:" for a cache without files. If ``exclusive`` is True, only this process
    can use the cache. The constructor then raises :class:`CacheInUse` if another process has the cache open. A process
    that opens the cache later waits until this process has closed it.

    Log files hold a second copy of each reply, one reply per line. They are in the folder ``log/``, which is in the
    same folder as the SQLite file. ``damaged_lines`` is the number of damaged lines that this object has found so far
    while it imported replies from the log files.

    The constructor raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if a file or folder of the cache is not
    safe to use, for example if a file is a link, a pipe or a device (:func:`check_files`).
    """

    def __init__(self, path: str, exclusive: bool = False) -> None:
        self.damaged_lines = 0
        self._path = None if path == MEMORY else Path(path)
        self._lock = threading.RLock()
        self._newest_s = 0.0
        self._inode = 0
        self._db: sqlite3.Connection | None = None
        if self._path is None:
            self._db = reply_index.open_index(MEMORY, None, check=False)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.log_folder = self._path.parent / "log"
        self._writer = LogWriter(self.log_folder)
        check_files(self._path)
        self._held = opened_for_writing(self._path.parent, LOCK)
        try:
            alone = lock_alone(self._held.fileno())
            if not alone:
                _share(self._held, self._path, exclusive)
            self._open(self._path, check=alone)
            if alone and not exclusive:
                fcntl.flock(self._held, fcntl.LOCK_SH)
            self.take_in()
        except BaseException:
            ReplyCache.close(self)
            raise

    def get(self, keys: Iterable[str]) -> dict[str, CachedReply]:
        """Return the cached replies for ``keys``, by key. Keys without a reply are missing in the result. The result
        includes truncated replies; :meth:`CachedReply.serves` returns whether such a reply can be used.
        """
        wanted, found = list(keys), dict[str, CachedReply]()
        for first in range(0, len(wanted), KEYS_PER_QUERY):
            some = wanted[first : first + KEYS_PER_QUERY]
            found |= self._use(lambda db, some=some: _kept(db, some))
        return found

    def put(self, entries: Iterable[CacheEntry]) -> dict[str, CachedReply]:
        """Store replies in the log and the database, so that they are not lost if the process is killed. ``entries``
        holds each reply with its cache key. Returns the replies that the cache then holds for these keys, by key.

        If another process has already stored a complete reply for a key, the cache keeps that earlier reply, and the
        result has it. So all processes use the same reply. A truncated reply in the cache is replaced by a complete
        reply, or by one that was requested with a larger token budget.

        Raises ValueError if an entry is not valid, for example if its key is not a text or a token count is not an
        integer. In this case no entry is stored.
        """
        entries = list(entries)
        with self._lock:
            if entries and self._write(entries) == len(entries):  # no key kept another reply
                return {entry.key: CachedReply.of(entry) for entry in entries}
            return self.get(dict.fromkeys(entry.key for entry in entries))

    def _write(self, entries: list[CacheEntry]) -> int:
        """Store ``entries`` in the cache, and return how many of them were stored. An entry is not stored if the cache
        keeps an earlier reply for the same key.
        """
        bodies = [encode_body(entry.completion) for entry in entries]
        try:
            return self._use(lambda db: self._insert(db, entries, bodies))
        except BaseException:
            # These lines are not in the database; the next stored offset of this log would skip them.
            if self._path is not None:
                self._writer.abandon()
            raise

    def _insert(self, db: sqlite3.Connection, entries: list[CacheEntry], bodies: list[str]) -> int:
        """Write the entries to the log, and insert them into the database ``db``. ``bodies`` holds the reply of each
        entry as JSON text. Returns how many entries were stored. Each entry gets the current time. The clock is read
        within the transaction, so that the times of all entries are in the order of insertion.
        """
        with reply_index.transaction(db):
            self._newest_s = max(time.time(), self._newest_s)
            logged = [LogEntry(entry, self._newest_s) for entry in entries]
            rows = [reply_index.row_of(each, body) for each, body in zip(logged, bodies, strict=True)]
            if self._path is None:
                return reply_index.insert(db, rows, None, 0)
            self._writer.append(b"".join(encode_line(each, body) for each, body in zip(logged, bodies, strict=True)))
            return reply_index.insert(db, rows, self._writer.name, self._writer.size_bytes)

    def take_in(self) -> None:
        """Import the replies that are in the log files, but not in the database yet. They are imported in batches, and
        other threads can use the cache between two batches. A cache in memory has no logs, so the method then does
        nothing.
        """
        if self._path is None:
            return
        for log, start_bytes in self._use(lambda db: reply_index.untaken(db, self.log_folder)):
            with contextlib.suppress(FileNotFoundError):  # another process has pruned it
                for batch in read_log(log, start_bytes):
                    self._use(lambda db, batch=batch, log=log: reply_index.take_in(db, log, batch))
                    self.damaged_lines += batch.damaged

    def count(self) -> int:
        """Return the number of cached replies."""
        return self._use(lambda db: db.execute("SELECT count(*) FROM replies").fetchone()[0])

    def entries(self) -> Iterator[LogEntry]:
        """Yield all replies in the order of their keys, each with its key and the time at which it was stored.
        The result may also have replies that are stored while the generator runs.
        """
        after: str | None = None
        while True:
            page = self._use(lambda db, after=after: list(reply_index.all_entries(db, after, KEYS_PER_QUERY)))
            yield from page
            if len(page) < KEYS_PER_QUERY:
                return
            after = page[-1].entry.key

    def rewrite(self, keep: Callable[[LogEntry], bool]) -> int:
        """Delete replies from the database and from the logs. ``keep`` is called for each reply: a reply for which it
        returns False is deleted. Returns the number of deleted replies.

        The cache must have been opened with ``exclusive=True``. If the process is killed during this method, some of
        the replies may not be deleted, but no other reply is lost.
        """
        doomed = [logged.entry.key for logged in self.entries() if not keep(logged)]
        with self._lock:
            self._writer.abandon()
            old = reply_index.logs(self.log_folder)
            self.log_folder.mkdir(parents=True, exist_ok=True)
            log = self.log_folder / f"{stamp()}-{os.getpid()}-{os.urandom(16).hex()}.jsonl"
            size_bytes = write_log(log, (logged for logged in self.entries() if keep(logged)))
            for path in old:
                path.unlink()
            self._use(lambda db: reply_index.replace_logs(db, doomed, log.name, size_bytes))
        return len(doomed)

    @property
    def is_closed(self) -> bool:
        """Return whether the cache's files are closed."""
        return self._db is None

    def close(self) -> None:
        """Close the files. All replies are already on disk. A second call does nothing."""
        with self._lock:
            if self._db is not None:
                if self._path is not None:
                    # SQLite does so itself, unless a run beside this one is reading the database meanwhile. Then
                    # readers that do not use the write-ahead log (e.g. `beam view`) would miss its replies.
                    with contextlib.suppress(sqlite3.Error):  # the replies stay in the write-ahead log
                        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._db.close()
                self._db = None
            if self._path is not None and not self._held.closed:
                self._writer.abandon()
                self._held.close()

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call ``work`` with the open database, and return its result. If ``work`` fails because the database is
        damaged, the database is rebuilt, and ``work`` is called again."""
        with self._lock:
            if self._db is None:
                raise ValueError("the reply cache was closed before this call: open the cache again")
            if self._path is None:
                return work(self._db)
            if _inode(self._path) != self._inode:  # another process has rebuilt the database
                self._writer.abandon()
                self._open(self._path, check=False)
            try:
                with reply_index.reporting_damage():
                    return work(self._db)
            except Damaged as damage:
                self._recover(self._path, damage)
            with reply_index.reporting_damage():
                return work(self._db)

    def _open(self, path: Path, check: bool) -> None:
        for again in (False, True):
            if self._db is not None:
                self._db.close()
                self._db = None
            try:
                with locked(path.parent / REBUILD_LOCK, fcntl.LOCK_SH):
                    self._inode = _inode(path)
                    self._db = reply_index.open_index(str(path), self.log_folder, check)
                    self._inode = _inode(path)
            except Damaged as damage:
                if again:
                    raise
                self._rebuild(path, damage)
            else:
                return

    def _recover(self, path: Path, damage: Damaged) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        self._rebuild(path, damage)
        self._open(path, check=False)

    def _rebuild(self, path: Path, damage: Damaged) -> None:
        """Rebuild the database, unless another process has already rebuilt it. ``damage`` is the error that reported
        the damage; its message is logged.
        """
        with locked(path.parent / REBUILD_LOCK, fcntl.LOCK_EX):
            if _inode(path) != self._inode:
                return
            count = reply_index.rebuild(path, self.log_folder)
        _log.warning(
            "the reply cache %s was damaged (%s); rebuilt with %d replies from its log, the damaged file is kept as %s",
            path, damage, count, f"{path.name}.damaged",
        )  # fmt: skip


def check_files(path: Path) -> None:
    """Raise :class:`groundtrace.schemas.safe_files.UnsafeFile` if a file or folder that a cache writes is a link, a
    pipe or a device.

    ``path`` is the cache's SQLite file. Through a link, which another person may have made, the cache would change or
    delete files outside of its folder. Only the cache's folder itself may be a link. If a file is a pipe, the cache
    would wait for it forever.

    The error is also raised in two further cases:

    - The cache's two lock files are the same file. The cache would wait forever for a lock that it holds itself.
    - A journal of SQLite names another file, which SQLite would delete
      (:func:`groundtrace.inference.cache.foreign_files.check_journal`).
    """
    databases = (path.name, "coordination/peers.sqlite")
    files = [f"{name}{suffix}" for name in databases for suffix in ("", "-wal", "-shm", "-journal")]
    files += [LOCK, REBUILD_LOCK, "coordination/.lock"]
    refuse_links(path.parent, *files, "log")
    for name in files:
        refuse_special(path.parent / name)
    for name in databases:
        check_journal(path.parent / f"{name}-journal")
    locks = path.parent / LOCK, path.parent / REBUILD_LOCK
    if all(each.exists() for each in locks) and locks[0].samefile(locks[1]):
        raise UnsafeFile(f"{locks[0]} and {locks[1]} are the same file, so the cache cannot be locked: remove both")


def _kept(db: sqlite3.Connection, keys: Sequence[str]) -> dict[str, CachedReply]:
    return {each.entry.key: CachedReply.of(each.entry, each.created_s) for each in reply_index.find(db, list(keys))}


def _inode(path: Path) -> int:
    """Return the inode number of ``path``; 0 if the file does not exist."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 (a third of the time of Path.stat, on each call)
    except FileNotFoundError:
        return 0


def _share(handle: BinaryIO, path: Path, exclusive: bool) -> None:
    if exclusive:
        raise CacheInUse(f"another process has the reply cache {path} open: wait until that process has ended")
    fcntl.flock(handle, fcntl.LOCK_SH)
