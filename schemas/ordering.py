"""Order and draws that depend on ids alone, so that no runner, worker count or input order can change a result."""

import hashlib


def unit_hash(text: str, seed: int, purpose: str) -> float:
    """A number in [0, 1) fixed by the text, the run's seed and the purpose of the draw."""
    return int.from_bytes(_digest(text, seed, purpose)[:8], "big") / 2**64


def order_key(text: str) -> str:
    """A hash to sort by, the same in every run."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(text: str, seed: int, purpose: str) -> bytes:
    return hashlib.sha256(f"{seed}\x00{purpose}\x00{text}".encode("utf-8", "surrogatepass")).digest()
