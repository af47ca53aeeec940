"""Appends the notes of a process to files. A note is a line about an event, such as the tokens that a request used.

The folder of the files may be in a store (object storage such as S3). In this case, a process appends its notes to
temporary files on its disk, and uploads these files to the store.
"""

import os
import tempfile
import threading
from pathlib import Path
from typing import Final

from groundtrace.storage.places import StorageSettings, place
from groundtrace.storage.remote_path import RemotePath
from groundtrace.storage.uploads import Uploads

OBJECT_BYTES: Final = 2**20
"""The size, in bytes, at which an uploaded file is complete and the next file begins. Until then each upload writes the
whole file again, with the added lines.
"""


class NoteFiles:
    """Writes the notes of one process into the folder ``root`` (a path or a URL), one file for each kind of note:
    ``<kind>-<process>.jsonl``. ``process`` is the unique name of the process. ``storage`` holds the settings of the
    object storage.

    If the folder is on a disk, other processes see a line immediately. If it is in a store, the files are first written
    to a temporary folder. :meth:`flush` uploads them as ``<kind>-<process>-<number>.jsonl``. The background thread
    ``uploads`` calls :meth:`flush` regularly. A killed process loses the lines since the last upload. All methods are
    thread-safe.
    """

    def __init__(self, root: str, process: str, storage: StorageSettings, uploads: Uploads | None = None) -> None:
        self._process = process
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._files: dict[str, tuple[int, int]] = {}
        self._unsent = set[Path]()
        folder = place(root, storage)
        self._there = folder if isinstance(folder, RemotePath) else None
        self._temporary = tempfile.TemporaryDirectory(prefix="groundtrace-notes-") if self._there is not None else None
        self._here = Path(root if self._temporary is None else self._temporary.name)
        if self._there is not None and uploads is not None:
            uploads.add(f"write notes to {root}", self.flush)

    def append(self, kind: str, line: bytes) -> None:
        """Append ``line``, a note about an event of the run, to the process's file for notes of this ``kind``. E.g.
        notes of the kind "paid" hold the usage of requests. The line must end with a newline.
        """
        with self._lock:
            if kind not in self._files:
                self._here.mkdir(parents=True, exist_ok=True)
                self._begin(kind, 0)
            handle, number = self._files[kind]
            os.write(handle, line)
            if self._there is not None:
                self._unsent.add(self._path(kind, number))
                if os.fstat(handle).st_size >= OBJECT_BYTES:
                    os.close(handle)
                    self._begin(kind, number + 1)

    def _begin(self, kind: str, number: int) -> None:
        handle = os.open(self._path(kind, number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._files[kind] = handle, number

    def _path(self, kind: str, number: int) -> Path:
        part = "" if self._there is None else f"-{number}"
        return self._here / f"{kind}-{self._process}{part}.jsonl"

    def flush(self) -> None:
        """Upload the lines that were not uploaded yet, so that other processes can see all lines. Raises OSError if the
        upload fails; the method can then be called again. If the folder is on a disk, the method does nothing.
        """
        if self._there is None:
            return
        with self._sending:  # otherwise an older text could replace a newer one
            with self._lock:
                unsent = sorted(self._unsent)
            for path in unsent:
                with self._lock:
                    self._unsent.discard(path)
                try:
                    (self._there / path.name).write_bytes(path.read_bytes())
                except BaseException:
                    with self._lock:
                        self._unsent.add(path)
                    raise

    def close(self) -> None:
        """Upload the remaining lines if the folder is in a store, and close the files."""
        with self._lock:
            for handle, _ in self._files.values():
                os.close(handle)
            self._files.clear()
        self.flush()
        if self._temporary is not None:
            self._temporary.cleanup()
