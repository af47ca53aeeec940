"""Reads what each process of a run has spent so far, from the notes (files with the usage of each request) that the
processes write.
"""

import contextlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from groundtrace.storage.places import Place, RemotePath, StorageSettings, place

_NOTES = re.compile(r"paid-([0-9]+-[0-9a-f]+)(-[0-9]+)?\.jsonl")


@dataclass(frozen=True)
class Cost:
    """Holds an amount of US dollars (``usd``) and a number of tokens (``tokens``, input plus output)."""

    usd: float = 0.0
    tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.usd - other.usd, self.tokens - other.tokens)


class NotedSpending:
    """Reads from the notes of a run what its processes have spent. The notes are files in which each process records
    the usage of its requests. ``root`` is the folder of the notes, a path or a URL
    (:mod:`groundtrace.inference.flow.notes`). ``storage`` holds the settings of the object storage.

    The note files only grow, so each byte is read once.
    """

    def __init__(self, root: str, storage: StorageSettings) -> None:
        self._root = place(root, storage)
        self._ends: dict[str, int] = {}
        self._spent: dict[str, Cost] = defaultdict(Cost)

    def by_process(self) -> dict[str, Cost]:
        """Return what each process has spent so far, by the process's name. The method reads this from the notes, the
        files in which each process records its usage. Raises OSError if the folder cannot be read.
        """
        for path, size_bytes in _sizes_bytes(self._root):
            named, start = _NOTES.fullmatch(path.name), self._ends.get(path.name, 0)
            if named is not None and size_bytes > start:
                data = _bytes_from(path, start, size_bytes)
                data = data[: data.rfind(b"\n") + 1]  # a process may still be writing the last line
                self._ends[path.name] = start + len(data)
                self._spent[named[1]] = sum(map(_cost_of, data.splitlines()), self._spent[named[1]])
        return dict(self._spent)


def _sizes_bytes(folder: Place) -> Iterator[tuple[Place, int]]:
    if isinstance(folder, RemotePath):
        yield from ((path, stat.st_size) for path, stat in folder.listed().items() if stat is not None)
    else:
        yield from ((Path(entry.path), entry.stat().st_size) for entry in os.scandir(folder))


def _bytes_from(path: Place, start: int, end: int) -> bytes:
    if isinstance(path, RemotePath):
        return path.read_bytes(start, end)
    with path.open("rb") as stream:
        stream.seek(start)
        return stream.read(end - start)


def _cost_of(line: bytes) -> Cost:
    with contextlib.suppress(ValueError, KeyError, TypeError):  # a line of another version
        paid = json.loads(line)
        if not paid.get("in_process"):
            return Cost(float(paid["cost_usd"]), int(paid["tokens_in"]) + int(paid["tokens_out"]))
    return Cost()
