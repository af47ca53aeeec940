"""Reads the reply caches of other runs. If another run already has the reply to a request, the request is not sent
again.
"""

import logging
import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
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
    caches. ``neighbours`` holds the file and the name of each cache, in the order in which they are searched.

    If ``unchanged`` is False, other processes can use the caches at the same time. A cache is opened when the first
    reply is searched in it. If necessary, files are created in the folder of a cache, and the cache is repaired. A
    cache that cannot be opened is skipped with a warning, and one that was deleted without a warning.

    If ``unchanged`` is True, all caches are opened at once, and no file is created or changed. The caller must make
    sure that no other process changes the caches at the same time. A cache that cannot be read raises an error.
    """

    def __init__(self, neighbours: Sequence[Neighbour], unchanged: bool = False) -> None:
        self._caches: list[tuple[Neighbour, ReplyCache | StoredReplies]] = []
        self._unopened = deque[Neighbour]()
        if unchanged:
            self._caches += [(each, StoredReplies(Path(each.cache_path))) for each in neighbours]
        else:
            self._unopened.extend(neighbours)

    def get(self, keys: Mapping[str, str]) -> dict[str, CachedReply]:
        """Look up replies in the caches of other runs. Returns the found replies, by their key in this run's cache.

        A reply can have different keys in the caches of two runs. The normal key of a reply
        (:func:`groundtrace.inference.request.cache_key`) is the same in all runs. A run stores the reply under this
        key, unless the settings of the run forbid replies older than a given time. In that case, the run stores the
        reply under a hash of the normal key and this time (:func:`groundtrace.inference.request.fresh_key`).

        ``keys`` has an entry for each wanted reply: it maps the reply's key in this run's cache to the reply's normal
        key. For each other run, the method computes the key in that run's cache from the normal key and the settings of
        that run.

        If several caches hold a reply, the first of these caches is used. ``taken_from`` of a returned reply is the
        name of the other run whose cache held the reply, and ``made_s`` is the time at which the reply was first
        stored.
        """
        found, missing = dict[str, CachedReply](), dict(keys)
        for neighbour, cache in self._opened():
            there = {fresh_key(key, neighbour.fresh_since): name for name, key in missing.items()}
            for key, kept in cache.get(there).items():
                found[there[key]] = replace(kept, completion=_taken(kept, neighbour.name))
                del missing[there[key]]
            if not missing:
                break
        return found

    def _opened(self) -> Iterator[tuple[Neighbour, ReplyCache | StoredReplies]]:
        """Yield the caches that can be read, each with its neighbour. A cache that was not open is opened before it is
        yielded.
        """
        yield from self._caches
        while self._unopened:
            each = self._unopened.popleft()
            if (cache := _open(each.cache_path)) is not None:
                self._caches.append((each, cache))
                yield each, cache

    def close(self) -> None:
        """Close the files of the other runs' caches."""
        for _, cache in self._caches:
            cache.close()


def _open(path: str) -> ReplyCache | None:
    """Open the cache with the SQLite file ``path``. Return None if the file does not exist (opening the cache would
    create the deleted run's folder again), or, with a warning, if the cache cannot be opened.
    """
    try:
        return ReplyCache(path) if os.path.lexists(path) else None
    except (CacheInUse, UnsafeFile, OSError, sqlite3.Error) as error:
        _log.warning("the replies of the cache %s cannot be read, so they are not used: %s", path, error)
        return None


def _taken(kept: CachedReply, name: str) -> Completion:
    """Return a copy of the reply in ``kept``, which was found in the cache of the run ``name``. In the copy,
    ``taken_from`` is ``name``, and ``made_s`` is the time at which the reply was first stored in any cache.

    If the run ``name`` requested the reply itself, this time is ``kept.created_s``. If the run ``name`` took the reply
    from the cache of a third run, this time is ``kept.completion.made_s``. E.g. if the third run stored the reply at
    the time 100, and the run ``name`` took it at the time 200, then ``made_s`` is 100.
    """
    copied_before = bool(kept.completion.taken_from)
    made_s = kept.completion.made_s if copied_before else kept.created_s
    return replace(kept.completion, taken_from=name, made_s=made_s)
