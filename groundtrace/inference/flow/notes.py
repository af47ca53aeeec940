"""Writes and reads the notes of a run: lines and files about its requests and servers. The run's processes write the
notes into a folder that all processes and the driver can access.

``paid-<process>.jsonl`` has one line for each request that was sent. So the usage of a request is known even if the run
is stopped or killed, or repeats a part of its work. ``failed-<process>.jsonl`` has one line for each failed attempt.
The file ``reached-<endpoint>`` exists if the endpoint's server has answered a request of this run. The file
``away-<endpoint>-<process>`` exists while the process waits for the endpoint's server. File names contain a hash of the
endpoint's name, because the name itself may be too long for a file name. Workers without access to the driver's disk
write their notes to a store, with a delay (:mod:`groundtrace.inference.flow.note_files`).
"""

import contextlib
import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from groundtrace.inference.flow.in_flight import stage_of_call
from groundtrace.inference.flow.note_files import NoteFiles
from groundtrace.schemas.safe_files import opened_regular, own_file, read_regular
from groundtrace.schemas.usage import USAGE_FIELDS, Usage
from groundtrace.storage.places import STANDARD, StorageSettings, place
from groundtrace.storage.uploads import Uploads

MAX_MESSAGE_CHARS = 200
MAX_NOTE_BYTES = 2**20
"""The maximum length of a line that is read. The folder may come from a stranger; a run writes only shorter lines."""


@dataclass(frozen=True)
class Paid:
    """Holds one line of a run's notes: the usage of one request. ``id`` is unique. ``role`` is the job of the model,
    such as "judge", and ``stage`` is the step of the pipeline that sent the request. ``replies`` is the number of
    replies.

    ``in_process`` is True if the model ran in the worker itself, at no cost. The other fields are those of
    :class:`groundtrace.schemas.usage.Usage`. Amounts in dollars use the prices of the config. Notes of earlier versions
    lack the fields that have default values.
    """

    id: str
    role: str
    requests: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    stage: str = ""
    in_process: bool = False
    replies: int = 0
    retries: int = 0
    tokens_reasoning: int = 0
    tokens_cached: int = 0
    tokens_wasted: int = 0


@dataclass(frozen=True)
class FailedTry:
    """Holds one line of a run's notes, about a failed attempt of a request. ``endpoint`` is the endpoint's name,
    ``status`` is the HTTP status (0 if the server sent none), and ``message`` is the error's message.
    """

    endpoint: str
    status: int
    message: str


PAID_FIELDS = tuple(field.name for field in fields(Paid) if field.name in USAGE_FIELDS)
"""The names of the fields of Usage (such as tokens and cost) that :class:`Paid`, a line of the notes, also has."""


class RunNotes:
    """Writes the notes of one process of a run: lines and files about its requests and about servers that are down.
    ``root`` is the folder of the notes, a path or a URL. ``process`` is a unique name of the process; if it is "", a
    name is chosen. ``storage`` holds the settings of the object storage.

    The first note creates the folder. If the folder is in a store, the background thread ``uploads`` uploads the notes
    regularly, and :meth:`flush` uploads them immediately.
    """

    def __init__(
        self, root: str, storage: StorageSettings = STANDARD, process: str = "", uploads: Uploads | None = None
    ) -> None:
        self._root = place(root, storage)
        self._process = process or f"{os.getpid()}-{os.urandom(6).hex()}"
        self._files = NoteFiles(root, self._process, storage, uploads)
        self._lock = threading.Lock()
        self._count = 0
        self._closed = False

    def paid(self, role: str, replies: int, usage: Usage, in_process: bool = False) -> None:
        """Write a note (one line in a file of the run) about the usage of a request, before its reply is used. ``role``
        is the job of the model, such as "judge", and ``replies`` is the number of replies to the request.
        ``in_process`` is True if the model ran in the worker itself, at no cost. Nothing is written for a request
        without replies and without usage.
        """
        taken = {name: getattr(usage, name) for name in PAID_FIELDS}
        if not (replies or any(taken.values())):
            return
        with self._lock:
            self._count += 1
            name = f"{self._process}-{self._count}"
            self._append(
                "paid", Paid(name, role, stage=stage_of_call(), in_process=in_process, replies=replies, **taken)
            )

    def failed(self, endpoint: str, status: int, message: str) -> None:
        """Write a note (one line in a file of the run) about a failed attempt of a request. ``endpoint`` is the
        endpoint's name. ``status`` is the HTTP status, or 0 if the server sent none. ``message`` is one line for the
        user.
        """
        with self._lock:
            self._append("failed", FailedTry(endpoint, status, message[:MAX_MESSAGE_CHARS]))

    def _append(self, kind: str, line: Paid | FailedTry) -> None:
        if not self._closed:
            self._files.append(kind, json.dumps(vars(line)).encode() + b"\n")

    def flush(self) -> None:
        """Upload all notes (lines about the requests of this process) that were not uploaded yet, so that other
        processes can see them. Raises OSError if the store cannot be reached.
        """
        self._files.flush()

    def reached(self, endpoint: str) -> None:
        """Record for all processes of the run that the server of the endpoint with this name has answered."""
        self._write(f"reached-{_digest(endpoint)}", "")

    def was_reached(self, endpoint: str) -> bool:
        """Return whether any process of the run has recorded that the server of the endpoint with this name answered
        (:meth:`reached`).
        """
        return (self._root / f"reached-{_digest(endpoint)}").exists()

    def begin_wait(self, endpoint: str, message: str) -> None:
        """Record that this process waits for the server of the endpoint with this name. ``message`` is the text that
        the progress display shows to the user.
        """
        self._write(self._wait_file(endpoint), message)

    def end_wait(self, endpoint: str) -> None:
        """Record that this process does not wait any more for the server of the endpoint with this name."""
        (self._root / self._wait_file(endpoint)).unlink(missing_ok=True)

    def _wait_file(self, endpoint: str) -> str:
        return f"away-{_digest(endpoint)}-{self._process}"

    def _write(self, name: str, text: str) -> None:
        with self._lock:
            if not self._closed:
                self._root.mkdir(parents=True, exist_ok=True)
                (self._root / name).write_text(text, "utf-8")

    def close(self) -> None:
        """Make all notes (lines about the requests of this process) visible to other processes, and close the files.
        Later notes are dropped, since the run may have ended.
        """
        with self._lock:
            self._closed = True
        self._files.close()


def _digest(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def waiting(root: str) -> list[str]:
    """Return the messages for the user from the processes that wait for a server now, sorted and without duplicates.
    ``root`` is the folder of the run in which each process records that it waits.
    """
    messages = set[str]()
    for path in Path(root).glob("away-*"):
        with contextlib.suppress(FileNotFoundError):  # the server is back
            messages.add(read_regular(own_file(Path(root), path.name)).decode("utf-8"))
    return sorted(messages - {""})


def paid_in(root: Path) -> Iterator[Paid]:
    """Yield the notes about the tokens and the cost of each request, from all processes.

    ``root`` is the folder into which the run's processes write these notes. A line is left out if its ``id`` was
    already yielded, if it cannot be parsed (e.g. because it is truncated), or if it has more than
    :data:`MAX_NOTE_BYTES` characters (not bytes, since lines are read as text).
    """
    seen = set[str]()
    for path in sorted(root.glob("paid-*.jsonl")):
        with io.TextIOWrapper(opened_regular(own_file(root, path.name)), encoding="utf-8", errors="replace") as lines:
            for line in iter(partial(lines.readline, MAX_NOTE_BYTES), ""):
                with contextlib.suppress(ValueError, TypeError, RecursionError):
                    paid = Paid(**json.loads(line))
                    if paid.id not in seen:
                        seen.add(paid.id)
                        yield paid
