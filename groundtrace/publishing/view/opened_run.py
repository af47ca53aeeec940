"""Detects that the files of a run changed after ``beam view`` had read its rows."""

import hashlib
from pathlib import Path

from groundtrace.publishing.reading import SHARDS, InspectError
from groundtrace.schemas.run_files import shards_of
from groundtrace.schemas.safe_files import MAX_JSON_BYTES, read_regular


class RunChanged(InspectError):
    """Raised if the run folder no longer holds the files that the server of ``beam view`` has read."""


class OpenedRun:
    """Remembers the ``run.json`` and the shards of a run folder, to detect later that they were replaced or changed.

    The server of ``beam view`` remembers the place of each row in the shards (Parquet files). In other shards, these
    places hold other rows, so the page would show the texts and images of other records.

    Make this object before ``run.json`` and the rows are read: a run that is replaced while they are read is then
    noticed, too. ``run`` is the run folder; it may be missing. Raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if ``run.json`` or a shard is a pipe or a device, or if a shard
    is a link to a file outside the run folder.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, run / "run.json"
        self._shards = {file: file_state(file) for name in SHARDS for file in shards_of(run, name)}
        self._summary, self._digest = file_state(self._file), _digest(self._file)
        self._is_changed = False

    def check(self) -> None:
        """Raise RunChanged if the files of the run changed after this object was made, or if the folder holds no
        finished run.

        After the first RunChanged, each later call raises RunChanged, too, even if the original files are back. The
        reason is that images of the other files may have been read and kept in memory in between.
        """
        if self._is_changed or any(file_state(file) != state for file, state in self._shards.items()):
            self._refuse()
        summary = file_state(self._file)
        if summary == self._summary:
            return
        if _digest(self._file) != self._digest:
            self._refuse()
        self._summary = summary  # the file was written again with the same content

    def _refuse(self) -> None:
        self._is_changed = True
        raise RunChanged(f"{self._run} was changed after `beam view` had read it")


def file_state(file: Path) -> tuple[int, ...] | None:
    """Return values that differ if a file was written again; None if the file does not exist.

    One of the values is the time of the last change of the file's metadata (``st_ctime_ns``). The time of modification
    is not sufficient, because a program that replaces a file, such as rsync, may give the new file the old file's time
    of modification.
    """
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file; "" if the file cannot be read. Raises UnsafeFile for a pipe or a device."""
    try:
        return hashlib.sha256(read_regular(file, MAX_JSON_BYTES)).hexdigest()
    except OSError:
        return ""
