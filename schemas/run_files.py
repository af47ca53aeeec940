"""Checks that the files of a run are those that its ``run.json`` names.

The checks find files that are truncated, replaced or left from another run, before other code reads them.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

SHARDS = "*.parquet"


@dataclass(frozen=True)
class FileEntry:
    """Describes a file of the run: its size in bytes and its SHA-256.

    For a shard, ``rows`` is the number of rows, and ``ids_sha256`` is the digest of the rows' ids in order.
    """

    size_bytes: int
    sha256: str
    rows: int | None = None
    ids_sha256: str | None = None

    @classmethod
    def of(cls, data: bytes) -> "FileEntry":
        """Return the entry of a file with the content ``data``."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


def problem_of(run: Path, files: Mapping[str, FileEntry], sets: Collection[str], *, digests: bool = False) -> str:
    """Return the first difference between the shards of these sets and ``files``; "" if there is no difference.

    ``files`` are the file entries in ``run.json``. The difference is described in a few words. Names and sizes are
    compared. If ``digests`` is True, each file is read and its SHA-256 is compared, too.
    """
    for name in sets:
        named = {file for file in files if file.startswith(f"{name}/")}
        found = {f"{name}/{path.name}" for path in (run / name).glob(SHARDS)}
        for file in sorted(named ^ found):
            return f"{file} is missing" if file in named else f"{file} is not among the files of run.json"
        for file in sorted(named):
            if (problem := _file_problem(run / file, file, files[file], digests)) != "":
                return problem
    return ""


def _file_problem(path: Path, name: str, entry: FileEntry, digests: bool) -> str:
    size_bytes = path.stat().st_size
    if size_bytes != entry.size_bytes:
        return f"{name} has {size_bytes} bytes, but run.json lists {entry.size_bytes}"
    if digests:
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != entry.sha256:
                return f"{name} differs from the file that run.json lists"
    return ""


def files_of(run: Path) -> dict[str, FileEntry] | None:
    """Return the file entries of the ``run.json`` in a folder.

    The result is None if there is no ``run.json``, or if it has no file entries because an earlier version of the code
    wrote it.

    Raises ValueError, TypeError, KeyError or AttributeError for a damaged ``run.json``.
    """
    file = run / "run.json"
    if not file.is_file():
        return None
    fields = json.loads(file.read_text("utf-8"))
    if "files" not in fields:
        return None
    return {str(name): FileEntry(**entry) for name, entry in fields["files"].items()}
