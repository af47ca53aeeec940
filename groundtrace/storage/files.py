"""Writes local files so that they appear complete or not at all, and locks a folder for one writing process.

The functions work with any number of processes, even if one of the processes is killed.
"""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from groundtrace.schemas.errors import UserError

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.DOTALL)


def write_atomically(path: Path, data: bytes | str, *, durable: bool = False) -> None:
    """Replace the file ``path`` by ``data``; a text is encoded as UTF-8.

    A process that reads the file at the same time gets either the old file or the complete new one. If ``durable`` is
    True, the data is forced to the disk (fsync) first, so that a power failure cannot leave a truncated file.
    """
    with written_whole(path, durable=durable) as unfinished:
        unfinished.write_bytes(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def written_whole(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to; the temporary file replaces ``path`` when the body of the ``with`` ends.

    The temporary file is in the same folder as ``path``, with a unique name. A process that reads ``path`` at the same
    time gets either the old file or the complete new one. If several processes write ``path``, the file that was
    completed last remains.

    If the body raises an error, the temporary file is removed and the old file remains. A killed process leaves its
    temporary file behind; :func:`is_unfinished` recognises such a file. Raises OSError if the file system fails.

    If ``durable`` is True, the data is forced to the disk (fsync) before the file is renamed, so that a power failure
    cannot leave a truncated file. This takes milliseconds. It is not needed for files that are cheap to make again.
    """
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield unfinished
        if durable:
            _sync(unfinished)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a new temporary folder; it is renamed to ``out`` when the body of the ``with`` ends.

    The temporary folder has the same parent folder as ``out``. If the body raises an error, the temporary folder is
    removed and ``out`` is unchanged. A killed process leaves the temporary folder behind. Raises UserError if ``out``
    is a file or a folder with content, or if the temporary folder cannot be created.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} already exists: choose another folder as OUT")
    final = out.resolve()  # OUT may be ".", or a link to an empty folder
    unfinished = final.with_name(f".{final.name}.{uuid.uuid4().hex}.tmp")
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}: choose another folder as OUT") from error
    try:
        yield unfinished
        unfinished.replace(final)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def is_unfinished(name: str) -> bool:
    """Return whether ``name`` is the name of a temporary file that :func:`written_whole` or :func:`new_folder` creates.

    A file or folder with such a name is left behind if the writing process was killed.
    """
    return _UNFINISHED.fullmatch(name) is not None


@contextlib.contextmanager
def locked(folder: Path, refusal: type[UserError] = UserError) -> Iterator[None]:
    """Lock a folder while the body of the ``with`` runs, so that only one process writes to it.

    The lock is a file ``.lock`` in the folder. The folder is created if it is missing. The operating system releases
    the lock when the process ends, even if it is killed. The file ``.lock`` stays. ``refusal`` is the class of the
    error that is raised if another process holds the lock, or if the lock file cannot be written.
    """
    lock = FileLock(folder / ".lock", blocking=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise refusal(
            f"another process is writing {folder}: wait until it has ended, or choose another folder"
        ) from error
    except OSError as error:
        raise refusal(f"cannot write {folder}: {error.strerror or error}: choose another folder") from error
    try:
        yield
    finally:
        lock.release()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
