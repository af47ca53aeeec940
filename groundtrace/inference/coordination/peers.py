"""Coordinates the processes of one machine through one SQLite file, ``coordination/peers.sqlite`` in the cache's
folder. The other processes are called the peers of a process.

The shared state consists of claims (requests that one process sends for all), slots of endpoints (one for each
concurrent request), the times at which an endpoint's limits per minute permit the next request, and budgets of runs. A
process that is alone has this state in memory, so that coordination takes no time. A second process registers in the
file and wakes the first process. The second process sends no request until the first process has written its state into
the file. From then on all changes are transactions in the file. The last remaining process reads the state back into
memory.

A process registers with its first request. Processes immediately detect whether another process is still running
(:mod:`groundtrace.inference.coordination.presence`). If a process has ended, its row is deleted, and with it the claims
and slots that the process held. Its budget reservations are then added to the spending, since the servers may charge
for its requests.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from groundtrace.inference.cache.index import transaction
from groundtrace.inference.cache.locks import locked_now
from groundtrace.inference.coordination.peers_file import REMEDY, open_file, stopped_by
from groundtrace.inference.coordination.presence import Presence, lives
from groundtrace.inference.errors import RunStopped

LOOK_S: Final = 1.0
"""The interval, in seconds, at which a process that has peers checks whether they are still running."""
WARN_LOOKS: Final = 10
"""The number of checks after which a warning names a process that makes no progress. Such a process is suspended or
hangs.
"""
LOST_LOOKS: Final = 60
"""The number of checks after which a process that makes no progress is treated as lost until it responds. Otherwise a
run would wait for it forever. The unit is checks, not seconds, so that the time in which the checking process itself
was suspended is not included.
"""
MAX_GAP_S: Final = 5.0
"""The longest pause, in seconds, between two attempts of a waiting process to lock the file ``.lock``.

A longer pause means that the waiting process was suspended. Its time of waiting for the lock is then measured anew,
from the end of this pause.
"""

_log = logging.getLogger(__name__)


class Part(Protocol):
    """Defines the interface of one kind of shared state, such as what a run has spent of its budget. The state is in
    memory while this process is alone, else in the file that the processes of this machine share.

    :class:`Peers` calls ``publish`` and ``withdraw`` inside a database transaction, while ``Peers.lock`` is held.
    """

    def publish(self, db: sqlite3.Connection) -> None:
        """Write this process's state into the shared file ``db``.

        A peer is another process of this machine that shares the state. The method is called in these cases:

        - This process was alone, and now has a peer.
        - :meth:`Peers.add` adds this object while the process has peers.
        - This process ends and has no peers. Its state is then only in memory, but later processes need a part of it,
          e.g. the time at which an endpoint's limits per minute permit the next request.
        - Peers have deleted the state of this process from the file.
        """
        ...

    def withdraw(self, db: sqlite3.Connection) -> None:
        """Read the state from the shared file ``db`` into memory, and remove this process's own entries from this file.
        The method is called when this process has no peers (other processes of this machine that share the state).
        """
        ...

    def changed(self) -> None:
        """Adapt this process after :meth:`publish` or :meth:`withdraw` has moved the state. For example, the process
        changes how many concurrent requests it sends to an endpoint, because it now shares the endpoint's limit with
        other processes. Any thread may call this method.
        """
        ...


class Peers:
    """Connects this process with its peers: the other processes of this machine that use the same ``folder``. Peers
    share the limits of endpoints, the budgets of runs, and replies to the same request. A file in this folder holds the
    shared state: how much of the limits and budgets each process uses, and which requests each process sends. If
    ``folder`` is None, this process never has peers.

    ``has_peers`` is True while the process has peers. The state of this process is then in the shared file, otherwise
    in memory. ``had_peers`` is True if the process has ever had peers. Both attributes change only while ``lock`` is
    held. ``me`` is the name of this process in the file.
    """

    def __init__(self, folder: Path | None) -> None:
        self.lock = threading.RLock()
        self.has_peers = self.had_peers = False
        self.me = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._folder = folder
        self._parts: list[Part] = []
        self._db: sqlite3.Connection | None = None
        self._presence: Presence | None = None
        self._may_send = folder is None
        self._seen: dict[str, tuple[int, int]] = {}
        self._counted_s = float("-inf")
        self._refused_s: tuple[float, float] | None = None
        self._has_warned = False

    @property
    def has_joined(self) -> bool:
        """Return whether this process has registered in the file that the processes of this machine share. Other
        processes can find only registered processes. The result is also True if this process has no folder for this
        file, e.g. because its cache is in memory: such a process never has to register.
        """
        return self._folder is None or self._db is not None

    def add(self, part: Part) -> None:
        """Add ``part``, which holds one kind of state, such as what a run has spent of its budget.

        From now on, :class:`Peers` calls the methods of ``part`` that move this state. The state goes from memory to
        the shared file when other processes start, and back to memory when these processes have ended.
        """
        with self.lock:
            self._parts.append(part)
            if self._db is not None:
                with transaction(self._db) as db:
                    (part.publish if self.has_peers else part.withdraw)(db)

    def join(self) -> bool:
        """Register this process at the first call. Returns True if the process may send requests.

        The result is False while a peer (another process of this machine) has not written its state into the shared
        file yet, and while another process registers. Call the method again soon in this case. Raises
        :class:`groundtrace.inference.errors.RunStopped` if the folder cannot be used.
        """
        if self._may_send:
            return True
        with self.lock:
            try:
                if self._db is None and not self._register():
                    self._wait_for_lock()
                    return False
                self._may_send = not (self.has_peers and self._wake_silent())
            except (OSError, sqlite3.Error) as error:
                raise stopped_by(error, self._folder) from error
            return self._may_send

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the body of the ``with`` statement in a transaction on the shared file, and yield the open file. The
        caller must hold ``lock`` and must have called :meth:`join`.

        If a statement of the body violates a constraint of the database, its sqlite3.IntegrityError is passed on.
        Raises :class:`groundtrace.inference.errors.RunStopped` if the file cannot be used.
        """
        assert self._db is not None, "a process that has joined has the file open"
        try:
            with transaction(self._db) as db:
                if self.has_peers and self._enter(db, True):
                    self._publish_again(db)
                yield db
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise stopped_by(error, self._folder) from error

    def close(self) -> None:
        """Deregister this process, and remove its claims (requests that other processes wait for) and its slots (its
        permits for concurrent requests). Afterwards the process shares nothing with other processes, even if it sends
        requests again. An error is logged as a warning.
        """
        with self.lock:
            db, self._db, presence, self._presence = self._db, None, self._presence, None
            self._may_send = True
            if db is not None:
                try:
                    with transaction(db):
                        self._enter(db, self.has_peers)  # another process may have deleted the row
                        for part in () if self.has_peers else self._parts:
                            part.publish(db)
                        db.execute("DELETE FROM processes WHERE id = ?", (self.me,))
                        left = [name for name, _ in self._living(db)]
                    for name in left:
                        lives(self._pipe(name), wake=True)
                except (OSError, sqlite3.Error) as error:  # nothing that was paid for is lost
                    _log.warning(
                        "cannot store the request rates in %s, so the next command starts anew: %s", self._folder, error
                    )
                finally:
                    db.close()
                    self.has_peers = False
        if presence is not None:
            presence.close()

    def _register(self) -> bool:
        """Register this process; returns False if another process registers at this moment."""
        assert self._folder is not None
        with locked_now(self._folder / ".lock") as lock:
            if lock is None:
                return False
            lock.truncate(0)
            lock.write(str(os.getpid()))  # for the warning of a process that waits for the lock
            lock.flush()
            left = [pipe for pipe in self._folder.glob("*.pipe") if not lives(pipe)]
            for pipe in left:
                pipe.unlink()
            is_alone = not any(self._folder.glob("*.pipe"))
            db = open_file(self._folder / "peers.sqlite", is_alone)
            try:
                self._presence = Presence(self._pipe(self.me), self._look, lambda: LOOK_S if self.has_peers else None)
                with transaction(db):
                    has_peers = bool(self._living(db))
                    self._enter(db, has_peers)
                    for part in self._parts:
                        (part.publish if has_peers else part.withdraw)(db)
            except BaseException:
                db.close()
                if self._presence is not None:
                    self._presence.close(wait=False)  # its thread may wait for the lock
                    self._presence = None
                raise
            self.has_peers, self.had_peers, self._db = has_peers, self.had_peers or has_peers, db
            lives(self._pipe(self.me), wake=True)  # from now on its thread checks the peers, if any
            return True

    def _wait_for_lock(self) -> None:
        """Record that this process could not register, because another process holds the lock file ``.lock``. The
        caller tries again later. If the other process holds the lock for about ten seconds, the method logs a warning.
        After about a minute, it raises RunStopped."""
        assert self._folder is not None
        now_s = time.monotonic()
        first_s, last_s = self._refused_s or (now_s, now_s)
        first_s = now_s if now_s - last_s > MAX_GAP_S else first_s
        self._refused_s = first_s, now_s
        if now_s - first_s < WARN_LOOKS * LOOK_S or (self._has_warned and now_s - first_s < LOST_LOOKS * LOOK_S):
            return
        holder = (self._folder / ".lock").read_text("utf-8", "replace").strip()
        cause = REMEDY.format(f"process {holder or 'unknown'} holds the lock {self._folder / '.lock'} and")
        if now_s - first_s >= LOST_LOOKS * LOOK_S:
            raise RunStopped(
                f"no request can be sent, because {cause}. As soon as that process responds or has ended, repeat the "
                "command",
                resumable=True,
            )
        self._has_warned = True
        _log.warning("%s", cause)

    def _wake_silent(self) -> bool:
        """Wake the peers (other processes on this machine) that have not yet written their state, e.g. their claims and
        reservations, into the shared file. Returns whether there are such peers."""
        with self.transaction() as db:
            silent = dict(self._living(db, "AND NOT is_open"))
        for name in silent:
            lives(self._pipe(name), wake=True)
        return bool(silent)

    def _living(self, db: sqlite3.Connection, which: str = "") -> list[tuple[str, int]]:
        """Return the name and the process id of each peer that is running. Deletes the rows of the peers that have
        ended. If ``which`` is not "", only peers that meet this SQL condition are considered."""
        found = db.execute(f"SELECT id, pid FROM processes WHERE id != ? {which}", (self.me,)).fetchall()
        gone = [name for name, _ in found if not lives(self._pipe(name))]
        for name in gone:
            db.execute("DELETE FROM processes WHERE id = ?", (name,))
        return [each for each in found if each[0] not in gone]

    def _enter(self, db: sqlite3.Connection, is_open: bool) -> bool:
        """Insert the row of this process into the table of processes. Returns False if the row already exists.

        ``is_open`` is True if the state of this process is in the shared file, and False if it is only in memory.
        """
        row = self.me, os.getpid(), is_open
        return db.execute("INSERT OR IGNORE INTO processes VALUES (?, ?, ?, 0)", row).rowcount > 0

    def _publish_again(self, db: sqlite3.Connection) -> None:
        """Write the state of this process into the shared file again. The other processes had deleted it, because this
        process did not respond for a long time. This process may send requests again when all other processes have
        written their state too (:meth:`join`)."""
        self._may_send = False
        for part in self._parts:
            part.publish(db)

    def _responding(self, db: sqlite3.Connection) -> bool:
        """Return whether any peer is running and responds. Deletes the rows of the peers that have ended or do not
        respond."""
        living = dict(self._living(db))
        if (now_s := time.monotonic()) < self._counted_s + LOOK_S / 2:  # woken between two checks
            return bool(living)
        self._counted_s, before, self._seen = now_s, self._seen, {}
        for name, looks in db.execute("SELECT id, looks FROM processes WHERE id != ?", (self.me,)).fetchall():
            seen, unchanged = before.get(name, (looks, 0))
            self._seen[name] = looks, unchanged + 1 if seen == looks else 0
            if self._seen[name][1] == WARN_LOOKS:
                _log.warning(
                    "process %d, which uses the same reply cache, does not respond: continue it (kill -CONT %d) or end "
                    "it; others wait a minute for its requests, and then send them again",
                    *(living[name], living[name]),
                )
            if self._seen[name][1] >= LOST_LOOKS:
                db.execute("DELETE FROM processes WHERE id = ?", (name,))
                del living[name]
        return bool(living)

    def _look(self) -> None:
        """Check which peers (other processes on this machine) are running, and move the state of this process if
        necessary.

        The state is, for example, which requests this process sends. If this process had no peer at the last check and
        has one now, the state is written into the shared file, where the peer can read it. If the last peer has ended,
        the state is read back into memory.
        """
        try:
            with self.lock:
                if self._db is None:
                    return
                with transaction(self._db) as db:
                    has_peers = self._responding(db)
                    was_lost, is_changed = self._enter(db, has_peers), has_peers != self.has_peers
                    if was_lost and has_peers:
                        self._publish_again(db)
                    elif is_changed:
                        for part in self._parts:
                            (part.publish if has_peers else part.withdraw)(db)
                    alive = "UPDATE processes SET is_open = ?, looks = looks + 1 WHERE id = ?"
                    db.execute(alive, (has_peers, self.me))
                self.has_peers, self.had_peers = has_peers, self.had_peers or has_peers
                if was_lost and has_peers:
                    self._wake_silent()
            for part in list(self._parts) if was_lost or is_changed else ():
                part.changed()
        except Exception as error:  # such as a full disk: the peers wait, and wake this process again
            _log.warning("cannot update %s, so other processes wait for this one: %s", self._folder, error)

    def _pipe(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{name}.pipe"
