"""Checks whether the files in a run folder are the files that its ``run.json`` lists.

The checks find files that are truncated, replaced or left from another run, before other code reads them.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from groundtrace.schemas.safe_files import own_file, read_json, refuse_special

SHARDS = "*.parquet"


@dataclass(frozen=True)
class FileEntry:
    """Describes a file of a run by its size in bytes and its SHA-256.

    For a shard (Parquet file), ``rows`` is the number of rows, and ``ids_sha256`` is the hash of the rows' ids in
    order. Both are None for other files.
    """

    size_bytes: int
    sha256: str
    rows: int | None = None
    ids_sha256: str | None = None

    @classmethod
    def of(cls, data: bytes) -> "FileEntry":
        """Return the size and the SHA-256 of a file whose content is ``data``, as an entry of ``run.json``. Its
        ``rows`` and ``ids_sha256`` are None.
        """
        return cls(len(data), hashlib.sha256(data).hexdigest())


def problem_of(run: Path, files: Mapping[str, FileEntry], sets: Collection[str], *, digests: bool = False) -> str:
    """Compare the shards (Parquet files of rows) in a run folder with the sizes and hashes that its ``run.json`` lists.
    Returns the first difference in a few words, e.g. "sft/1.parquet is missing", or "" if there is no difference.

    ``run`` is the run folder. ``files`` maps each file name in ``run.json`` to its size and hash. ``sets`` are the sets
    of rows to check, such as "sft" and "rl". Names and sizes are compared. If ``digests`` is True, each file is read
    and its SHA-256 is compared, too. Raises OSError if a file cannot be read, and the errors of :func:`shards_of`.
    """
    for name in sets:
        named = {file for file in files if file.startswith(f"{name}/")}
        found = {f"{name}/{path.name}" for path in shards_of(run, name)}
        for file in sorted(named ^ found):
            return f"{file} is missing" if file in named else f"{file} is not among the files of run.json"
        for file in sorted(named):
            if (problem := _file_problem(run / file, file, files[file], digests)) != "":
                return problem
    return ""


def shards_of(run: Path, name: str, *, accepts_links: bool = False) -> list[Path]:
    """Return the shards (Parquet files) of a set in a run folder, sorted by name; an empty list if there are none.

    ``run`` is the run folder, and ``name`` is the set, such as "sft". Raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if one of the shards is a pipe or a device, because reading it
    would never end. Also raises UnsafeFile if a shard is a link to a file outside the run folder, because a stranger
    may have sent the run with a link to private rows. There is one exception: if ``accepts_links`` is True, links are
    not checked. A caller sets ``accepts_links`` if the caller has made the links, or checks them itself.
    """
    shards = sorted((run / name).glob(SHARDS))
    for shard in shards:
        if not accepts_links:
            own_file(run, str(shard.relative_to(run)))
        refuse_special(shard)
    return shards


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
    """Return the files that the ``run.json`` in the folder ``run`` lists: a mapping from each file name to its size and
    hash.

    The result is None if there is no ``run.json``, or if it has no list of files because an earlier version of the code
    wrote it. Raises ValueError, TypeError, KeyError or AttributeError for a damaged ``run.json``, and
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if it is a link to a file outside the folder.
    """
    file = own_file(run, "run.json")
    if not file.is_file():
        return None
    fields = read_json(file)
    if "files" not in fields:
        return None
    return {str(name): FileEntry(**entry) for name, entry in fields["files"].items()}
