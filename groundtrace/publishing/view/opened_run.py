"""Detects that the files of a run changed after ``beam view`` had read its rows."""

import hashlib
from pathlib import Path

from groundtrace.publishing.reading import SHARDS, InspectError
from groundtrace.schemas.run_files import shards_of


class RunChanged(InspectError):
    """Raised if the run folder no longer holds the files that the view has read."""


class OpenedRun:
    """Remembers the ``run.json`` and the shards of a run folder, to detect later that they were replaced or changed.

    A view holds the places of the rows in the shards. In other shards, these places have other rows, so the page would
    show the texts and images of other records.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, run / "run.json"
        self._shards = {file: _state(file) for name in SHARDS for file in shards_of(run, name)}
        self._summary, self._digest = _state(self._file), _digest(self._file)

    def check(self) -> None:
        """Raise RunChanged if the run folder holds other files than at first, or no finished run."""
        if any(_state(file) != state for file, state in self._shards.items()):
            self._refuse()
        summary = _state(self._file)
        if summary == self._summary:
            return
        if _digest(self._file) != self._digest:
            self._refuse()
        self._summary = summary  # the file was written again with the same content

    def _refuse(self) -> None:
        raise RunChanged(f"{self._run} was changed after `beam view` had read it: start `beam view` again")


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return values that differ if a file was written again; None without the file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file; "" if the file cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
