"""Replies to put into a cache, and what it has of them."""

from collections.abc import Iterable

from groundtrace.inference.cache.replies import CacheEntry, ReplyCache
from groundtrace.inference.request import Completion

OLD = """CREATE TABLE replies (
    key TEXT PRIMARY KEY, role TEXT NOT NULL, prompt TEXT NOT NULL, model TEXT NOT NULL,
    max_tokens INTEGER NOT NULL, created_s REAL NOT NULL, body TEXT NOT NULL) WITHOUT ROWID"""
"""The table of a cache from before replies were logged."""


def entry(key: str, text: str = "text", finish: str = "stop", max_tokens: int = 100) -> CacheEntry:
    return CacheEntry(key, "policy", "p.v1", "m", max_tokens, Completion(text, f"why {key}", finish))


def found(cache: ReplyCache, keys: Iterable[str]) -> dict[str, Completion]:
    return {key: kept.completion for key, kept in cache.get(keys).items()}
