"""What ``--input`` names: a folder with records.jsonl, Parquet, or a data set for ``datasets``."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.run_folder import lines_fingerprint
from stages.reading import Source


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
        files = _parquet_files(path)
        if files:
            return _parquet(name, files, path if path.is_dir() else files[0].parent)
    except OSError as error:
        raise InputError(f"cannot read the input {name}: {error.strerror or error}") from error
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
    folder = path.resolve().parent
    return Input(str(folder), (Source("jsonl", str(path.resolve())),), str(folder), fingerprint)


def _parquet_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.parquet"))
    if path.is_file():
        return [path] if path.suffix == ".parquet" else []
    return (
        sorted(found for found in path.parent.glob(path.name) if found.suffix == ".parquet") if "*" in path.name else []
    )


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
