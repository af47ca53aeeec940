"""Sorts and samples items only by their ids or positions.

So the results depend neither on the runner nor on the number of workers.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def unit_hash(text: str, seed: int, purpose: str) -> float:
    """Return a pseudo-random number in [0, 1), for random decisions about an item.

    The number depends only on ``text`` (such as the item's id), the run's ``seed``, and ``purpose`` (a name for the
    decision, such as "split").
    """
    return int.from_bytes(_digest(text, seed, purpose)[:8], "big") / 2**64


def order_key(text: str) -> str:
    """Return a hash of the text for use as a sort key. The hash is the same in every run."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(text: str, seed: int, purpose: str) -> bytes:
    return hashlib.sha256(f"{seed}\x00{purpose}\x00{text}".encode("utf-8", "surrogatepass")).digest()


def thinned(items: Sequence[T], max_items: int) -> tuple[T, ...]:
    """Return at most ``max_items`` (at least 1) of the items, evenly spread and in order.

    If two or more items are returned, the first and the last item are among them; a single item is the middle item.
    """
    if len(items) <= max_items:
        return tuple(items)
    if max_items == 1:
        return (items[len(items) // 2],)
    return tuple(items[round(place * (len(items) - 1) / (max_items - 1))] for place in range(max_items))
