"""Copies a trajectory's folder to memory, and restores it after a call that failed.

Model-written code has created the folder's content. Therefore links are kept and never followed, pipes are never
opened, and :func:`clear` uses no path of more than two names below the folder, even if folders are deeply nested.
"""

import contextlib
import itertools
import os
import stat
from dataclasses import dataclass

MAX_ENTRIES = 4096
MAX_DEPTH = 64


class FolderError(Exception):
    """The folder exceeds a limit, or has an entry that cannot be kept. The message is for the author of the code."""


@dataclass(frozen=True)
class Entry:
    """A file, folder or link. ``path`` is relative to the root, ``mode`` holds the type and the permissions, and
    ``content`` is a file's content or a link's target.
    """

    path: bytes
    mode: int
    mtime_ns: int
    content: bytes = b""


Copy = tuple[Entry, ...]
"""The entries of a folder and its subfolders; a folder comes before its own content."""


def copied(root: bytes) -> Copy:
    """Returns a copy of the folder's content.

    Raises FolderError for too many files, too deeply nested folders, and an entry that is not a file, folder or link.
    """
    entries: list[Entry] = []
    waiting = [b""]
    with contextlib.ExitStack() as closing:
        while waiting:
            below = waiting.pop()
            if below.count(b"/") >= MAX_DEPTH:
                raise FolderError(f"folders are nested more than {MAX_DEPTH} deep")
            waiting += _look_into(root, below, entries, closing)
    return tuple(entries)


def _look_into(root: bytes, below: bytes, entries: list[Entry], closing: contextlib.ExitStack) -> list[bytes]:
    """Append the entries of the folder ``below`` to ``entries``; returns the paths of the folders in it."""
    folders = []
    for name in sorted(_names(os.path.join(root, below), closing)):
        entry = _entry(root, os.path.join(below, name))
        entries.append(entry)
        if len(entries) > MAX_ENTRIES:
            raise FolderError(f"there are more than {MAX_ENTRIES} files")
        if stat.S_ISDIR(entry.mode):
            folders.append(entry.path)
    return folders


def _names(folder: bytes, closing: contextlib.ExitStack) -> list[bytes]:
    """Returns the names in the folder. If its owner lacks a permission, it is granted until ``closing`` ends."""
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(folder, 0o700)
        closing.callback(os.chmod, folder, mode)
    return os.listdir(folder)


def _entry(root: bytes, path: bytes) -> Entry:
    full = os.path.join(root, path)
    found = os.lstat(full)
    kept = Entry(path, found.st_mode, found.st_mtime_ns)
    if stat.S_ISDIR(found.st_mode):
        return kept
    if stat.S_ISLNK(found.st_mode):
        return Entry(path, found.st_mode, found.st_mtime_ns, os.readlink(full))
    if not stat.S_ISREG(found.st_mode):
        raise FolderError(f"{path.decode('utf-8', 'replace')} is no file, folder or link")
    return Entry(path, found.st_mode, found.st_mtime_ns, _content(full))


def _content(full: bytes) -> bytes:
    try:
        handle = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        mode = os.lstat(full).st_mode
        os.chmod(full, 0o600)
        try:
            handle = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        finally:
            os.chmod(full, stat.S_IMODE(mode))
    with os.fdopen(handle, "rb") as file:
        return file.read()


def restore(root: bytes, copy: Copy) -> None:
    """Replace the folder's content by that of the copy."""
    clear(root)
    for entry in copy:
        full = os.path.join(root, entry.path)
        if stat.S_ISDIR(entry.mode):
            os.mkdir(full, 0o700)
        elif stat.S_ISLNK(entry.mode):
            os.symlink(entry.content, full)
        else:
            handle = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(entry.content)
    for entry in reversed(copy):  # what is in a folder before the folder, which it changes
        full = os.path.join(root, entry.path)
        if not stat.S_ISLNK(entry.mode):
            os.chmod(full, stat.S_IMODE(entry.mode))
        os.utime(full, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)


def clear(root: bytes) -> None:
    """Remove the folder's whole content. Nested folders are first moved to the root, so that paths stay short."""
    os.chmod(root, 0o700)
    fresh = (os.path.join(root, b"~%d" % number) for number in itertools.count())
    while names := os.listdir(root):
        for name in names:
            full = os.path.join(root, name)
            if not _is_folder(full):
                os.unlink(full)
                continue
            os.chmod(full, 0o700)
            for inner in os.listdir(full):
                path = os.path.join(full, inner)
                if _is_folder(path):
                    os.chmod(path, 0o700)
                    os.rename(path, next(new for new in fresh if not os.path.lexists(new)))
                else:
                    os.unlink(path)
            os.rmdir(full)


def _is_folder(full: bytes) -> bool:
    return stat.S_ISDIR(os.lstat(full).st_mode)
