"""Order and draws that depend on ids or places alone: no runner, worker count or input order changes a result."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def unit_hash(text: str, seed: int, purpose: str) -> float:
    """A number in [0, 1) fixed by the text, the run's seed and the purpose of the draw."""
    return int.from_bytes(_digest(text, seed, purpose)[:8], "big") / 2**64


def order_key(text: str) -> str:
    """A hash to sort by, the same in every run."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(text: str, seed: int, purpose: str) -> bytes:
    return hashlib.sha256(f"{seed}\x00{purpose}\x00{text}".encode("utf-8", "surrogatepass")).digest()


def thinned(items: Sequence[T], most: int) -> tuple[T, ...]:
    """At most ``most`` of the items (at least 1), evenly spread, in order; the first and the last from two on, of one
    the middle.
    """
    if len(items) <= most:
        return tuple(items)
    if most == 1:
        return (items[len(items) // 2],)
    return tuple(items[round(place * (len(items) - 1) / (most - 1))] for place in range(most))
