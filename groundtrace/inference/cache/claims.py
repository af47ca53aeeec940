"""Claims in the reply cache: a process claims the keys that it requests, so that no other process requests them too.

A claim ends when the reply arrives, when the request fails, or ``CLAIM_S`` seconds after its last renewal. Claims of
killed processes are deleted when a process opens a cache that no other process has open. All processes of one cache
are on one machine and share its clock.
"""

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterable

CLAIM_S = 15.0
RENEW_S = 5.0
"""The interval at which a process has to renew its claims."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, until_s REAL NOT NULL) WITHOUT ROWID
"""


class ClaimTable:
    """The claims of one process in the database ``db`` of its cache. The process may claim a key several times."""

    def __init__(self) -> None:
        self._owner = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._held = Counter[str]()

    def are_free(self, db: sqlite3.Connection, keys: Collection[str]) -> bool:
        """Whether no other process has a claim on any of the keys."""
        if not keys:
            return True
        now_s = time.time()  # a claim that ends beyond CLAIM_S was made before the clock was set back
        others = f"key IN ({','.join('?' * len(keys))}) AND owner != ? AND until_s > ? AND until_s <= ?"
        values = (*keys, self._owner, now_s, now_s + CLAIM_S)
        return db.execute(f"SELECT 1 FROM claims WHERE {others} LIMIT 1", values).fetchone() is None

    def make(self, db: sqlite3.Connection, keys: Collection[str]) -> None:
        """Claim the keys. This must be called in the transaction in which :meth:`are_free` found them free."""
        rows = [(key, self._owner, time.time() + CLAIM_S) for key in keys]
        db.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", rows)

    def made(self, keys: Iterable[str]) -> None:
        """Record that this process claims the keys. Call this after the transaction of :meth:`make` was committed."""
        self._held.update(keys)

    def end(self, db: sqlite3.Connection, keys: Iterable[str]) -> list[str]:
        """Delete the claims on the keys that this process claims only once. Returns these keys; pass them to
        :meth:`ended` after the transaction was committed.
        """
        last = [key for key in keys if self._held[key] == 1] if self._held else []
        db.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", [(key, self._owner) for key in last])
        return last

    def held(self, keys: Iterable[str]) -> list[str]:
        """Return the keys, among the given ones, that this process claims."""
        return [key for key in keys if key in self._held]

    def ended(self, keys: Iterable[str]) -> None:
        """Record that one claim on each of the keys has ended. This process must have a claim on all of the keys."""
        for key in keys:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]

    def renew(self, db: sqlite3.Connection) -> None:
        """Extend all claims of this process by ``CLAIM_S``."""
        db.execute("UPDATE claims SET until_s = ? WHERE owner = ?", (time.time() + CLAIM_S, self._owner))

    def drop(self, db: sqlite3.Connection) -> None:
        """Delete all claims of this process."""
        if self._held:
            db.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
            self._held.clear()


def forget(db: sqlite3.Connection) -> None:
    """Delete the claims of all processes. Call this only if no other process has the cache open."""
    db.execute("DELETE FROM claims")
