"""Divides an endpoint's limits evenly between the machines that use it through one cache in a store.

The machines have no common file that they could lock. So each process that has work writes an object of its own every
``BEAT_S`` seconds, and lists the objects of the others. The limits are divided by the number of machines in this list.
A machine that joins others waits for ``JOIN_S``, until each of them has listed its object. A machine that could not
list the objects for ``JOIN_S`` (it is slow, or its connection to the store is) has no part of the limits until it can
list them again. The ages of objects are measured by the store's clock, and not by the clocks of the machines.
"""

import json
import logging
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Final

from filelock import FileLock

from groundtrace.storage.files import write_atomically
from groundtrace.storage.remote_path import RemotePath

BEAT_S: Final = 5.0
LEASE_S: Final = 30.0
"""A machine that has not written its object for so long counts as lost, and the others divide its part."""
JOIN_S: Final = 3 * BEAT_S
"""How long a list of objects is valid. A machine that joins others waits for the same time: then each of the others has
a new list, or no part of the limits."""
TURN_S: Final = 60.0
"""How long the remainder of a division stays with the same machines."""
FORGOTTEN_S: Final = 3600.0
"""The age at which the object of a lost process is deleted."""
_log = logging.getLogger(__name__)


class Machines:
    """The machines that have objects in ``folder``; the local folder ``here`` identifies this machine.

    A thread writes and lists objects as long as :meth:`used` is called repeatedly. All methods are thread-safe.
    """

    def __init__(self, folder: RemotePath, here: Path) -> None:
        self._folder, self._here = folder, here
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._used_s = self._seen_s = float("-inf")
        self._joined_s: float | None = None
        self._count, self._rank, self._turns = 1, 0, [0]

    def used(self) -> None:
        """Record that this process has work. This must be called at least every ``LEASE_S`` seconds."""
        self._used_s = time.monotonic()
        with self._lock:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._work, name="machines", daemon=True)
                self._thread.start()

    @property
    def count(self) -> int:
        """The number of machines that divide the limits."""
        return self._count

    def part(self, most: int) -> int:
        """Return this machine's part of the limit ``most``; 0 while the machine has not joined yet, or if its list of
        objects is too old.
        """
        now_s = time.monotonic()
        if self._joined_s is None or now_s < self._joined_s or now_s > self._seen_s + JOIN_S:
            return 0
        return min((most + (self._rank + turn) % self._count) // self._count for turn in self._turns)

    def close(self) -> None:
        """Delete this process's object. If no other process of this machine has work, the other machines divide its
        part.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        machine = _machine_of(self._here)
        mine = self._folder / f"{machine}.{uuid.uuid4().hex}.json"
        content = json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode()
        while not self._ended.is_set() and time.monotonic() < self._used_s + LEASE_S:
            try:
                self._beat(machine, mine, content)
            except Exception as error:  # any error of the store: without a listing this machine soon has no part
                _log.warning("the machines at %s cannot be listed, trying again: %s", self._folder, error)
            self._ended.wait(BEAT_S)
        with self._lock:
            self._thread, self._joined_s = None, None
        try:
            mine.unlink()
        except Exception as error:  # any error of the store: for the others the object expires after LEASE_S
            _log.warning("%s could not be deleted: %s", mine, error)

    def _beat(self, machine: str, mine: RemotePath, content: bytes) -> None:
        began_s = time.monotonic()
        mine.write_bytes(content)
        written_s = time.monotonic()
        found = {path: stat.st_mtime for path, stat in self._folder.listed().items() if stat is not None}
        store_s = found[mine]
        live = sorted({path.name.partition(".")[0] for path, at_s in found.items() if at_s >= store_s - LEASE_S})
        self._count, self._rank = len(live), live.index(machine)
        # While others may still be in the turn before, a machine gets a remainder only if it has one in both turns.
        self._turns = sorted({int(at_s // TURN_S) for at_s in (store_s - JOIN_S, store_s)})
        if self._joined_s is None or began_s > self._seen_s + LEASE_S:
            self._joined_s = written_s + JOIN_S if len(live) > 1 else began_s
        self._seen_s = began_s
        for path in (path for path, at_s in found.items() if at_s < store_s - FORGOTTEN_S):
            path.unlink()


def _machine_of(folder: Path) -> str:
    """Return the name of the machine whose processes share ``folder``. The first process chooses a random name."""
    file = folder / "machine"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".machine.lock"):
        if not file.exists():
            write_atomically(file, uuid.uuid4().hex)
        return file.read_text("utf-8").strip()
