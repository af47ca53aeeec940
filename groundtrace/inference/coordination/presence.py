"""Shows other processes that this process is running, and lets them wake this process.

Each process has a named pipe (FIFO) and keeps its reading end open. The kernel closes this end when the process ends,
also after ``kill -9``. So if a pipe has no reader, its process has ended. Other processes wake a process by writing a
byte into its pipe. So the processes need neither regular messages nor a clock. A suspended process (SIGSTOP) is also
treated as running. If a pipe was deleted, its process creates it again.
"""

import contextlib
import errno
import os
import selectors
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

CHECK_S: Final = 10.0
"""The interval, in seconds, at which a process without peers checks that its own named pipe still exists.

Peers are other running processes with which a process shares limits and budgets. A process that starts later treats a
process without a pipe as ended. So if its pipe was deleted, the process creates the pipe again.
"""
_WAKE, _END = b".", b"!"
_presences: "weakref.WeakSet[Presence]" = weakref.WeakSet()


class Presence:
    """Shows that this process is running, by a named pipe at ``path``. A thread waits for bytes in the pipe. Each time
    another process writes a byte, the thread calls the function ``woken``.

    ``interval_s`` is a function that returns the longest time of one wait in seconds, or None. If no byte arrives
    within this time, the thread calls ``woken`` too. If the function returns None, a wait without a byte ends after
    ``CHECK_S`` seconds, and the thread does not call ``woken``.

    After each wait, the thread checks whether the pipe still exists. If the pipe was deleted, other processes treat
    this process as ended. So the thread creates the pipe again and calls ``woken``. The constructor raises OSError if
    the folder cannot hold a pipe.
    """

    def __init__(self, path: Path, woken: Callable[[], None], interval_s: Callable[[], float | None]) -> None:
        self._path, self._woken, self._interval_s = path, woken, interval_s
        self._lock, self._is_closed = threading.Lock(), False
        self._pipe = _made(path)
        _presences.add(self)
        self._thread = threading.Thread(target=self._listen, name="coordination", daemon=True)
        self._thread.start()

    def close(self, wait: bool = True) -> None:
        """Remove the pipe and end the thread. If ``wait`` is True, the method returns only after the thread has
        ended.
        """
        with self._lock:
            self._is_closed = True
            self._path.unlink(missing_ok=True)
            os.write(self._pipe, _END)
        if wait:
            self._thread.join()

    def drop(self) -> None:
        """Close this process's descriptor of its named pipe. The method is called in two cases:

        - The thread that waits for bytes in the pipe ends.
        - This process was forked, so it has a copy of its parent's open pipe. If the copy stayed open, the parent would
          seem to be running even after it has ended.
        """
        _presences.discard(self)
        os.close(self._pipe)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while True:
                interval_s = self._interval_s()
                ready = selector.select(CHECK_S if interval_s is None else interval_s)
                if ready and _END in os.read(self._pipe, 4096):
                    break
                if self._made_anew(selector) or ready or interval_s is not None:
                    self._woken()
        self.drop()

    def _made_anew(self, selector: selectors.BaseSelector) -> bool:
        """Create the pipe of this process again if it was deleted. Returns whether a new pipe was created. If so,
        ``selector``, with which the thread waits for bytes, gets the new pipe in place of the old one.
        """
        with self._lock, contextlib.suppress(OSError):  # the folder may be gone too
            if not self._is_closed and not self._path.exists():
                pipe, self._pipe = self._pipe, _made(self._path)
                selector.unregister(pipe)
                os.close(pipe)
                selector.register(self._pipe, selectors.EVENT_READ)
                return True
        return False


def _made(path: Path) -> int:
    """Create the named pipe ``path``, open it, and return its file descriptor."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def lives(path: Path, wake: bool = False) -> bool:
    """Return whether the process that owns the named pipe at ``path`` is running. If ``wake`` is True, the process is
    also woken.
    """
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        if wake:
            with contextlib.suppress(BlockingIOError):  # the pipe is full of unread bytes
                os.write(pipe, _WAKE)
    except BrokenPipeError:
        return False
    finally:
        os.close(pipe)
    return True


def _drop_all() -> None:
    for presence in list(_presences):
        presence.drop()


os.register_at_fork(after_in_child=_drop_all)
