"""The durable reply cache: one SQLite file in write-ahead mode, written before a reply is used.

A process that is killed loses at most the replies that had not arrived: SQLite ignores a torn tail of its log.
Several processes on one machine may use one file. A truncated reply (``finish_reason`` "length") is kept with the
budget that it had, and is looked up as missing when a larger budget is asked for.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from inference.request import Completion

_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, role TEXT NOT NULL, prompt TEXT NOT NULL, model TEXT NOT NULL,
    max_tokens INTEGER NOT NULL, created_s REAL NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID
"""

# A whole reply, and a longer truncated one, is never replaced by one truncated earlier.
_PUT = """
INSERT INTO replies VALUES (?,?,?,?,?,?,?) ON CONFLICT (key) DO UPDATE SET
    role = excluded.role, prompt = excluded.prompt, model = excluded.model,
    max_tokens = excluded.max_tokens, created_s = excluded.created_s, body = excluded.body
WHERE json_extract(excluded.body, '$.finish_reason') != 'length'
   OR (json_extract(body, '$.finish_reason') = 'length' AND excluded.max_tokens > max_tokens)
"""


@dataclass(frozen=True)
class CacheEntry:
    """A reply to keep, with what the cache can be searched by."""

    key: str
    role: str
    prompt: str
    model: str
    max_tokens: int
    completion: Completion


class ReplyCache:
    """Replies by key. Safe to use from several threads and processes."""

    def __init__(self, path: str) -> None:
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(_SCHEMA)

    def get(self, keys: Iterable[str], max_tokens: int) -> dict[str, Completion]:
        """The kept replies among ``keys``. One truncated at a budget below ``max_tokens`` counts as missing."""
        found: dict[str, Completion] = {}
        wanted = list(keys)
        with self._lock:
            marks = ",".join("?" * len(wanted))
            rows = self._db.execute(
                f"SELECT key, max_tokens, body FROM replies WHERE key IN ({marks})", wanted
            ).fetchall()
        for key, budget, body in rows:
            fields = json.loads(body)
            completion = Completion(fields["text"], fields["reasoning"], fields["finish_reason"])
            if completion.finish_reason != "length" or budget >= max_tokens:
                found[key] = completion
        return found

    def put(self, entries: Iterable[CacheEntry]) -> None:
        """Keep the replies; when this returns, a killed process finds them again."""
        rows = [(e.key, e.role, e.prompt, e.model, e.max_tokens, time.time(), _body(e.completion)) for e in entries]
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(_PUT, rows)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def count(self) -> int:
        """How many replies are kept."""
        with self._lock:
            return self._db.execute("SELECT count(*) FROM replies").fetchone()[0]

    def close(self) -> None:
        """Close the file; everything is already on disk."""
        with self._lock:
            self._db.close()


def _body(completion: Completion) -> str:
    fields = {
        "text": completion.text,
        "reasoning": completion.reasoning,
        "finish_reason": completion.finish_reason,
    }
    return json.dumps(fields)  # escaped: a reply may hold a lone surrogate, which UTF-8 cannot
