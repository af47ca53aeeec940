"""Sums up the requests and costs of a run while it runs, from the notes of its processes.

Notes are files in which each process writes one line for each request.

:mod:`groundtrace.inference.flow.notes` writes the notes.
"""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from groundtrace.inference.flow.notes import FailedTry, Paid
from groundtrace.schemas.text import printable

Note = TypeVar("Note", Paid, FailedTry)
HTTP_TOO_MANY_REQUESTS = 429


@dataclass
class RunningTotals:
    """Holds sums over the requests that a run has sent by now.

    ``requests`` is the number of requests, ``tokens`` the number of input and output tokens, and ``usd`` the cost in
    dollars. ``failed_tries`` is the number of failed requests. ``rate_limited`` is the number of failed requests that a
    server answered with HTTP 429. ``last_error`` is the message of the last failure; "" if there was none.
    """

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0
    failed_tries: int = 0
    rate_limited: int = 0
    last_error: str = ""


class NotesReader:
    """Reads the notes of a run's processes (one line for each request, with its cost) while they are written, and sums
    them up.

    ``root`` is the folder of the files of notes; "" for a run without notes. Each line of a file is read once.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root) if root else None
        self._read_bytes: dict[Path, int] = {}
        self._sums = RunningTotals()

    def read(self) -> RunningTotals:
        """Read the notes (one line for each request, with its cost) that were added since the previous call, and return
        the sums over all notes that were read by now.
        """
        for path in sorted(self._root.glob("paid-*.jsonl")) if self._root else ():
            for paid in (each for each in self._new_lines(path, Paid) if not each.in_process):
                self._sums.requests += paid.requests
                self._sums.tokens += paid.tokens_in + paid.tokens_out
                self._sums.usd += paid.cost_usd
        for path in sorted(self._root.glob("failed-*.jsonl")) if self._root else ():
            for failed in self._new_lines(path, FailedTry):
                self._sums.failed_tries += 1
                self._sums.rate_limited += failed.status == HTTP_TOO_MANY_REQUESTS
                self._sums.last_error = printable(f"{failed.endpoint}: {failed.message}")
        return self._sums

    def _new_lines(self, path: Path, kind: type[Note]) -> list[Note]:
        """Return the notes that were added to the file ``path`` since the previous call. Each line holds one note.

        A note describes one request of the run, with its cost or its error.

        ``kind`` is the class of the notes in this file. The last line is left out as long as it has no line end. Lines
        that were cut because the disk was full are skipped.
        """
        with path.open("rb") as file:
            file.seek(self._read_bytes.get(path, 0))
            whole = file.read().rpartition(b"\n")
        self._read_bytes[path] = self._read_bytes.get(path, 0) + len(whole[0]) + len(whole[1])
        found: list[Note] = []
        for line in whole[0].splitlines():
            with contextlib.suppress(ValueError, TypeError):
                found.append(kind(**json.loads(line)))
        return found
