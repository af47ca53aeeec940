"""Avoids duplicate requests: a process waits if another process has already sent the same request.

A process claims the cache keys of a request before it sends the request. While a key is claimed, no other process may
send a request for it. The process releases its claims after it has put the replies into the cache, or after the request
has failed. A process reads the cache after it has claimed a key. So it finds the reply of another process that had
claimed the key before.
"""

import asyncio
import contextlib
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence

from groundtrace.inference.cache.replies import CachedReply, ReplyCache
from groundtrace.inference.coordination.peers import Peers

FIRST_POLL_S, MAX_POLL_S = 0.02, 0.5
"""The first and the longest interval, in seconds, at which a waiting process checks the claims again."""


class Claims:
    """Holds the cache keys that this process claims for its requests in progress. Other processes do not request these
    keys in the meantime. Several requests of this process may claim the same key.

    ``peers`` are the other processes on this machine, and ``cache`` is the reply cache that they share.
    """

    def __init__(self, peers: Peers, cache: ReplyCache) -> None:
        self._peers, self._cache = peers, cache
        self._held = Counter[str]()
        peers.add(self)

    @contextlib.asynccontextmanager
    async def holding(
        self, keys: Sequence[str], max_tokens: int, had_joined: bool = True
    ) -> AsyncIterator[dict[str, CachedReply]]:
        """Wait until no other process claims the wanted cache keys, and claim the keys that have no usable reply yet.

        ``keys`` are the cache keys of the wanted replies. A claim keeps other processes from requesting the same reply.
        The method yields the usable cached replies, by key. A cached reply is usable if it is complete, or if it was
        requested with at least ``max_tokens`` tokens. While the body of the ``with`` statement runs, this process
        claims all keys without a usable reply. It never claims only some of these keys, so that two processes never
        wait for each other.

        The caller has already looked for the replies in the cache. ``had_joined`` is True if this process was already
        registered in the file of :class:`groundtrace.inference.coordination.peers.Peers` at that time. Other processes
        on this machine (peers) may have cached replies since then. So the method reads the cache again after it has
        claimed the keys, in two cases:

        - ``had_joined`` is False. A process that is not registered does not notice its peers.
        - This process has a peer now, or had one earlier.

        Raises :class:`groundtrace.inference.errors.RunStopped` if the file that the processes share cannot be used.
        """
        wait_s = FIRST_POLL_S
        while (found := self._claimed(keys, max_tokens, had_joined)) is None:
            await asyncio.sleep(wait_s)
            wait_s = min(MAX_POLL_S, 2 * wait_s)
        try:
            yield found
        finally:
            self._release(key for key in keys if key not in found)

    def _claimed(self, keys: Sequence[str], max_tokens: int, had_joined: bool) -> dict[str, CachedReply] | None:
        """Claim the keys that have no usable reply in the cache, and return the usable replies of the other keys.

        While this process claims a key, no other process (a peer) requests the key's reply. A cached reply is usable if
        it is complete, or if it was requested with at least ``max_tokens`` tokens. The result is None, and no key is
        claimed, in two cases:

        - A peer claims one of the keys, and this key has no usable reply yet.
        - This process may not send requests yet: a peer is just registering, or has not written its claims yet.

        The caller has read the cache before this call. ``had_joined`` is True if this process was already registered
        in the file of :class:`groundtrace.inference.coordination.peers.Peers` at that time. A peer may have added
        replies since then if ``had_joined`` is False, or if this process has ever had a peer. In both cases, the cache
        is read again.
        """
        if not self._peers.join():
            return None
        found: dict[str, CachedReply] = {}
        while not self._take(rest := [key for key in keys if key not in found]):
            if not (there := self._replies(rest, max_tokens)):
                return None
            found |= there
        if self._peers.had_peers or not had_joined:  # else no other process can have put a reply since the caller read
            there = self._replies(rest, max_tokens)
            self._release(there)
            found |= there
        return found

    def _replies(self, keys: Sequence[str], max_tokens: int) -> dict[str, CachedReply]:
        return {key: kept for key, kept in self._cache.get(keys).items() if kept.serves(max_tokens)}

    def _take(self, keys: Sequence[str]) -> bool:
        """Claim all keys, unless a peer already claims one of them. Returns whether this process claims them now."""
        with self._peers.lock:
            if self._peers.has_peers and (new := [key for key in keys if key not in self._held]):
                try:
                    with self._peers.transaction() as db:
                        db.executemany("INSERT INTO claims VALUES (?, ?)", [(key, self._peers.me) for key in new])
                except sqlite3.IntegrityError:
                    return False
            self._held.update(keys)
            return True

    def _release(self, keys: Iterable[str]) -> None:
        with self._peers.lock:
            last: list[tuple[str, str]] = []
            for key in keys:
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]
                    last.append((key, self._peers.me))
            if self._peers.has_peers and last:
                with self._peers.transaction() as db:
                    db.executemany("DELETE FROM claims WHERE key = ? AND process = ?", last)

    def publish(self, db: sqlite3.Connection) -> None:
        """Write this process's claims (the cache keys of its requests in progress) into the file that the processes of
        this machine share. The caller is :class:`groundtrace.inference.coordination.peers.Peers`, and ``db`` is the
        open file.
        """
        held = [(key, self._peers.me) for key in self._held]
        db.executemany("INSERT OR IGNORE INTO claims VALUES (?, ?)", held)  # a peer may have a lost process's claims

    def withdraw(self, db: sqlite3.Connection) -> None:
        """Remove this process's claims (the cache keys of its requests in progress) from the file ``db`` that the
        processes share, but keep them in memory. The method is called when no other process uses the file any more.
        """
        db.execute("DELETE FROM claims WHERE process = ?", (self._peers.me,))

    def changed(self) -> None:
        """Do nothing. :class:`groundtrace.inference.coordination.peers.Peers` calls this method after it has moved the
        claims, which are the cache keys of requests in progress.

        Claims move from memory to the shared file when other processes start, and back to memory when these have ended.
        No update is required after such a move. While other processes are running, each later change of a claim is also
        written to the file.
        """
