"""Copies the ledger (the costs of a run folder's runs) between a store (remote storage such as S3) and this machine.

The ledger consists of notes, i.e. files in which workers write the cost of each request, and of the sums of these
costs. The main process writes the sums on this machine. Workers on this machine also write their notes on this machine.
Workers on other machines write their notes into the store (:mod:`groundtrace.inference.flow.note_files`). If a file of
the ledger is deleted on this machine, its copy in the store is deleted, too. If a note of another machine is deleted in
the store, its copy on this machine is deleted.
"""

import contextlib
import threading
from pathlib import Path

from groundtrace.storage.listing import Stat
from groundtrace.storage.mirror import fetch
from groundtrace.storage.remote_path import RemotePath
from groundtrace.storage.uploads import Uploads

LEDGER = "ledger"


class RemoteLedger:
    """Copies the ledger (the costs of a folder's runs) between a store (remote storage such as S3) and this machine.

    ``target`` is the run folder in the store. ``root`` is its working copy on this machine. The ledger is the subfolder
    ``ledger/`` of both.
    """

    def __init__(self, target: RemotePath, root: Path) -> None:
        self._target, self._root = target, root
        self._sent: dict[str, tuple[int, int]] = {}
        self._brought: dict[str, Stat] = {}
        self._lock = threading.Lock()
        self._uploads = Uploads()

    def bring(self) -> None:
        """Download the notes (the costs of requests) that other machines wrote into the store since the last call.

        Raises OSError if the store is unreachable.
        """
        with self._lock:
            there = {str(path.relative_to(self._target)): stat for path, stat in self._there().items()}
            for name, stat in there.items():
                if name not in self._sent and self._brought.get(name) != stat:
                    with contextlib.suppress(FileNotFoundError):  # such as a note that was deleted meanwhile
                        fetch(self._target / name, stat.st_size, self._root / name)
                        self._brought[name] = stat
            for name in self._brought.keys() - there.keys():
                (self._root / name).unlink(missing_ok=True)
                del self._brought[name]

    def send(self) -> None:
        """Upload the files of the ledger (the costs of the folder's runs) that were written on this machine since the
        last call.

        Files that were deleted on this machine are deleted in the store. Raises OSError if the store is unreachable.
        """
        with self._lock:
            here = self._here()
            for name, stamp in here.items():
                if name not in self._brought and self._sent.get(name) != stamp:
                    with contextlib.suppress(FileNotFoundError):
                        (self._target / name).write_bytes((self._root / name).read_bytes())
                        self._sent[name] = stamp
            for name in (self._sent.keys() | self._brought.keys()) - here.keys():
                (self._target / name).unlink(missing_ok=True)
                self._sent.pop(name, None)
                self._brought.pop(name, None)

    def begin(self) -> None:
        """Start a thread that copies the ledger (the costs of the runs) from and to the store every few seconds.

        The class :class:`groundtrace.storage.uploads.Uploads` runs the thread. :meth:`end` stops the thread.
        """
        self._uploads = Uploads()
        self._uploads.add(f"copy the ledger of {self._target}", self._copy)

    def end(self) -> None:
        """Stop the thread that copies the ledger (the costs of the folder's runs). Afterwards the caller must call
        :meth:`send`, which uploads the files that were written last.
        """
        self._uploads.close()

    def _copy(self) -> None:
        self.bring()
        self.send()

    def _here(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for path in sorted((self._root / LEDGER).rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # a note that was deleted since
                if path.is_file() and not path.name.startswith("."):
                    stat = path.stat()
                    found[path.relative_to(self._root).as_posix()] = stat.st_size, stat.st_mtime_ns
        return found

    def _there(self) -> "dict[RemotePath, Stat]":
        return dict((self._target / LEDGER).walked())
