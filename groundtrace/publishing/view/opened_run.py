"""Detects that a run was repeated after ``beam view`` had read its rows."""

import hashlib
from pathlib import Path

from groundtrace.publishing.reading import InspectError


class OpenedRun:
    """Remembers the ``run.json`` of a run folder, to detect later that another run has replaced it.

    A view holds the places of the rows in the shards. In the shards of another run, these places have other rows, so
    the page would show the images of other records.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, run / "run.json"
        self._changed, self._digest = _changed(self._file), _digest(self._file)

    def check(self) -> None:
        """Raise InspectError if the run folder holds another run than at first, or no finished run."""
        changed = _changed(self._file)
        if changed == self._changed:
            return
        if _digest(self._file) != self._digest:
            raise InspectError(f"{self._run} was changed after `beam view` had read it: start `beam view` again")
        self._changed = changed


def _changed(file: Path) -> tuple[int, int, int] | None:
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
