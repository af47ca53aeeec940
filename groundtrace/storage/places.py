"""Handles files on a disk or in a store. Only this module distinguishes local paths from ``s3://`` and ``gs://``.

A :data:`Place` is a ``pathlib.Path`` or a :class:`groundtrace.storage.remote_path.RemotePath`. A RemotePath has those
methods of a Path that an object store can support. This module has functions for the operations that differ between
local and remote places.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeAlias

from groundtrace.schemas.text import without_password
from groundtrace.storage.errors import StorageError, StoreUnavailable
from groundtrace.storage.files import write_atomically, written_whole
from groundtrace.storage.object_store import SCHEMES, STANDARD, StorageSettings
from groundtrace.storage.object_store import endpoint_of as store_endpoint
from groundtrace.storage.remote_path import RemotePath

__all__ = ["STANDARD", "RemotePath", "StorageError", "StorageSettings", "StoreUnavailable"]

Place: TypeAlias = Path | RemotePath


def is_remote(name: object) -> bool:
    """Return whether a name or a place is a URL, and not a local path."""
    return isinstance(name, RemotePath) or "://" in str(name)


def is_in_store(name: str) -> bool:
    """Return whether a name is a URL of a supported store."""
    return name.partition("://")[0] in SCHEMES and "://" in name


def extras_for(names: Iterable[str]) -> set[str]:
    """Return the extras of our package (``pip install groundtrace[extra]``) that places with these names need."""
    return {SCHEMES[name.partition("://")[0]][0] for name in names if is_in_store(name)}


def place(name: str, storage: StorageSettings = STANDARD) -> Place:
    """Return the place with this name: a RemotePath for a URL, and a Path for any other name.

    Raises :class:`StorageError` if a URL has an unknown scheme, has no bucket, or contains ``..``, invisible characters
    or a password.
    """
    if not is_remote(name):
        return Path(name)
    scheme, _, rest = name.partition("://")
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if "@" in rest.partition("/")[0]:
        raise StorageError(
            f"{without_password(name)}: a URL must hold no key or password: give keys in environment variables or "
            f"the store's own files"
        )
    if scheme not in SCHEMES:
        known = " or ".join(f"{each}://" for each in SCHEMES)
        raise StorageError(f"{name}: {scheme}:// is not supported: use a local path, {known}")
    if not parts or rest.startswith("/"):
        raise StorageError(f"{name} has no bucket: write {scheme}://BUCKET/PATH")
    if ".." in parts or not name.isprintable():
        raise StorageError(f"{name}: a URL must not hold .. or invisible characters: remove them")
    return RemotePath(f"{scheme}://{'/'.join(parts)}", storage)


def joined(name: str, below: str) -> str:
    """Return the name of the file ``below`` in the folder ``name``. The result is a URL if ``name`` is a URL."""
    return f"{name.rstrip('/')}/{below}" if is_in_store(name) else str(Path(name) / below)


def storage_of(target: Place) -> StorageSettings:
    """Return the settings of a remote place, or the standard settings for a local path."""
    return target.storage if isinstance(target, RemotePath) else STANDARD


def arrow_source(target: Place) -> Path | IO[bytes]:
    """Return a source from which pyarrow reads a file: a local path, or a stream that can seek."""
    return target.open("rb") if isinstance(target, RemotePath) else target


def endpoint_of(name: str, storage: StorageSettings) -> str:
    """Return the endpoint of a URL's store, from settings and environment variables.

    "" means the provider's default endpoint, or that the name is a local path.
    """
    return store_endpoint(name.partition("://")[0], storage) if is_in_store(name) else ""


def write_whole(target: Place, data: bytes | str) -> None:
    """Replace the file ``target`` by ``data``; a text is encoded as UTF-8.

    A reader sees either the old contents or the complete new contents.
    """
    if isinstance(target, RemotePath):
        target.write_bytes(data.encode() if isinstance(data, str) else data)
    else:
        write_atomically(target, data)


@contextlib.contextmanager
def written_to(target: Place) -> Iterator[Path]:
    """Yield a local file to write, which replaces ``target`` when the body of the ``with`` ends.

    If the body raises, ``target`` is unchanged. If the target is remote, the file is in the folder for temporary files,
    and is uploaded when the body ends.
    """
    if not isinstance(target, RemotePath):
        with written_whole(target) as unfinished:
            yield unfinished
        return
    with tempfile.TemporaryDirectory(prefix="groundtrace-") as folder:
        unfinished = Path(folder) / "upload"
        yield unfinished
        target.upload(unfinished)


def check_bucket(target: Place) -> None:
    """Raise :class:`StorageError` if the bucket of a remote place does not exist."""
    if isinstance(target, RemotePath) and not target.bucket.exists():
        name = target.bucket.url.partition("://")[2]
        raise StorageError(f"{target}: there is no bucket {name}: create it, or correct the name")
