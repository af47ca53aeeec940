"""Reads and writes files on a local disk and in an object store with the same functions.

Only this module distinguishes local paths from the URLs ``s3://`` and ``gs://``. A :data:`Place` is either a
``pathlib.Path`` or a :class:`groundtrace.storage.remote_path.RemotePath`. A RemotePath (a path in a store) has those
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
    """Return whether ``name`` is a URL (a text with ``://`` or a RemotePath); False means a local path."""
    return isinstance(name, RemotePath) or "://" in str(name)


def is_in_store(name: str) -> bool:
    """Return whether ``name`` is a URL of a supported store: ``s3://…`` or ``gs://…``."""
    return name.partition("://")[0] in SCHEMES and "://" in name


def extras_for(names: Iterable[str]) -> set[str]:
    """Return the names of the optional dependencies that are needed to read and write these paths and URLs.

    ``names`` holds the paths and URLs. The result holds extras of this package (``pip install groundtrace[EXTRA]``),
    e.g. ``s3`` for ``s3://bucket/run``. It is empty for local paths.
    """
    return {SCHEMES[name.partition("://")[0]][0] for name in names if is_in_store(name)}


def place(name: str, storage: StorageSettings = STANDARD) -> Place:
    """Return the path object for a name: a RemotePath (a path in a store) for a URL, and a Path for any other name.

    ``storage`` holds the settings of the connection to the store. Raises :class:`StorageError` if a URL has an unknown
    scheme, has no bucket, or contains ``..``, invisible characters or a password.
    """
    if not is_remote(name):
        return Path(name)
    scheme, _, rest = name.partition("://")
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if "@" in rest.partition("/")[0]:
        raise StorageError(
            f"{without_password(name)}: a URL must not contain a key or password: put keys into environment "
            "variables or into the credential files of the store's client"
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
    """Return the path or URL of the file ``below`` in the folder ``name``.

    For example, "s3://bucket/run" and "a.json" give "s3://bucket/run/a.json". The result is a URL if ``name`` is a URL
    of a store, else a local path.
    """
    return f"{name.rstrip('/')}/{below}" if is_in_store(name) else str(Path(name) / below)


def storage_of(target: Place) -> StorageSettings:
    """Return the settings of the connection to the store that holds ``target``.

    If ``target`` is a local path, the result is the default settings.
    """
    return target.storage if isinstance(target, RemotePath) else STANDARD


def arrow_source(target: Place) -> Path | IO[bytes]:
    """Return an object from which pyarrow can read the file ``target``.

    The result is the path itself if it is local. For a remote place, it is a binary stream that can seek.
    """
    return target.open("rb") if isinstance(target, RemotePath) else target


def endpoint_of(name: str, storage: StorageSettings) -> str:
    """Return the URL of the server that stores the file ``name``.

    The URL is read from the settings. If it is not set there, it is read from an environment variable. The result is ""
    if ``name`` is a local path, or if the default server of the provider is used.
    """
    return store_endpoint(name.partition("://")[0], storage) if is_in_store(name) else ""


def write_whole(target: Place, data: bytes | str) -> None:
    """Replace the file ``target`` by ``data``; a text is encoded as UTF-8.

    A process that reads the file at the same time gets either the old contents or the complete new contents.
    """
    if isinstance(target, RemotePath):
        target.write_bytes(data.encode() if isinstance(data, str) else data)
    else:
        write_atomically(target, data)


@contextlib.contextmanager
def written_to(target: Place) -> Iterator[Path]:
    """Yield a local file to write to; it replaces ``target`` when the body of the ``with`` ends.

    If ``target`` is remote, the local file is in the folder for temporary files, and is uploaded when the body ends. If
    the body raises an error, ``target`` is unchanged.
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
    """Check that the bucket of a path in a store exists. Raises :class:`StorageError` if not.

    A local path is not checked.
    """
    if isinstance(target, RemotePath) and not target.bucket.exists():
        name = target.bucket.url.partition("://")[2]
        raise StorageError(f"{target}: there is no bucket {name}: create it, or correct the name")
