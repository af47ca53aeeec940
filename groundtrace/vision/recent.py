"""What was computed last, kept within a bound: pixels, features and what else is costly to have of an image."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def _one(_: object) -> int:
    return 1


class Recent(Generic[T]):
    """Values by key, at most ``limit`` of them; the least recently used goes first. Any number of threads may share it.

    With ``size_of`` the bound is on the sum of the values' sizes instead, and a value larger than all of it is computed
    and not kept.
    """

    def __init__(self, limit: int, size_of: Callable[[T], int] = _one) -> None:
        self._limit, self._size_of = limit, size_of
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._size = 0

    def of(self, key: str, compute: Callable[[], T]) -> T:
        """The value of ``key``, which ``compute`` gives when it is not kept.

        Threads that ask at once for what is not kept may each compute it; all but the first drop theirs, so that they
        share one value.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = compute()
        size = self._size_of(value)
        if size > self._limit:
            return value
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value
                self._size += size
                while self._size > self._limit:
                    _, oldest = self._kept.popitem(last=False)
                    self._size -= self._size_of(oldest)
            return self._kept[key]
