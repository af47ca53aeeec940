"""Keeps the data of a run's shuffles in files on this machine (the spool), so that only references cross the shuffles.

When data cross a shuffle, Beam's runner on one machine keeps every copy of them in memory until the run ends. Inside a
``with spooling(…)`` block, coders write the data to files of a folder, and give the runner only a reference of 29
bytes. The reference (called slip in the code) holds file, offset and length. Every process appends to its own file and
reads the files of all processes. This module removes no files. The code that created the folder removes it with all its
files. Runners that use several machines have no spool.
"""

import contextlib
import os
import struct
import threading
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

_SLIP = struct.Struct(">16sQI")
_HERE, _SPOOLED = b"\0", b"\1"
SPILLED_BYTES = 1 + _SLIP.size
"""The number of bytes that :func:`spill` returns for data that it writes to the spool."""
_FOLDER: ContextVar[str] = ContextVar("spool_folder", default="")


@contextlib.contextmanager
def spooling(folder: str) -> Iterator[None]:
    """Let all pipelines that are built and run in the ``with`` block write the data of their shuffles to files in
    ``folder``.

    The folder must exist. If ``folder`` is "", the pipelines keep the data in memory.
    """
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)
        spool = _OPEN.pop((os.getpid(), folder), None)
        if spool is not None:
            spool.close()


def spool_folder() -> str:
    """Return the folder of the spool, i.e. of the files that hold the data of shuffles. It is the folder of the
    innermost ``with spooling(…)`` block that is active. The result is "" if there is no such block, or if its folder is
    "".
    """
    return _FOLDER.get()


def spill(data: bytes, folder: str) -> bytes:
    """Write data to the spool (files on this machine), and return a short reference to it.

    The reference has 29 bytes, and goes through Beam's shuffle in place of the data.

    ``folder`` is the folder of the spool. If it is "", or if the data is short, the returned bytes contain the data
    itself. :func:`read_spilled` reads both forms. Raises OSError if the file of the spool cannot be written.
    """
    if not folder or len(data) <= 2 * _SLIP.size:
        return _HERE + data
    return _SPOOLED + _open(folder).put(data)


def read_spilled(crossed: bytes, folder: str) -> bytes:
    """Return the data that the caller gave to :func:`spill`.

    ``crossed`` is the result of :func:`spill`, which has crossed a shuffle of Beam: a reference to the data, or the
    data itself. ``folder`` is the folder of the spool (files on this machine). Raises ValueError if ``crossed`` is not
    a result of :func:`spill`, or if the file of the spool is too short. Raises OSError if the file of the spool cannot
    be read.
    """
    kind, rest = crossed[:1], crossed[1:]
    if kind == _HERE:
        return rest
    if kind != _SPOOLED or len(rest) != _SLIP.size or not folder:
        raise ValueError(
            f"a record that passed between two steps cannot be read, because its first bytes are unexpected "
            f"({crossed[:32]!r}): start the run again"
        )
    return _open(folder).get(rest)


class _Spool:
    """Holds the open files of one process in a spool, i.e. in a folder for the data that cross Beam's shuffles.

    The process appends to one of these files, and reads from any of them. ``folder`` is the folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._name = uuid.uuid4()
        self._end = 0
        self._lock = threading.Lock()
        self._files: dict[bytes, int] = {}

    def put(self, data: bytes) -> bytes:
        with self._lock:
            file, start = self._file(self._name.bytes), self._end
            self._end += len(data)
        _write_all(file, data, start)
        return _SLIP.pack(self._name.bytes, start, len(data))

    def get(self, slip: bytes) -> bytes:
        name, start, length = _SLIP.unpack(slip)
        with self._lock:
            file = self._file(name)
        data = os.pread(file, length, start)
        if len(data) != length:
            raise ValueError(
                f"the spool file {self._folder / uuid.UUID(bytes=name).hex} has fewer than {start + length} bytes, so "
                "it is damaged: start the run again"
            )
        return data

    def close(self) -> None:
        """Close all files of the spool (data of Beam's shuffles on the disk) that this process has opened."""
        with self._lock:
            while self._files:
                os.close(self._files.popitem()[1])

    def _file(self, name: bytes) -> int:
        if name not in self._files:
            flags = os.O_RDWR | os.O_CREAT if name == self._name.bytes else os.O_RDONLY
            self._files[name] = os.open(self._folder / uuid.UUID(bytes=name).hex, flags | os.O_CLOEXEC, 0o600)
        return self._files[name]


_OPEN: dict[tuple[int, str], _Spool] = {}
_OPENING = threading.Lock()


def _open(folder: str) -> _Spool:
    """Return the object with which this process writes and reads the files of the spool in ``folder``.

    The spool is a set of files on the disk, which hold the data that cross Beam's shuffles. A forked process gets its
    own object, because it must not write to the file of its parent process.
    """
    key = os.getpid(), folder
    if found := _OPEN.get(key):  # without the lock, for which threads would wait at each record
        return found
    with _OPENING:
        if key not in _OPEN:
            _OPEN[key] = _Spool(folder)
        return _OPEN[key]


def _write_all(file: int, data: bytes, start: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, start)
        view, start = view[written:], start + written
