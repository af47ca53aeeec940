"""Reads the reply caches of other runs. If another run already has the reply to a request, the request is not sent
again.
"""

import logging
import sqlite3
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from groundtrace.inference.cache.cached_reply import CachedReply
from groundtrace.inference.cache.index import Damaged
from groundtrace.inference.cache.live import LiveReplies
from groundtrace.inference.cache.stored import StoredReplies
from groundtrace.inference.request import Completion, fresh_key
from groundtrace.inference.settings import Neighbour
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.schemas.text import printable

_log = logging.getLogger(__name__)
MAX_FAILURES = 100
"""The number of failed look-ups after which a cache is no longer searched. Each of them can take milliseconds."""


class Neighbours:
    """Opens the reply caches of other runs (the neighbours), and looks up replies in them. The caches are only read: no
    file is created, changed or locked. ``neighbours`` holds the file and the name of each cache, in the order in which
    they are searched.

    If ``unchanged`` is False, other processes can use the caches at the same time. A cache is opened when the first
    reply is searched in it. A cache that cannot be read is skipped with a warning, and one that was deleted without a
    warning.

    If ``unchanged`` is True, the constructor opens all caches. The caller must make sure that no other process changes
    the caches at the same time. A cache that cannot be read raises an error.
    """

    def __init__(self, neighbours: Sequence[Neighbour], unchanged: bool = False) -> None:
        self._caches: list[tuple[Neighbour, LiveReplies | StoredReplies]] = []
        self._unopened = deque[Neighbour]()
        self._failures = Counter[str]()
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
            for key, kept in self._found(neighbour, cache, there).items():
                found[there[key]] = replace(kept, completion=_taken(kept, neighbour.name))
                del missing[there[key]]
            if not missing:
                break
        return found

    def _found(
        self, neighbour: Neighbour, cache: LiveReplies | StoredReplies, keys: Mapping[str, str]
    ) -> dict[str, CachedReply]:
        """Return the replies of these keys in the cache of a neighbour. If the cache of a running process cannot be
        read, a warning states the reason, once for each cache. The cache is searched again for the next keys, because
        the cause may pass: for example, another process rebuilds the cache. The cache is not opened again if a file is
        unsafe or is no database, and after :data:`MAX_FAILURES` failures.
        """
        if isinstance(cache, StoredReplies):
            return cache.get(keys)
        try:
            return cache.get(keys)
        except (Damaged, UnsafeFile, OSError, sqlite3.Error) as error:
            self._failures[neighbour.cache_path] += 1
            if self._failures[neighbour.cache_path] == 1:
                run = Path(neighbour.cache_path).parent.parent
                _log.warning(
                    "replies of the run %s are not used, because its cache cannot be read (%s): if this cache is "
                    "damaged or incomplete, `beam cache stats` with this folder repairs it",
                    printable(str(run)), printable(str(error)),
                )  # fmt: skip
            is_broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
            if is_broken or isinstance(error, UnsafeFile) or self._failures[neighbour.cache_path] == MAX_FAILURES:
                self._caches.remove((neighbour, cache))
            cache.close()
            return {}

    def _opened(self) -> Iterator[tuple[Neighbour, LiveReplies | StoredReplies]]:
        """Yield the caches, each with its neighbour. A cache that was not open is opened before it is yielded."""
        yield from tuple(self._caches)
        while self._unopened:
            each = self._unopened.popleft()
            self._caches.append((each, LiveReplies(Path(each.cache_path))))
            yield self._caches[-1]

    def close(self) -> None:
        """Close the files of the other runs' caches."""
        for _, cache in self._caches:
            cache.close()


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
