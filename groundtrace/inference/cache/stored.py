"""Reads a reply cache (the stored replies of models) while no process changes it. No file is created or changed."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from urllib.request import pathname2url

from groundtrace.inference.cache.index import find
from groundtrace.inference.cache.log import LogEntry
from groundtrace.inference.cache.replies import KEYS_PER_QUERY, CachedReply


class StoredReplies:
    """Looks up replies in the cache with the SQLite file ``path``.

    The constructor raises FileNotFoundError if the file does not exist. The methods raise
    :class:`groundtrace.inference.cache.index.Damaged` if the database or a reply is damaged. They raise sqlite3.Error
    if the file cannot be read for another reason.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist")
        uri = f"file:{pathname2url(str(path))}?immutable=1"
        self._db = sqlite3.connect(uri, uri=True, check_same_thread=False)

    def entries(self, keys: Iterable[str]) -> list[LogEntry]:
        """Return the stored entries (replies with their keys and times) of these keys, in no particular order."""
        wanted = list(keys)
        parts = (wanted[first : first + KEYS_PER_QUERY] for first in range(0, len(wanted), KEYS_PER_QUERY))
        return [entry for part in parts for entry in find(self._db, part)]

    def get(self, keys: Iterable[str]) -> dict[str, CachedReply]:
        """Return the stored replies of these keys, by key."""
        return {each.entry.key: CachedReply.of(each.entry, each.created_s) for each in self.entries(keys)}

    def close(self) -> None:
        """Close the file."""
        self._db.close()
