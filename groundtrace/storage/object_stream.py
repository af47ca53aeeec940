"""Reads an object of a store as a Python stream, so that libraries such as pyarrow can read it like a file."""

import io
import os
from collections.abc import Callable
from typing import Any


class ObjectStream(io.RawIOBase):
    """Reads the bytes of an object in a store as an unbuffered Python stream.

    Each read requests as many bytes as fit into the caller's buffer. ``url`` is the object's URL, for messages.
    ``size`` is the object's size in bytes. ``read`` is a function that returns the object's bytes from a start offset
    (included) to an end offset (not included). The stream has the attribute ``name``, like an open file; its value is
    the URL.
    """

    def __init__(self, url: str, size: int, read: Callable[[int, int], bytes]) -> None:
        self.name, self._size, self._read, self._at = url, size, read, 0

    def readable(self) -> bool:
        """Return True, because the stream can be read."""
        return True

    def seekable(self) -> bool:
        """Return True, because the stream can seek."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the offset of the next read, and return it. An offset before the start of the object becomes 0.

        ``whence`` is the position from which ``offset`` counts, as in ``io.IOBase.seek``.
        """
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        """Return the offset of the next read, in bytes from the start of the object."""
        return self._at

    def readall(self) -> bytes:
        """Return the bytes from the current offset to the end of the object; empty if the offset is at the end."""
        data = self._read(self._at, self._size) if self._at < self._size else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Read bytes into the buffer, and return how many were read; 0 means the end of the object.

        Raises OSError if the object became shorter while it was read.
        """
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        data = self._read(self._at, end)
        if not data:
            raise OSError(
                f"{self.name} became shorter while it was read: wait until no process writes it, and read it again"
            )
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
