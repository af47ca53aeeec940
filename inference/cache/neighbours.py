"""Reply caches of other runs: what they have need not be paid for again."""

import logging
import sqlite3
from collections.abc import Iterable, Sequence

from inference.cache.replies import CacheInUse, Kept, ReplyCache

_log = logging.getLogger(__name__)


class Neighbours:
    """The caches at ``paths``, from which replies are only read. One that cannot be opened is left out: a warning."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._caches: list[ReplyCache] = []
        for path in paths:
            try:
                self._caches.append(ReplyCache(path))
            except (CacheInUse, OSError, sqlite3.Error) as error:
                _log.warning("the replies in %s are not used: %s", path, error)

    def get(self, keys: Iterable[str]) -> dict[str, Kept]:
        """What any of them has of the keys; the first that has one counts."""
        found, missing = dict[str, Kept](), set(keys)
        for cache in self._caches:
            if missing:
                found |= cache.get(missing)
                missing -= found.keys()
        return found

    def close(self) -> None:
        """Close the files."""
        for cache in self._caches:
            cache.close()
