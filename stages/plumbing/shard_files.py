"""Writes the files of a job (one execution of a Beam pipeline) under unique names, and lists them in the job's
manifest, the file that names all complete files.

A runner may run a writer twice, at the same time or later. A writer may also be lost before its files are complete. So
every execution of a writer creates its own files, and only complete files get an entry in the manifest. The driver (the
process that started the run) receives the entries. It then renames the files of these entries to their final names
(:mod:`groundtrace.pipelines.running.execute.job_folder`).
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
"""Folders beside the folders of the sets (sft, rl, rejected): ``ends`` holds tables with the final outcome of each
record, and ``records`` holds lists of the records read (:mod:`groundtrace.stages.plumbing.ends`).
"""


@dataclass(frozen=True)
class ShardEntry:
    """Holds the entry of one shard (Parquet file of rows) in the manifest, the file that names all complete files of a
    job.

    Attributes:
        set: the name of the set of rows: ``sft``, ``rl`` or ``rejected``.
        name: the name that the shard has in a finished run.
        file: the name of the shard's file in the folder of its set, before it is renamed.
        ends: the name of the shard's table of final outcomes in the folder ``ends``.
        rows: the number of rows.
        size_bytes: the size of the file in bytes.
        sha256: the digest of the file.
        ids_sha256: the digest of the ids of its rows, in order (:func:`ids_sha256`).
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
    """Return the SHA-256 of the ids of a shard (Parquet file of rows) as hexadecimal digits. ``ids`` are the rows' ids
    in order.
    """
    return hashlib.sha256("\n".join(ids).encode("utf-8", "surrogatepass")).hexdigest()


def attempt_name(name: str) -> str:
    """Return a unique file name for one execution of a writer: ``name`` with a random part before its extension.

    ``name`` is the final name of the file. For example, "a.parquet" becomes "a.<32 hexadecimal digits>.parquet".
    """
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{uuid.uuid4().hex}.{kind}"


class HashedStream:
    """Passes bytes on to a binary output stream, counts them (``size_bytes``) and computes their SHA-256."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write the bytes ``data``, and return their number."""
        self._digest.update(data)
        self._stream.write(data)
        self.size_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the position of the next byte, which is the number of bytes already written."""
        return self.size_bytes

    def writable(self) -> bool:
        """Return True, because the stream can be written."""
        return True

    def readable(self) -> bool:
        """Return False, because the stream cannot be read."""
        return False

    def seekable(self) -> bool:
        """Return False, because the position in the stream cannot be changed."""
        return False

    def flush(self) -> None:
        """Flush the stream to which the bytes are passed on."""
        self._stream.flush()

    def close(self) -> None:
        """Mark this stream as closed. The stream to which it passes the bytes stays open; the code that opened it must
        close it.
        """
        self.closed = True

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the bytes already written, as hexadecimal digits."""
        return self._digest.hexdigest()


@contextmanager
def parquet_writer(path: Place, schema: pa.Schema) -> Iterator[tuple[pq.ParquetWriter, HashedStream]]:
    """Open a new Parquet file for writing. Yields the Parquet writer, and the stream that counts and hashes its bytes.

    The file appears under the name ``path`` only after the ``with`` block has ended without an error. Missing parent
    folders are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_to(path) as unfinished, unfinished.open("wb") as stream:
        hashed = HashedStream(stream)
        with pq.ParquetWriter(hashed, schema, compression="zstd") as writer:
            yield writer, hashed


def write_table(path: Place, table: pa.Table) -> None:
    """Write a small table to a new Parquet file ``path``. Missing parent folders are created."""
    with parquet_writer(path, table.schema) as (writer, _):
        writer.write_table(table)


def write_manifest(folder: Place, entries: Sequence[str]) -> str:
    """Write the manifest of a job, which names all its complete files, to a new file in ``folder``, and return the
    file's name.

    ``entries`` are its lines: one JSON object for each shard (Parquet file) or other result. They are sorted. The last
    line holds the number of entries, so that a reader notices a truncated manifest.
    """
    name = f"{MANIFEST}{uuid.uuid4().hex}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [*sorted(entries), json.dumps({"lines": len(entries)})]
    write_whole(folder / name, "".join(f"{line}\n" for line in lines))
    return name


def entry_line(entry: ShardEntry) -> str:
    """Return the line for a shard (Parquet file of rows) in the manifest of a job (the list of its complete files).

    The line is JSON, and ``entry`` is its content.
    """
    return json.dumps({"shard": asdict(entry)})


def side_line(side: SideCalls) -> str:
    """Return the model calls of a sample stage as a line of the job's manifest (the list of its results), in JSON.

    A sample stage reads some of the records and passes none on. ``side`` holds its calls for one of these records.
    """
    calls = [call_row(call) for call in side.calls]
    return json.dumps({"side": {"id": side.id, "stage": side.stage, "reason": side.reason, "calls": calls}})


def artifact_line(name: str, text: str) -> str:
    """Return the line for a text file, such as ``rubrics.json``, in the job's manifest (the list of the job's results),
    as JSON.

    ``name`` is the name of the file, and ``text`` is its content. The line holds both.
    """
    return json.dumps({"artifact": name, "text": text})
