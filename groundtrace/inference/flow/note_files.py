"""Writes the notes of a process: to growing files on a shared disk, or to objects in a store."""

import os
import threading
from pathlib import Path
from typing import Final, Protocol

from groundtrace.storage.places import StorageSettings, place
from groundtrace.storage.remote_path import RemotePath
from groundtrace.storage.uploads import Uploads

OBJECT_BYTES: Final = 2**20
"""The size at which an object is complete, and the next one begins. Until then each upload writes the whole object
again, with the added lines."""


class NoteFiles(Protocol):
    """Writes the lines of one process, to one file for each kind of note. All methods are thread-safe."""

    def append(self, kind: str, line: bytes) -> None:
        """Append a line to the process's file for notes of this ``kind``. The line must end with a newline."""

    def flush(self) -> None:
        """Wait until other processes can see all lines. Raises OSError if they cannot be written."""

    def close(self) -> None:
        """Flush all lines, and stop writing."""


def note_files(root: str, process: str, storage: StorageSettings, uploads: Uploads | None) -> NoteFiles:
    """Return the files of a process in the folder ``root``, which is a path or a URL; ``uploads`` flushes those in a
    store."""
    folder = place(root, storage)
    if not isinstance(folder, RemotePath):
        return AppendedNotes(folder, process)
    sent = SentNotes(folder, process)
    if uploads is not None:
        uploads.add(f"write notes to {root}", sent.flush)
    return sent


class AppendedNotes:
    """Appends each line to ``<kind>-<process>.jsonl`` at once: a killed process loses no line."""

    def __init__(self, root: Path, process: str) -> None:
        self._root, self._process = root, process
        self._lock = threading.Lock()
        self._handles: dict[str, int] = {}

    def append(self, kind: str, line: bytes) -> None:
        """Append the line to the file of this ``kind`` at once (:class:`NoteFiles`)."""
        with self._lock:
            if kind not in self._handles:
                self._root.mkdir(parents=True, exist_ok=True)
                path = self._root / f"{kind}-{self._process}.jsonl"
                self._handles[kind] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(self._handles[kind], line)

    def flush(self) -> None:
        """Do nothing, since :meth:`append` writes at once."""

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            while self._handles:
                os.close(self._handles.popitem()[1])


class SentNotes:
    """Uploads the lines as objects ``<kind>-<process>-<number>.jsonl`` at a flush.

    A killed process loses the lines added since the last upload.
    """

    def __init__(self, root: RemotePath, process: str) -> None:
        self._root, self._process = root, process
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._texts: dict[tuple[str, int], bytearray] = {}
        self._unsent: set[tuple[str, int]] = set()

    def append(self, kind: str, line: bytes) -> None:
        """Append the line to those of this ``kind`` that the next upload sends (:class:`NoteFiles`)."""
        with self._lock:
            key = kind, self._numbers.setdefault(kind, 0)
            text = self._texts.setdefault(key, bytearray())
            text += line
            self._unsent.add(key)
            if len(text) >= OBJECT_BYTES:
                self._numbers[kind] += 1

    def flush(self) -> None:
        """Upload the added lines. Raises :class:`groundtrace.storage.places.StorageError` or OSError if the upload
        fails; call it again then.
        """
        with self._sending:  # or an older text could overtake a newer one
            with self._lock:
                changed = sorted(self._unsent)
            for key in changed:
                self._send(*key)

    def _send(self, kind: str, number: int) -> None:
        with self._lock:
            text = bytes(self._texts[kind, number])
            self._unsent.discard((kind, number))
        try:
            (self._root / f"{kind}-{self._process}-{number}.jsonl").write_bytes(text)
        except BaseException:
            with self._lock:
                self._unsent.add((kind, number))
            raise
        with self._lock:
            # A whole object gets no more lines, but may have got some during this upload.
            is_whole = number < self._numbers[kind]
            if is_whole and (kind, number) not in self._unsent:
                del self._texts[kind, number]

    def close(self) -> None:
        """Upload the lines that are left."""
        self.flush()
