"""Reads the progress of an unfinished run for the page of ``beam view``: requests, failures and newest replies.

While the run's processes work, they write files into the run folder. The files in RUN/ledger/<run>/ are called notes.
They have one line for each request and each failed attempt (:mod:`groundtrace.inference.flow.notes`). The files in
RUN/cache/log/ have one line for each reply (:mod:`groundtrace.inference.cache.log`). This module only reads the files,
so it does not disturb the run.
"""

import contextlib
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from groundtrace.inference.cache.index import logs
from groundtrace.inference.cache.log import MAX_LINE_BYTES, LogEntry, decode_line
from groundtrace.inference.flow.notes import MAX_NOTE_BYTES, waiting
from groundtrace.publishing.reading import FAILED_PAGE
from groundtrace.publishing.view.replies import times_of
from groundtrace.schemas.safe_files import UnsafeFile, is_elsewhere, opened_regular, own_file
from groundtrace.storage.mirror import RUN_MARKER

MAX_REPLIES = 30
"""The number of replies that the page shows."""
MAX_FAILURES = 20
MAX_LOGS = 200
"""The maximum number of log files that are read: the newest ones. Each process writes one log file."""
MAX_CHARS = 2_000
"""The maximum number of characters that the page shows of one reply."""
_TAIL_BYTES = 400_000
"""The number of bytes at the end of a log file in which the newest replies are searched first.

If they contain no reply, a larger part of the file is searched.
"""
_RECENT_S = 60
_END_OF_TIME_S = 4e9
"""The limit for the time of a reply, in seconds since 1970 (in the year 2096). Replies with a later time are ignored,
because such a time can only be in a damaged file.
"""
Json = dict[str, Any]


@dataclass
class _Lines:
    """Reads the lines that other processes append to a file.

    ``end_bytes`` is the position in the file, in bytes, at which the next reading begins.
    """

    path: Path
    end_bytes: int = 0

    def new(self) -> Iterator[Json]:
        """Yield the JSON objects of the lines that were completed since the last reading.

        The reading never gets past a line of more than :data:`groundtrace.inference.flow.notes.MAX_NOTE_BYTES` bytes. A
        run never writes such a line.
        """
        with opened_regular(self.path) as stream:
            stream.seek(self.end_bytes)
            for line in iter(partial(stream.readline, MAX_NOTE_BYTES), b""):
                if not line.endswith(b"\n"):
                    return
                self.end_bytes += len(line)
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):  # a damaged line
                    continue
                if isinstance(found, dict):
                    yield found


@dataclass
class _Sums:
    """Holds the totals of one run: how many requests, replies, tokens and failed attempts were counted.

    The numbers are counted in the run's notes: files with one line for each request and each failed attempt.

    Attributes:
        files: the reader of each file of notes.
        calls: the total numbers of requests, replies and tokens, and the total dollars, for each (stage, role). A stage
            is a step of the pipeline, and a role is the job of a model, such as judge.
        failures: the number of failed attempts by (endpoint, status, message).
    """

    files: dict[Path, _Lines] = field(default_factory=dict)
    calls: dict[tuple[str, str], dict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    failures: Counter[tuple[str, int, str]] = field(default_factory=Counter)


def is_unfinished(run: Path) -> bool:
    """Return whether ``run`` is the folder of a run that has begun, but has not written its outputs."""
    return (run / RUN_MARKER).is_file() and not (run / "run.json").is_file()


class LiveRun:
    """Reads the progress of the unfinished run in the folder ``run``, each time :meth:`state` is called.

    A call reads only the lines of the run's notes (lines about requests and failures) that the last call did not read.
    ``cache`` is the folder of the reply cache; None for the cache in the run folder.
    """

    def __init__(self, run: Path, cache: Path | None = None) -> None:
        self.run = run
        self._cache = cache
        self._notes: Path | None = None
        self._sums = _Sums()
        self._tails = dict[Path, tuple[int, list[LogEntry]]]()

    def state(self) -> Json:
        """Return the present state of the run, as a dict that is ready for JSON.

        If the run was repeated, ``calls``, ``failures`` and ``waiting`` are those of the latest repetition. The keys of
        the dict are:

        - ``is_finished``: whether the run has written its outputs.
        - ``is_failed``: whether the run ended with an error.
        - ``calls``: the numbers of requests, replies and tokens, and the dollars, for each stage (pipeline step) and
          role (job of a model, such as judge).
        - ``failures``: the failed attempts, the most frequent first.
        - ``waiting``: one message for each server that the run's processes wait for at present.
        - ``replies``: the newest replies of the cache.
        - ``per_minute``: the number of replies in the last minute. Only the end of each log file is read. So the number
          is too low if some replies of this minute are before the part that is read.
        - ``idle_s``: the time since the last reply in seconds; None if there is no reply.
        """
        notes = max((path for path in (self.run / "ledger").glob("*") if self._is_own_folder(path)), default=None)
        if notes != self._notes:
            self._notes, self._sums = notes, _Sums()
        if notes is not None:
            self._add(notes)
        now_s = time.time()
        replies = self._newest()
        return {
            "is_finished": (self.run / "run.json").is_file(),
            "is_failed": (self.run / FAILED_PAGE).is_file(),
            "calls": [
                {"stage": stage, "role": role, **counts} for (stage, role), counts in sorted(self._sums.calls.items())
            ],
            "failures": [
                {"endpoint": endpoint, "status": status, "message": message, "count": count}
                for (endpoint, status, message), count in self._sums.failures.most_common(MAX_FAILURES)
            ],
            "waiting": [] if notes is None else _waiting(notes),
            "replies": [_shown(each) for each in replies[:MAX_REPLIES]],
            "per_minute": sum(now_s - each.created_s <= _RECENT_S for each in replies),
            "idle_s": now_s - replies[0].created_s if replies else None,
        }

    def _is_own_folder(self, path: Path) -> bool:
        return path.is_dir() and not is_elsewhere(path, self.run)

    def _add(self, notes: Path) -> None:
        """Read the new lines of the files in the folder ``notes``, and add their numbers to the totals.

        A line is about a request or a failed attempt.
        """
        for path in sorted(notes.glob("*.jsonl")):
            lines = self._sums.files.setdefault(path, _Lines(path))
            with contextlib.suppress(OSError, UnsafeFile):  # the file was removed, or is not a regular file of the run
                own_file(self.run, str(path.relative_to(self.run)))
                for line in lines.new():
                    self._add_line(path.name.partition("-")[0], line)

    def _add_line(self, kind: str, line: Json) -> None:
        if kind == "paid":
            counts = self._sums.calls[str(line.get("stage", "")), str(line.get("role", ""))]
            for name in ("requests", "replies", "tokens_in", "tokens_out", "cost_usd"):
                counts[name] += _number(line.get(name))
        elif kind == "failed":
            message = " ".join(str(line.get("message", "")).split())
            self._sums.failures[str(line.get("endpoint", "")), int(_number(line.get("status"))), message] += 1

    def _newest(self) -> list[LogEntry]:
        """Return the last entries (replies) of the newest :data:`MAX_LOGS` log files, as one list, the newest first."""
        found = []
        root, folder = (self.run, "cache/log") if self._cache is None else (self._cache, "log")
        for path in logs(root / folder)[-MAX_LOGS:]:
            with contextlib.suppress(OSError, UnsafeFile):
                own_file(root, str(path.relative_to(root)))
                size = path.stat().st_size
                if self._tails.get(path, (-1,))[0] != size:
                    self._tails[path] = size, _entries_at_the_end(path)
                found += self._tails[path][1]
        return sorted(found, key=lambda each: -each.created_s)


def _entries_at_the_end(path: Path) -> list[LogEntry]:
    """Return the last entries (replies) of a log file, in the order of the file.

    The last :data:`_TAIL_BYTES` bytes of the file are read. If they contain no valid entry, a larger part is read, and
    so on. The result is empty if a part of more than :data:`MAX_LINE_BYTES` bytes, or the whole file, has no valid
    entry.
    """
    size, tail = path.stat().st_size, _TAIL_BYTES
    while True:
        start = max(size - tail, 0)
        with opened_regular(path) as stream:
            stream.seek(start)
            if start:
                stream.readline()  # the rest of a line
            found = [entry for line in stream if (entry := decode_line(line)) is not None and _has_times(entry)]
        if found or not start or tail > MAX_LINE_BYTES:
            return found
        tail *= 4


def _has_times(logged: LogEntry) -> bool:
    """Return whether the times of a stored reply are possible dates; in a damaged file they can be other numbers."""
    return all(0 <= time_s < _END_OF_TIME_S for time_s in (logged.created_s, logged.entry.completion.made_s))


def _number(value: object) -> float:
    """Return a value from a run's notes as a number; 0 if it is not a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else 0.0  # type: ignore[arg-type]


def _waiting(notes: Path) -> list[str]:
    try:
        return waiting(str(notes))
    except (OSError, ValueError, UnsafeFile):  # a damaged note
        return []


def _shown(logged: LogEntry) -> Json:
    entry = logged.entry
    shown = {name: getattr(entry, name) for name in ("key", "role", "prompt", "model", "tokens_in", "tokens_out")}
    text = entry.completion.text
    return shown | {
        "text": text[:MAX_CHARS],
        "is_shortened": len(text) > MAX_CHARS,
        "finish_reason": entry.completion.finish_reason,
        **times_of(logged),
    }
