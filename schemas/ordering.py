"""Sorts and samples items by their ids or positions only. So the results depend neither on the Beam runner nor on the
number of workers.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def unit_hash(text: str, seed: int, purpose: str) -> float:
    """Return a pseudo-random number in [0, 1), for a random decision about one item. Equal arguments always give the
    same number.

    ``text`` identifies the item, e.g. by its id. ``seed`` is the seed of the run. ``purpose`` is a name for the
    decision, such as "split", so that different decisions get independent numbers.
    """
    return int.from_bytes(_digest(text, seed, purpose)[:8], "big") / 2**64


def order_key(text: str) -> str:
    """Return a hash of ``text`` as 64 hexadecimal digits. Sorting items by this hash gives a random order, which is the
    same in every run.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(text: str, seed: int, purpose: str) -> bytes:
    return hashlib.sha256(f"{seed}\x00{purpose}\x00{text}".encode("utf-8", "surrogatepass")).digest()


def thinned(items: Sequence[T], max_items: int) -> tuple[T, ...]:
    """Return at most ``max_items`` of the ``items``, evenly spread and in order. ``max_items`` is at least 1.

    If there are no more than ``max_items`` items, all are returned. If two or more items are chosen, the first and the
    last item are among them. A single chosen item is the middle item.
    """
    if len(items) <= max_items:
        return tuple(items)
    if max_items == 1:
        return (items[len(items) // 2],)
    return tuple(items[round(place * (len(items) - 1) / (max_items - 1))] for place in range(max_items))
