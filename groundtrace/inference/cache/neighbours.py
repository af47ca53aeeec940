"""Reads the reply caches of other runs. If another run already has the reply to a request, the request is not sent
again.
"""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from groundtrace.inference.cache.replies import CachedReply, CacheInUse, ReplyCache
from groundtrace.inference.cache.stored import StoredReplies
from groundtrace.inference.request import Completion, fresh_key
from groundtrace.inference.settings import Neighbour
from groundtrace.schemas.safe_files import UnsafeFile

_log = logging.getLogger(__name__)


class Neighbours:
    """Opens the reply caches of other runs (the neighbours), and looks up replies in them. No reply is added to these
    caches. ``neighbours`` holds the file and the name of each cache.

    If ``unchanged`` is False, other processes may use the caches at the same time. Opening a cache may then create
    files in its folder, and may repair the cache. A cache that cannot be opened is skipped with a warning.

    If ``unchanged`` is True, no file is created or changed, and no other process may use the caches at the same time. A
    cache that cannot be read raises an error.
    """

    def __init__(self, neighbours: Sequence[Neighbour], unchanged: bool = False) -> None:
        self._caches: list[tuple[Neighbour, ReplyCache | StoredReplies]] = []
        for each in neighbours:
            if unchanged:
                self._caches.append((each, StoredReplies(Path(each.cache_path))))
                continue
            try:
                self._caches.append((each, ReplyCache(each.cache_path)))
            except (CacheInUse, UnsafeFile, OSError, sqlite3.Error) as error:
                _log.warning(
                    "the replies of the cache %s cannot be read, so they are not used: %s", each.cache_path, error
                )

    def get(self, keys: Mapping[str, str]) -> dict[str, CachedReply]:
        """Look up replies in the caches of other runs. Returns the found replies, by their key in this run's cache.

        ``keys`` has an entry for each wanted reply: it maps the reply's key in this run's cache to the reply's normal
        key (:func:`groundtrace.inference.request.cache_key`). The two keys differ only if the settings of this run
        forbid replies older than a given time. The key in this run's cache is then computed from the normal key and
        this time (:func:`groundtrace.inference.request.fresh_key`). The key in the cache of another run is computed in
        the same way, with the time in the settings of that run.

        If several caches hold a reply, the first of these caches is used. ``taken_from`` of a returned reply is the
        name of the other run whose cache held the reply, and ``made_s`` is the time at which the reply was first
        stored.
        """
        found, missing = dict[str, CachedReply](), dict(keys)
        for neighbour, cache in self._caches:
            if missing:
                there = {fresh_key(key, neighbour.fresh_since): name for name, key in missing.items()}
                for key, kept in cache.get(there).items():
                    found[there[key]] = replace(kept, completion=_taken(kept, neighbour.name))
                    del missing[there[key]]
        return found

    def close(self) -> None:
        """Close the files of the other runs' caches."""
        for _, cache in self._caches:
            cache.close()


def _taken(kept: CachedReply, name: str) -> Completion:
    """Return a copy of the reply in ``kept``. Its ``taken_from`` is ``name``, the run in whose cache the reply was
    found.

    ``made_s`` of the copy is the time at which the reply was first stored in any cache. If the run ``name`` had itself
    copied the reply from another cache, ``kept.completion`` has this time. Otherwise, this time is ``kept.created_s``.
    """
    copied_before = bool(kept.completion.taken_from)
    made_s = kept.completion.made_s if copied_before else kept.created_s
    return replace(kept.completion, taken_from=name, made_s=made_s)
