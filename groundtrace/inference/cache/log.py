"""Reads and writes the append-only log of replies, from which a damaged reply cache is rebuilt.

Each writing process has its own log file, ``<UTC time>-<pid>-<uuid>.jsonl``, so that two processes never write into one
file. Each line consists of a checksum, a space and a JSON object. The checksum is the CRC-32 of the JSON object as 8
hexadecimal digits. A line that is incomplete or was changed does not match its checksum. Such a line is skipped, and
the lines after it are still read.
"""

import json
import math
import os
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from groundtrace.inference.request import Completion
from groundtrace.schemas.safe_files import opened_regular
from groundtrace.storage.files import written_whole

MAX_LINE_BYTES = 64 * 2**20
BATCH_LINES = 1000
_MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True)
class CacheEntry:
    """Holds one reply for the cache, with the fields by which users can search the cache.

    ``key`` is the cache key. ``role`` is the job for which the model was called, such as "judge". ``prompt`` is the
    name of the prompt, and ``model`` the name of the model. ``max_tokens`` is the token budget of the request, and
    ``completion`` is the reply. ``tokens_in`` and ``tokens_out`` are the reply's input and output tokens.
    """

    key: str
    role: str
    prompt: str
    model: str
    max_tokens: int
    completion: Completion
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True)
class LogEntry:
    """Holds a cache entry and the time at which it was created. ``created_s`` is a Unix time in seconds."""

    entry: CacheEntry
    created_s: float


@dataclass(frozen=True)
class LogEntries:
    """Holds a batch of entries that were read from a log file of replies. ``entries`` are in the order of the file.
    ``damaged`` is the number of damaged lines in the batch. ``end_bytes`` is the offset in the file, in bytes, after
    the last complete line of the batch.
    """

    entries: list[LogEntry]
    damaged: int
    end_bytes: int


def stamp() -> str:
    """Return the current time as text for the beginning of a file name, e.g. "20250131T235959123456" (UTC, to the
    microsecond). File names that begin with this text are in order of time when they are sorted.
    """
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")


def encode_body(completion: Completion) -> str:
    """Return the reply as JSON in which all characters beyond ASCII are escaped. Raises ValueError if a number of the
    reply is not finite.
    """
    fields: dict[str, Any] = {
        "text": completion.text,
        "reasoning": completion.reasoning,
        "finish_reason": completion.finish_reason,
    }
    if completion.logprobs:
        fields["logprobs"] = completion.logprobs
    for name in ("answered_by", "taken_from", "made_s"):
        if getattr(completion, name):
            fields[name] = getattr(completion, name)
    return json.dumps(fields, allow_nan=False)


def decode_body(body: str) -> Completion:
    """Return the reply that the JSON text ``body`` describes. This is the inverse of :func:`encode_body`. Raises
    ValueError if the text does not describe a reply.
    """
    try:
        return _completion(json.loads(body))
    except RecursionError as error:
        raise ValueError("the JSON of a reply is nested too deeply") from error


def encode_line(logged: LogEntry, body: str) -> bytes:
    """Return one line of the log as bytes, with its line feed at the end. ``logged`` is the entry, and ``body`` is its
    reply as JSON text (:func:`encode_body`). Raises ValueError if a field of the entry cannot be stored in the
    cache.
    """
    entry = logged.entry
    fields = {
        "key": entry.key,
        "role": entry.role,
        "prompt": entry.prompt,
        "model": entry.model,
        "max_tokens": entry.max_tokens,
        "created_s": logged.created_s,
        "tokens_in": entry.tokens_in,
        "tokens_out": entry.tokens_out,
    }
    _check(fields)
    data = f'{json.dumps(fields)[:-1]}, "reply": {body}}}'.encode("ascii")
    return b"%08x %b\n" % (zlib.crc32(data), data)


def decode_line(line: bytes) -> LogEntry | None:
    """Return the entry (one reply with its key) that a line of a log file holds. ``line`` is this line. Returns None if
    the line is damaged or does not hold an entry.
    """
    data = line[9:].removesuffix(b"\n")
    if line[:9] != b"%08x " % zlib.crc32(data):
        return None
    try:
        fields = json.loads(data)
        _check(fields)
        reply, created_s = _completion(fields.pop("reply")), float(fields.pop("created_s"))
        return LogEntry(CacheEntry(completion=reply, **fields), created_s)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_log(path: Path, start_bytes: int = 0, batch_lines: int = BATCH_LINES) -> Iterator[LogEntries]:
    """Yield the entries (replies with their keys) of the log file ``path`` in batches of ``batch_lines`` lines. Reading
    starts at the offset ``start_bytes``.

    A last line without a line feed is counted as damaged, since another process may still be writing it. In this case
    the ``end_bytes`` of the last batch is the offset at which this incomplete line begins, so a later call can start
    there. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` for a pipe or a device.
    """
    with opened_regular(path) as stream:
        stream.seek(start_bytes)
        entries: list[LogEntry] = []
        lines = damaged = 0
        end_bytes, whole = start_bytes, True
        while line := stream.readline(MAX_LINE_BYTES):
            ended = line.endswith(b"\n")
            logged = decode_line(line) if whole and ended else None
            if logged is not None:
                entries.append(logged)
            elif whole and line != b"\n":  # the further pieces of an overlong line are not counted again
                damaged += 1
            whole = ended
            if ended:
                end_bytes = stream.tell()
            lines += 1
            if lines == batch_lines:
                yield LogEntries(entries, damaged, end_bytes)
                entries, lines, damaged = [], 0, 0
        if lines:
            yield LogEntries(entries, damaged, end_bytes)


def write_log(path: Path, entries: Iterator[LogEntry]) -> int:
    """Write all ``entries`` into a new log file at ``path``, and return its size in bytes. The file appears only when
    it is complete.
    """
    with written_whole(path, durable=True) as unfinished, unfinished.open("wb") as stream:
        for logged in entries:
            stream.write(encode_line(logged, encode_body(logged.entry.completion)))
        return stream.tell()


class LogWriter:
    """Writes the replies that this process receives to the process's own log file. The file is created in ``folder``
    when the first line is written.

    ``name`` is the file's name, and ``size_bytes`` the number of bytes written to the file so far. A writer is not
    thread-safe.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = ""
        self.size_bytes = 0
        self._file: int | None = None

    def append(self, data: bytes) -> None:
        """Append ``data``, one or more complete lines, to the log. The data survive if this process is
        killed. They may be lost in a power failure, because they are not synchronised to the disk.

        If an error occurs, the file is closed, because its last line may be incomplete. The next call begins a new
        file.
        """
        try:
            if self._file is None:
                self._begin()
            left = memoryview(data)
            while left:
                left = left[os.write(self._file, left) :]  # type: ignore[arg-type]
        except BaseException:
            self.abandon()
            raise
        self.size_bytes += len(data)

    def abandon(self) -> None:
        """Close the log file, because its last line may be incomplete. The next :meth:`append` begins a new file."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _begin(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name, self.size_bytes = f"{stamp()}-{os.getpid()}-{uuid.uuid4().hex}.jsonl", 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(self.folder / self.name, flags, 0o644)


def _check(fields: dict[str, Any]) -> None:
    for name in ("key", "role", "prompt", "model"):
        if type(fields[name]) is not str:
            raise ValueError(f"the field '{name}' of a log entry must be a text")
        fields[name].encode()  # raises ValueError for a lone surrogate, which the database cannot hold
    for name in ("max_tokens", "tokens_in", "tokens_out"):
        if type(fields[name]) is not int or not 0 <= fields[name] <= _MAX_NUMBER:
            raise ValueError(f"the field '{name}' of a log entry must be a whole number of at least 0")
    if type(fields["created_s"]) is not float or not math.isfinite(fields["created_s"]):
        raise ValueError("the field 'created_s' of a log entry must be a time in seconds")


def _completion(fields: Any) -> Completion:
    if not isinstance(fields, dict):
        raise ValueError("a reply must be a JSON object")
    texts = [fields.get(name) for name in ("text", "reasoning", "finish_reason")]
    texts += [fields.get(name, "") for name in ("answered_by", "taken_from")]
    logprobs = fields.get("logprobs", [])
    if not all(type(text) is str for text in texts) or not isinstance(logprobs, list):
        raise ValueError("a cached reply has a text that is not a string, or 'logprobs' that are not a list")
    if not all(type(value) in (int, float) and -_MAX_NUMBER < value < _MAX_NUMBER for value in logprobs):
        raise ValueError("a cached reply has 'logprobs' that are not finite numbers")
    made_s = fields.get("made_s", 0.0)
    if type(made_s) is not float or not math.isfinite(made_s):
        raise ValueError("a cached reply has a field 'made_s' that is not a time in seconds")
    text, reasoning, finish_reason, *named = map(str, texts)
    return Completion(text, reasoning, finish_reason, tuple(float(value) for value in logprobs), *named, made_s=made_s)
