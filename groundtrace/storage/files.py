"""Local files that appear complete or not at all, and a folder that one process writes at a time.

This holds for any number of writing processes, and when a process dies.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from groundtrace.schemas.errors import UserError

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.DOTALL)


def write_atomically(path: Path, data: bytes | str, *, durable: bool = False) -> None:
    """Replace ``path`` by the bytes, or by the text as UTF-8. See :func:`written_whole`."""
    with written_whole(path, durable=durable) as unfinished:
        unfinished.write_bytes(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def written_whole(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yields a temporary path beside ``path``; the file is renamed to ``path`` when the body ends.

    A reader sees the old file or the complete new one. The temporary name is unique, so that each of several writers
    puts a complete file there, and the last one stays. If the body raises, its file is removed and the old one stays; a
    process that is killed leaves its file behind (:func:`is_unfinished`). Raises OSError as the file system does.

    With ``durable`` the contents are on the disk before the name is (fsync), so that after a loss of power the file is
    the old or the new one, never a truncated one. That takes milliseconds, so leave it out for files that are cheap to
    make again.
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


def is_unfinished(name: str) -> bool:
    """Whether an interrupted writer left a file of this name behind."""
    return _UNFINISHED.fullmatch(name) is not None


@contextlib.contextmanager
def locked(folder: Path, refusal: type[UserError] = UserError) -> Iterator[None]:
    """Lock a folder, created if missing, for one writing process, by its ``.lock``.

    Raises ``refusal`` if another process holds the lock, or it cannot be written. The operating system frees the lock
    of a process that ends, however it ends; the file stays.
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
