"""What the processes of one run note for each other and for whoever runs it, in a folder that all of them see.

``paid-<process>.jsonl`` has one line for each request that was sent: what it took is known there even when the run is
stopped or killed, or does a part of its work again. ``failed-<process>.jsonl`` has one for each try that failed.
``reached-<endpoint>`` says that a server has answered this run; ``away-<endpoint>-<process>`` that a process waits for
one. In file names a digest stands for an endpoint, whose name may be longer than a file's. Workers that see no disk of
whoever runs them note in a store, and lines go there with a delay (:mod:`groundtrace.inference.flow.note_files`).
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from groundtrace.inference.flow.in_flight import stage_of_call
from groundtrace.inference.flow.note_files import note_files
from groundtrace.schemas.storage import STANDARD, StorageSettings, place
from groundtrace.schemas.usage import USAGE_FIELDS, Usage

MAX_SAID_CHARS = 200


@dataclass(frozen=True)
class Paid:
    """What one request of a stage took, and how many ``replies`` it brought: ``id`` tells it from all others.

    ``in_process`` is a model in the worker itself, to which nobody is paid anything. The other fields are those of
    :class:`groundtrace.schemas.usage.Usage`; dollars at the prices of the config. Those with defaults
    are not in the notes of earlier code.
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
    """A try of a request that failed: the endpoint, the server's HTTP status (0: there is none), and what it said."""

    endpoint: str
    status: int
    said: str


PAID_FIELDS = tuple(field.name for field in fields(Paid) if field.name in USAGE_FIELDS)
"""What of a usage is noted: what was sent and what it took."""


class RunNotes:
    """The notes of this process in the folder ``root``, a path or a URL, which is made when something is noted."""

    def __init__(self, root: str, storage: StorageSettings = STANDARD) -> None:
        self._root = place(root, storage)
        self._process = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._files = note_files(root, self._process, storage)
        self._lock = threading.Lock()
        self._count = 0
        self._closed = False

    def paid(self, role: str, replies: int, usage: Usage, in_process: bool = False) -> None:
        """Note what a request took, before its reply is used. A process that is killed loses none that it noted."""
        taken = {name: getattr(usage, name) for name in PAID_FIELDS}
        if not (replies or any(taken.values())):
            return
        with self._lock:
            self._count += 1
            name = f"{self._process}-{self._count}"
            self._append(
                "paid", Paid(name, role, stage=stage_of_call(), in_process=in_process, replies=replies, **taken)
            )

    def failed(self, endpoint: str, status: int, said: str) -> None:
        """Note a try that failed; ``said`` is for a person to read, on one line."""
        with self._lock:
            self._append("failed", FailedTry(endpoint, status, said[:MAX_SAID_CHARS]))

    def _append(self, kind: str, line: Paid | FailedTry) -> None:
        if not self._closed:
            self._files.append(kind, json.dumps(asdict(line)).encode() + b"\n")

    def flush(self) -> None:
        """Return when what was noted stands where others see it. Raises OSError for a store that stays away."""
        self._files.flush()

    def reached(self, endpoint: str) -> None:
        """Note that the endpoint's server has answered."""
        self._write(f"reached-{_digest(endpoint)}", "")

    def was_reached(self, endpoint: str) -> bool:
        """Whether any process of the run has noted that the endpoint's server answered."""
        return (self._root / f"reached-{_digest(endpoint)}").exists()

    def away(self, endpoint: str, said: str) -> None:
        """Note that this process waits for the endpoint's server; ``said`` is for a person to read."""
        self._write(self._away(endpoint), said)

    def back(self, endpoint: str) -> None:
        """Note that it waits no more."""
        (self._root / self._away(endpoint)).unlink(missing_ok=True)

    def _away(self, endpoint: str) -> str:
        return f"away-{_digest(endpoint)}-{self._process}"

    def _write(self, name: str, text: str) -> None:
        with self._lock:
            if not self._closed:
                self._root.mkdir(parents=True, exist_ok=True)
                (self._root / name).write_text(text, "utf-8")

    def close(self) -> None:
        """Flush and close the files. Nothing is noted from now on: the run may have ended."""
        with self._lock:
            self._closed = True
        self._files.close()


def _digest(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def waiting(root: str) -> list[str]:
    """What the processes of a run say that they wait for, each thing once."""
    said = set[str]()
    for path in Path(root).glob("away-*"):
        with contextlib.suppress(FileNotFoundError):  # the server is back
            said.add(path.read_text("utf-8"))
    return sorted(said - {""})


def paid_in(root: Path) -> Iterator[Paid]:
    """What the processes of a run have paid, each request once. A line that was cut short is left out."""
    seen = set[str]()
    for path in sorted(root.glob("paid-*.jsonl")):
        for line in path.read_text("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError, TypeError):
                paid = Paid(**json.loads(line))
                if paid.id not in seen:
                    seen.add(paid.id)
                    yield paid
