"""Defines what a lookup in a reply cache (the stored replies of models) returns for each found key."""

from dataclasses import dataclass, field

from groundtrace.inference.cache.log import CacheEntry
from groundtrace.inference.request import Completion


@dataclass(frozen=True)
class CachedReply:
    """Holds a cached reply. ``completion`` is the reply, and ``max_tokens`` is the token budget with which it was
    requested.

    One request may return several replies. ``tokens_in`` and ``tokens_out`` are this reply's share of the request's
    input and output tokens. ``created_s`` is the Unix time in seconds at which the cache stored the reply. It is 0 if
    the reply has just been stored. The comparison of two objects with ``==`` ignores this time.
    """

    completion: Completion
    max_tokens: int
    tokens_in: int = 0
    tokens_out: int = 0
    created_s: float = field(default=0.0, compare=False)

    @classmethod
    def of(cls, entry: CacheEntry, created_s: float = 0.0) -> "CachedReply":
        """Return the reply of ``entry``, a cache entry. ``created_s`` is the Unix time in seconds at which the cache
        stored this reply. It is 0 if the reply has just been stored.
        """
        return cls(entry.completion, entry.max_tokens, entry.tokens_in, entry.tokens_out, created_s)

    def serves(self, max_tokens: int) -> bool:
        """Return whether the reply can be used for a request whose token budget is ``max_tokens``. This is the case if
        the reply is complete, or if it was requested with at least this budget. So a reply that was truncated at 512
        tokens cannot be used for a budget of 1024 tokens.
        """
        return not self.completion.is_truncated or self.max_tokens >= max_tokens
