"""Writes the files of a job, under names that no other attempt uses, and their entries in the job's manifest.

A runner may run a writer twice, at the same time or later. A writer may also be lost before its files are complete. So
every attempt writes its own files, and only complete files get an entry. The driver receives the entries. It then
renames the files of these entries to their final names (:mod:`groundtrace.pipelines.running.execute.job_folder`).
"""

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.stages.plumbing.ends import SideCalls, call_row
from groundtrace.storage.places import Place, write_whole, written_to

MANIFEST = "manifest-"
"""The prefix of the names of manifests."""
ENDS, RECORDS = "ends", "records"
"""Folders beside the folders of the sets: ``ends`` holds tables of final outcomes, and ``records`` holds lists of the
records read (:mod:`groundtrace.stages.plumbing.ends`).
"""


@dataclass(frozen=True)
class ShardEntry:
    """Holds the manifest's entry of one shard.

    ``set`` is sft, rl or rejected. ``name`` is the name that the shard has in a finished run. ``file`` is the name of
    the shard's file in the folder of its set. ``ends`` is the name of the shard's table of final outcomes in the folder
    ``ends``. ``sha256`` is the digest of the file. ``ids_sha256`` is the digest of the shard's ids in order
    (:func:`ids_sha256`).
    """

    set: str
    name: str
    file: str
    ends: str
    rows: int
    size_bytes: int
    sha256: str
    ids_sha256: str


def ids_sha256(ids: Sequence[str]) -> str:
    """Return the SHA-256 of a shard's ids, in the order of its rows."""
    return hashlib.sha256("\n".join(ids).encode("utf-8", "surrogatepass")).hexdigest()


def attempt_name(name: str) -> str:
    """Return a unique name for one attempt at writing a file whose final name is ``name``."""
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{uuid.uuid4().hex}.{kind}"


class HashedStream:
    """Passes bytes on to a binary output stream, counts them and computes their SHA-256."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write the bytes, and return their number."""
        self._digest.update(data)
        self._stream.write(data)
        self.size_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self.size_bytes

    def writable(self) -> bool:
        """Return True: the stream can be written."""
        return True

    def readable(self) -> bool:
        """Return False: the stream cannot be read."""
        return False

    def seekable(self) -> bool:
        """Return False: the stream cannot seek."""
        return False

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def close(self) -> None:
        """Mark this stream as closed; the code that opened the underlying stream closes the underlying stream."""
        self.closed = True

    @property
    def sha256(self) -> str:
        """Return the digest of the bytes written so far."""
        return self._digest.hexdigest()


@contextmanager
def parquet_writer(path: Place, schema: pa.Schema) -> Iterator[tuple[pq.ParquetWriter, HashedStream]]:
    """Yield a Parquet writer to a new file, and the stream that the writer writes to.

    The file appears under its name only after the ``with`` block has ended without an error.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_to(path) as unfinished, unfinished.open("wb") as stream:
        hashed = HashedStream(stream)
        with pq.ParquetWriter(hashed, schema, compression="zstd") as writer:
            yield writer, hashed


def write_table(path: Place, table: pa.Table) -> None:
    """Write a small table to a new file."""
    with parquet_writer(path, table.schema) as (writer, _):
        writer.write_table(table)


def write_manifest(folder: Place, entries: Sequence[str]) -> str:
    """Write the entries of a job's manifest to a new file, one JSON object in each line, and return the file's name.

    The last line holds the number of entries, so that a reader notices a truncated manifest.
    """
    name = f"{MANIFEST}{uuid.uuid4().hex}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [*sorted(entries), json.dumps({"lines": len(entries)})]
    write_whole(folder / name, "".join(f"{line}\n" for line in lines))
    return name


def entry_line(entry: ShardEntry) -> str:
    """Return the manifest's line for a shard."""
    return json.dumps({"shard": asdict(entry)})


def side_line(side: SideCalls) -> str:
    """Return the manifest's line for the calls that a sample stage made for one element of its sample."""
    calls = [call_row(call) for call in side.calls]
    return json.dumps({"side": {"id": side.id, "stage": side.stage, "reason": side.reason, "calls": calls}})


def artifact_line(name: str, text: str) -> str:
    """Return the manifest's line for an artifact."""
    return json.dumps({"artifact": name, "text": text})
