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

    A reader sees either the old file or the complete new one. :func:`written_whole` describes ``durable``.
    """
    with written_whole(path, durable=durable) as unfinished:
        unfinished.write_bytes(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def written_whole(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; the file is renamed to ``path`` when the body of the ``with`` ends.

    A reader sees the old file or the complete new one. The temporary name is unique. If several processes write, each
    of them puts a complete file at ``path``, and the last file remains. If the body raises, the temporary file is
    removed and the old file remains. A killed process leaves its temporary file behind (:func:`is_unfinished`). Raises
    the file system's OSError.

    If ``durable`` is true, the contents are written to the disk (fsync) before the file is renamed. So after a power
    failure, the file is the old or the new one, never a truncated one. This takes milliseconds. Files that are cheap to
    make again do not need ``durable``.
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
    """Yield a new folder beside ``out``; it is renamed to ``out`` when the body of the ``with`` ends.

    If the body raises, the new folder is removed and ``out`` is unchanged. A killed process leaves the new folder
    behind, under a temporary name. Raises UserError if ``out`` exists and is not an empty folder, or if it cannot be
    written.
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
    """Return whether a file of this name was left behind by an interrupted writer."""
    return _UNFINISHED.fullmatch(name) is not None


@contextlib.contextmanager
def locked(folder: Path, refusal: type[UserError] = UserError) -> Iterator[None]:
    """Lock a folder for one writing process, by a file ``.lock`` in it; the folder is created if it is missing.

    Raises an error of the class ``refusal`` if another process holds the lock, or if the lock cannot be written. The
    operating system releases the lock when the process ends, even if it is killed. The file ``.lock`` stays.
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
