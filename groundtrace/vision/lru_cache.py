"""Implements a bounded LRU cache for values that are slow to compute from an image, such as pixels and features."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def _one(_: object) -> int:
    return 1


class LruCache(Generic[T]):
    """Caches values by key, up to a maximum total size. The least recently used value is removed first.

    ``size_of`` returns the size of a value, and ``limit`` is the maximum sum of the sizes. By default each value has
    the size 1, so that ``limit`` is the maximum number of values. A value larger than ``limit`` is not cached. The
    cache is thread-safe.
    """

    def __init__(self, limit: int, size_of: Callable[[T], int] = _one) -> None:
        self._limit, self._size_of = limit, size_of
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._size = 0

    def of(self, key: str, compute: Callable[[], T]) -> T:
        """Return the cached value of ``key``. If there is none, call ``compute``, cache its result and return it.

        Several threads may compute a missing value at the same time. All of them get the value that is cached first.
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
