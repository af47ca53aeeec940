"""Writes the replies that arrive at about the same time into the reply cache in one database transaction."""

import asyncio
from collections.abc import Iterable

from groundtrace.inference.cache.replies import CachedReply, CacheEntry, ReplyCache


class BatchedPuts:
    """Writes replies into the reply cache ``cache``. All replies that arrive in one iteration of the event loop are
    written in one database transaction. A separate transaction for each reply would take four times as long.
    """

    def __init__(self, cache: ReplyCache) -> None:
        self._cache = cache
        self._waiting: list[tuple[list[CacheEntry], asyncio.Future[dict[str, CachedReply]]]] = []

    async def put(self, entries: Iterable[CacheEntry]) -> dict[str, CachedReply]:
        """Store replies in the cache, in one transaction with the other replies that arrive in this iteration of the
        event loop.

        ``entries`` holds each reply with its cache key. Returns the replies that the cache then holds for these keys,
        by key. A returned reply can differ from the given one, because another process may already have stored a reply
        for the same key. Raises ValueError if an entry is not valid, for example if its key is not a text.

        If the calling task is cancelled while it waits, its replies are still stored.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._put)
        stored: asyncio.Future[dict[str, CachedReply]] = loop.create_future()
        self._waiting.append((list(entries), stored))
        return await stored

    def _put(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            kept = self._cache.put(entry for entries, _ in waiting for entry in entries)
        except Exception as error:
            if len(waiting) > 1:  # each entry is tried alone, so that one invalid entry does not prevent the others
                for each in waiting:
                    self._waiting = [each]
                    self._put()
            elif not waiting[0][1].done():
                waiting[0][1].set_exception(error)
            return
        for entries, stored in waiting:
            if not stored.done():  # else the caller was cancelled
                stored.set_result({entry.key: kept[entry.key] for entry in entries})
