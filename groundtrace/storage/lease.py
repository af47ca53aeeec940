"""Locks a folder in an object store, so that only one process writes to it.

For a local folder, use :func:`groundtrace.storage.files.locked` instead.

A lease is a lock that expires. It is an object ``.lease/<number>.json`` in the folder. The process that holds the lease
rewrites this object every :data:`RENEW_S` seconds. The lease with the highest number is the valid one. To get
a new lease, a process creates an object with the next number. The store must refuse this request if the object exists
already. So only one of several competing processes succeeds. A store that overwrites the existing object instead cannot
be used (StorageError). The lease of a killed process expires :data:`LASTS_S` seconds after its last renewal.

The clocks of two machines may differ, so the expiry time of a lease cannot be trusted completely. Before a process
takes over a lease that seems to be expired, it watches the lease for one and a half times :data:`RENEW_S` seconds. It
takes the lease over only if the lease is not renewed during this time. If the process that lost its lease calls
:meth:`Lease.check`, the method raises :class:`Lost`.
"""

import contextlib
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

from groundtrace.schemas.errors import UserError
from groundtrace.storage.errors import StorageError
from groundtrace.storage.remote_path import RemotePath

FOLDER: Final = ".lease"
LASTS_S: Final = 60.0
RENEW_S: Final = 10.0
_log = logging.getLogger(__name__)


class Held(UserError):
    """Raised if a process cannot get the lease (the lock on a folder in a store), because another process holds it."""


class Lost(UserError):
    """Raised if this process no longer holds its lease (the lock on a folder in a store).

    Another process may then write to the folder.
    """


class Lease:
    """Holds a lease (a lock that expires) of this process on a folder in a store. Use :func:`leased` to get one.

    The constructor acquires the lease. ``lasts_s`` is the number of seconds after which the lease expires without a
    renewal. A background thread renews the lease every ``renew_s`` seconds. The constructor raises :class:`Held` if
    another process holds the lease, and StorageError if the store allows two processes to create the same object.
    """

    def __init__(self, folder: RemotePath, lasts_s: float, renew_s: float) -> None:
        self._folder, self._lasts_s, self._renew_s = folder, lasts_s, renew_s
        self._me = {"holder": uuid.uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}
        self._ended = threading.Event()
        self._is_lost = False
        self._number = self._take()
        self._signed_s = time.monotonic()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Check that this process still holds the lease (a lock that expires).

        Raises :class:`Lost` if another process may hold the lease. Each call sends a request to the store.
        """
        if self._newest() != self._number:
            self._is_lost = True
        if self._is_lost or time.monotonic() - self._signed_s > self._lasts_s:
            raise Lost(
                f"this process was suspended or did not reach the store for {self._lasts_s:g} s, so it has lost its "
                f"lock on {self._folder}, and another process may now write there: run the same command again"
            )

    def release(self) -> None:
        """Release the lease (a lock that expires): stop its renewal, and mark it in the store as released.

        If this process has already lost the lease to another process, the store is not changed.
        """
        self._ended.set()
        self._thread.join()
        if not self._is_lost:
            self._object(self._number).write_bytes(self._text(until_s=0.0))

    def _take(self) -> int:
        newest = self._newest()
        if newest:
            self._refuse_living(newest)
        if not self._object(newest + 1).create(self._text()):
            raise self._held({})
        if self._object(newest + 1).create(self._text(until_s=0.0)):
            raise StorageError(
                f"{self._folder}: the store overwrites an existing object despite the header If-None-Match, so two "
                "processes could write at once: choose an --output on a disk or in another store"
            )
        for number in range(max(1, newest - 1), newest + 1):
            self._object(number).unlink(missing_ok=True)
        return newest + 1

    def _refuse_living(self, number: int) -> None:
        """Raise :class:`Held` if another process still holds the lease with this number.

        A released lease is not held. A lease is held if its expiry time is in the future, at most ``lasts_s`` seconds
        from now. In all other cases, the expiry time is not enough to decide: it has passed, is missing, or is too far
        in the future, for example because the clocks of two machines differ. Then this method watches the lease for one
        and a half times ``renew_s`` seconds. The lease counts as held if, during this time, its object changes
        or a lease with a higher number appears.
        """
        holder = self._read(number)
        until_s = holder.get("until_s")
        if until_s == 0.0:  # it was released
            return
        # An expiry time more than lasts_s from now comes from a fast clock: it does not show that the holder is alive.
        if isinstance(until_s, float) and 0 < until_s - time.time() <= self._lasts_s:
            raise self._held(holder)
        time.sleep(self._renew_s * 1.5)
        if self._read(number) != holder or self._newest() != number:
            raise self._held(holder)

    def _held(self, holder: dict[str, Any]) -> Held:
        who = f" (process {holder.get('pid')} on {holder.get('host')})" if holder else ""
        return Held(
            f"another process{who} is writing {self._folder}: wait until it ends, or choose another --output; "
            f"the lease of a process that died expires after {self._lasts_s:g} s"
        )

    def _renew(self) -> None:
        while not self._ended.wait(self._renew_s):
            began_s = time.monotonic()
            try:
                if self._newest() != self._number:
                    self._is_lost = True
                    return
                self._object(self._number).write_bytes(self._text())
                self._signed_s = began_s
            except Exception as error:  # the store is away: the next try may succeed; check() watches the time
                _log.warning("this process could not renew its lease on %s (%s): trying again", self._folder, error)

    def _newest(self) -> int:
        """Return the number of the newest lease (a lock that expires) in the folder; 0 if the folder has no lease.

        Leases are numbered from 1 upwards, so the newest lease has the highest number.
        """
        names = (path.name.removesuffix(".json") for path in (self._folder / FOLDER).iterdir())
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _object(self, number: int) -> RemotePath:
        return self._folder / FOLDER / f"{number}.json"

    def _read(self, number: int) -> dict[str, Any]:
        try:
            found = json.loads(self._object(number).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _text(self, until_s: float | None = None) -> bytes:
        return json.dumps(self._me | {"until_s": time.time() + self._lasts_s if until_s is None else until_s}).encode()


@contextlib.contextmanager
def leased(folder: RemotePath, lasts_s: float = LASTS_S, renew_s: float = RENEW_S) -> Iterator[Lease]:
    """Hold the lease (a lock that expires) on a folder in a store while the body of the ``with`` runs.

    No other process can get the lease during this time. ``lasts_s`` is the number of seconds after which the lease
    expires if it is not renewed. It is renewed every ``renew_s`` seconds. Yields the :class:`Lease`, whose method
    ``check`` shows whether the lease is still held. Raises :class:`Held` if another process holds the lease, and
    StorageError if the store allows two processes to create the same object.
    """
    lease = Lease(folder, lasts_s, renew_s)
    try:
        yield lease
    finally:
        lease.release()
