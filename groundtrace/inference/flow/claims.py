"""Deduplicates requests between processes: a process waits if another process has already sent the same request."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from groundtrace.inference.cache.claims import RENEW_S
from groundtrace.inference.cache.replies import CachedReply, ReplyCache
from groundtrace.inference.cache.shared import SegmentStore

FIRST_POLL_S, MAX_POLL_S = 0.02, 0.5
"""The first and the longest interval at which a waiting process reads the cache again."""


class RequestClaims:
    """The cache keys that this process claims for its requests in flight; renews the claims until they end."""

    def __init__(self, cache: ReplyCache | SegmentStore) -> None:
        self._cache = cache
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def holding(self, keys: Sequence[str], max_tokens: int) -> AsyncIterator[dict[str, CachedReply]]:
        """Wait until no other process claims any of the keys. Yields the cached replies that serve ``max_tokens``.

        While the body runs, this process claims the keys without a reply. It claims all of them or none, so that two
        processes never wait for each other. The claim of a killed process expires after
        :data:`groundtrace.inference.cache.claims.CLAIM_S` seconds.
        """
        wait_s = FIRST_POLL_S
        while (found := self._cache.claim(keys, max_tokens)) is None:
            await asyncio.sleep(wait_s)
            wait_s = min(MAX_POLL_S, 2 * wait_s)
        asked_for = [key for key in keys if key not in found]
        self._count(len(asked_for))
        try:
            yield found
        finally:
            self._count(-len(asked_for))
            self._cache.release(asked_for)

    def _count(self, more: int) -> None:
        self._under_way += more
        if self._under_way and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RENEW_S, self._renew)

    def _renew(self) -> None:
        self._timer = None
        if self._under_way:
            self._cache.renew_claims()
            self._count(0)

    def close(self) -> None:
        """Stop renewing claims."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
