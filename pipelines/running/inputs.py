"""What ``--input`` names: a folder with records.jsonl, Parquet, or a data set for ``datasets``."""

import contextlib
import difflib
import hashlib
import itertools
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.running.run_folder import is_run_folder, lines_fingerprint, local_path
from schemas.errors import UserError
from stages.sources.reading import OPTIONAL_FIELDS, RowSettings, Source, open_data_set

AS_IT_IS = RowSettings()
_LINES_LOOKED_AT = 1000
_WILDCARD = re.compile(r"[*?\[]")


class InputError(UserError):
    """The input cannot be read; the message says why and what to do."""


@dataclass(frozen=True)
class Input:
    """The sources to read, the folder that relative media paths start from, and what identifies the content."""

    name: str
    sources: tuple[Source, ...]
    media_root: str
    fingerprint: str


def find_input(name: str, rows: RowSettings = AS_IT_IS) -> Input:
    """The input that the command line names, read as ``rows`` says.

    Raises :class:`InputError`, also for columns and a split that the input is seen not to have.
    """
    path = local_path(name)
    if not name.strip():
        raise InputError("--input is empty")
    try:
        if path.is_dir() and (path / "records.jsonl").is_file():
            return _jsonl(path / "records.jsonl", rows)
        if path.is_file() and path.suffix in (".jsonl", ".json"):
            return _jsonl(path, rows)
        if is_run_folder(path):
            raise InputError(f"{name} is a run folder: name what the run read, or a folder of its shards")
        files, root = _parquet_files(path)
        if files:
            return _parquet(name, files, root, rows)
        return _data_set(name, path, rows)
    except OSError as error:
        raise InputError(f"cannot read the input {name}: {error.strerror or error}") from error
    except ValueError as error:  # a pattern that is none
        raise InputError(f"cannot read the input {name}: {error}") from error


def _data_set(name: str, path: Path, rows: RowSettings) -> Input:
    root = str(path.resolve())
    is_here = path.is_dir() and any(path.iterdir())
    if not is_here and (path.is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise InputError(
            f"{name}: no records.jsonl and no .parquet file there, and it is not a Hugging Face data set id"
        )
    source = Source("datasets", root if is_here else name)
    _check_columns(rows, _columns_of_data_set(source.path, rows))
    return Input(name, (source,), root, _digest(name))  # by id there is no such folder: its rows name no file here


def _columns_of_data_set(name: str, rows: RowSettings) -> list[str]:
    """The columns of a data set, none where they are not known before it is read."""
    for chatty in ("huggingface_hub", "huggingface_hub.utils._http", "datasets"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)  # its retries would come before the one line of an error
    try:
        return list(open_data_set(name, rows).features or ())
    except Exception as error:  # the library raises many kinds, its own and its HTTP client's
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, ValueError):
            chosen = f"input.split = {rows.split!r}" + (f" and input.name = {rows.name!r}" if rows.name else "")
            raise InputError(f"{name} cannot be read with {chosen}: {reason}") from error
        if Path(name).is_absolute():
            raise InputError(
                f"{name}: no records.jsonl and no .parquet file there, and no data set: {reason}"
            ) from error
        raise InputError(
            f"{name} is neither a file or folder here nor a data set that can be reached: {reason}"
        ) from error


def _check_columns(rows: RowSettings, known: Iterable[str]) -> None:
    """Refuse a column map with a column that is not among the known ones; none known refuses nothing."""
    names = sorted(set(known))
    for field, column in rows.columns.items():
        if names and column not in names:
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"its columns are {', '.join(names)}"
            raise InputError(f"input.columns.{field}: the input has no column {column!r}; {hint}")


def _jsonl(path: Path, rows: RowSettings) -> Input:
    _refuse_whole_json(path)
    with path.open("rb") as stream:
        fingerprint = lines_fingerprint(stream)
    if rows.columns:
        _check_columns(rows, _keys_of_lines(path, rows))
    folder = path.parent.resolve()  # not that of the file's target: snapshots from the hub are folders of links
    return Input(str(folder), (Source("jsonl", str(folder / path.name)),), str(folder), fingerprint)


def _refuse_whole_json(path: Path) -> None:
    """Refuse a file that is one JSON array, or one object over many lines: each of its lines would be a bad record."""
    with path.open("rb") as stream:
        first = next((line.strip() for line in stream if line.strip(b"\xef\xbb\xbf \t\r\n")), b"")
    first = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if first in (b"[", b"{") or (first.startswith(b"[") and first[1:].lstrip().startswith(b"{")):
        raise InputError(
            f"{path} is a JSON document; JSON Lines is expected, one object a line, as `jq -c '.[]'` makes of an array"
        )


def _keys_of_lines(path: Path, rows: RowSettings) -> set[str]:
    """The keys of the first records; those of fields that a record may lack count as seen."""
    keys: set[str] = set()
    with path.open("rb") as stream:
        for line in itertools.islice(stream, _LINES_LOOKED_AT):
            with contextlib.suppress(ValueError, RecursionError):
                record = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
                keys.update(record if isinstance(record, dict) else ())
    lacking = {*OPTIONAL_FIELDS, *rows.constants}
    return keys and keys | {column for field, column in rows.columns.items() if field in lacking}


def _parquet_files(path: Path) -> tuple[list[Path], Path]:
    """The Parquet files of a folder, file or glob, and the folder that they are looked for in.

    Run folders below that one are passed over: a run may be written beside what it reads.
    """
    if path.is_file():
        return [path] if path.suffix == ".parquet" else [], path.parent
    if path.is_dir():
        root, found = path, sorted(path.rglob("*.parquet"))
    else:
        root = next(folder for folder in path.parents if folder.is_dir() or not _WILDCARD.search(str(folder)))
        found = sorted(file for file in root.glob(str(path.relative_to(root))) if file.suffix == ".parquet")
    below = {folder for file in found for folder in file.parents} - {root, *root.parents}
    runs = {folder for folder in below if is_run_folder(folder)}
    return [file for file in found if file.is_file() and runs.isdisjoint(file.parents)], root


def _parquet(name: str, files: list[Path], root: Path, rows: RowSettings) -> Input:
    sources, first, digest, columns = [], 1, hashlib.sha256(), set()
    for file in files:
        try:
            metadata = pq.read_metadata(file)
        except pa.ArrowInvalid as error:
            raise InputError(f"{file} is not a Parquet file: {error}") from error
        sources.append(Source("parquet", str(file.resolve()), first))
        first += metadata.num_rows
        columns.update(metadata.schema.to_arrow_schema().names)
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    _check_columns(rows, columns)
    return Input(name, tuple(sources), str(root.resolve()), digest.hexdigest())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
