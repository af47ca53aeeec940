"""What ``--input`` names: a folder with records.jsonl, Parquet, or a data set for ``datasets``."""

import hashlib
import logging
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.run_folder import is_run_folder, lines_fingerprint
from stages.reading import Source

_WILDCARD = re.compile(r"[*?\[]")


class InputError(Exception):
    """The input cannot be read; the message says why and what to do."""


@dataclass(frozen=True)
class Input:
    """The sources to read, the folder that relative media paths start from, and what identifies the content."""

    name: str
    sources: tuple[Source, ...]
    media_root: str
    fingerprint: str


def find_input(name: str) -> Input:
    """The input that the command line names. Raises :class:`InputError`."""
    path = Path(name)
    if not name.strip():
        raise InputError("--input is empty")
    try:
        if path.is_dir() and (path / "records.jsonl").is_file():
            return _jsonl(path / "records.jsonl")
        if path.is_file() and path.suffix in (".jsonl", ".json"):
            return _jsonl(path)
        if is_run_folder(path):
            raise InputError(f"{name} is a run folder: name what the run read, or a folder of its shards")
        files, root = _parquet_files(path)
        if files:
            return _parquet(name, files, root)
    except OSError as error:
        raise InputError(f"cannot read the input {name}: {error.strerror or error}") from error
    except ValueError as error:  # a pattern that is none
        raise InputError(f"cannot read the input {name}: {error}") from error
    root = str(path.resolve())
    if path.is_dir() and any(path.iterdir()):
        return Input(name, (Source("datasets", root),), root, _digest(name))
    if path.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise InputError(
            f"{name}: no records.jsonl and no .parquet file there, and it is not a Hugging Face data set id"
        )
    _require_dataset(name)
    return Input(name, (Source("datasets", name),), root, _digest(name))  # no such folder: its rows name no file here


def _require_dataset(name: str) -> None:
    import datasets

    for chatty in ("huggingface_hub", "huggingface_hub.utils._http", "datasets"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)  # its retries would come before the one line of an error
    try:
        datasets.load_dataset_builder(name)
    except Exception as error:  # the library raises many kinds, its own and its HTTP client's
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"{name} is neither a file or folder here nor a data set that can be reached: {reason}"
        ) from error


def _jsonl(path: Path) -> Input:
    with path.open("rb") as stream:
        fingerprint = lines_fingerprint(stream)
    folder = path.parent.resolve()  # not that of the file's target: snapshots from the hub are folders of links
    return Input(str(folder), (Source("jsonl", str(folder / path.name)),), str(folder), fingerprint)


def _parquet_files(path: Path) -> tuple[list[Path], Path]:
    """The Parquet files of a folder, file or glob, and the folder that they are looked for in.

    Run folders below that one are passed over: a run may be written beside what it reads.
    """
    if path.is_file():
        return [path] if path.suffix == ".parquet" else [], path.parent
    if path.is_dir():
        root, found = path, sorted(path.rglob("*.parquet"))
    else:
        root = next(folder for folder in path.parents if not _WILDCARD.search(str(folder)))
        found = sorted(file for file in root.glob(str(path.relative_to(root))) if file.suffix == ".parquet")
    below = {folder for file in found for folder in file.parents} - {root, *root.parents}
    runs = {folder for folder in below if is_run_folder(folder)}
    return [file for file in found if file.is_file() and runs.isdisjoint(file.parents)], root


def _parquet(name: str, files: list[Path], root: Path) -> Input:
    sources, first, digest = [], 1, hashlib.sha256()
    for file in files:
        try:
            rows = pq.read_metadata(file).num_rows
        except pa.ArrowInvalid as error:
            raise InputError(f"{file} is not a Parquet file: {error}") from error
        sources.append(Source("parquet", str(file.resolve()), first))
        first += rows
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return Input(name, tuple(sources), str(root.resolve()), digest.hexdigest())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
