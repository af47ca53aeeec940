"""Copies the content of a trajectory's folder to memory, and restores it after a call that failed.

A trajectory is a series of calls. A call is an execution of model-written code. This code has created the folder's
content, so the content is not trusted. Links are kept and never followed, and pipes are never opened. Folders can be
nested so deeply that the system refuses their paths as too long. So :func:`clear` first moves a nested folder up, and
uses only paths with at most two names below the trajectory's folder.
"""

import contextlib
import itertools
import mmap
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_ENTRIES = 4096
MAX_DEPTH = 64


class FolderError(Exception):
    """Raised if the folder into which the executed code writes exceeds a limit, e.g. on its size.

    Also raised if the folder has an entry that cannot be copied to memory, such as a pipe. The model that wrote the
    code gets the message.
    """


@dataclass(frozen=True)
class Entry:
    """Holds a copy of one file, folder or link.

    Attributes:
        path: the path below the root; empty for the root itself.
        mode: the kind of the entry and its access rights, as ``os.stat`` returns them.
        mtime_ns: the time of the last change, in nanoseconds.
        inode: the inode number. All names (hard links) of a file have the same one.
        content: a file's content, or a link's target. If a file has several names, only its first entry has the
            content.
    """

    path: bytes
    mode: int
    mtime_ns: int
    inode: int
    content: bytes = b""


Copy = tuple[Entry, ...]
"""The entries of a folder: the folder itself (with an empty path) and everything below it. A folder comes before its
content.
"""


def copied(root: bytes, max_bytes: int) -> Copy:
    """Return a copy of the content of the folder ``root``.

    ``max_bytes`` is the maximum size of all files together. A sparse file counts with its full size, since it has this
    size after it has been read and written again.

    Raises FolderError in four cases: the folder has too many files; folders are nested too deeply; an entry is not a
    file, a folder or a link; or the files together have more than ``max_bytes`` bytes.
    """
    entries = [_entry(root, b"", set(), max_bytes)]
    inodes: set[int] = set()
    with contextlib.ExitStack() as closing:
        for path in _paths(root, closing):
            entry = _entry(root, path, inodes, max_bytes)
            max_bytes -= len(entry.content)
            inodes.add(entry.inode)
            entries.append(entry)
            if len(entries) > MAX_ENTRIES + 1:
                raise FolderError(f"the folder has more than {MAX_ENTRIES} files, which is the limit")
    return tuple(entries)


def _paths(root: bytes, closing: contextlib.ExitStack) -> Iterator[bytes]:
    """Yield the paths below the root; the path of a folder comes before the paths in it.

    Folders without the necessary permissions get these permissions. When ``closing`` is closed, the old permissions are
    restored (:func:`_names`). Raises FolderError if folders are nested too deeply.
    """
    waiting = [b""]
    while waiting:
        below = waiting.pop()
        if below.count(b"/") >= MAX_DEPTH:
            raise FolderError(f"folders are nested more than {MAX_DEPTH} deep")
        for name in sorted(_names(os.path.join(root, below), closing)):
            path = os.path.join(below, name)
            yield path
            if _is_folder(os.path.join(root, path)):
                waiting.append(path)


def _names(folder: bytes, closing: contextlib.ExitStack) -> list[bytes]:
    """Return the names in the folder.

    If the folder's owner lacks a permission on the folder, the owner gets this permission. When ``closing`` is closed,
    the old permissions are restored.
    """
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(folder, 0o700)
        closing.callback(os.chmod, folder, mode)
    return os.listdir(folder)


def _entry(root: bytes, path: bytes, inodes: set[int], max_bytes: int) -> Entry:
    full = os.path.join(root, path)
    found = os.lstat(full)
    kept = Entry(path, found.st_mode, found.st_mtime_ns, found.st_ino)
    if stat.S_ISDIR(found.st_mode):
        return kept
    if stat.S_ISLNK(found.st_mode):
        return replace(kept, content=os.readlink(full))
    if not stat.S_ISREG(found.st_mode):
        raise FolderError(f"{path.decode('utf-8', 'replace')} is not a file, folder or link")
    if found.st_ino in inodes:
        return kept
    if found.st_size > max_bytes:
        raise FolderError("the files in the folder are together larger than the limit")
    return replace(kept, content=_content(full))


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
    """Make the content of the folder ``root`` equal to ``copy``, an earlier copy of its files, folders and links.

    A file that still exists is not replaced by a new file: it keeps its inode, and only its content is restored. So if
    the code has the file open, the open file and the file at its path are still the same. ``copy`` is a result of
    :func:`copied`.
    """
    kept = clear(root, copy)
    placed: dict[int, bytes] = {}
    for entry in copy:
        full = os.path.join(root, entry.path)
        if stat.S_ISDIR(entry.mode):
            if entry.path:
                os.mkdir(full, 0o700)
        elif stat.S_ISLNK(entry.mode):
            os.symlink(entry.content, full)
        elif entry.inode in placed:
            os.link(placed[entry.inode], full)
        else:
            if entry.inode in kept:
                os.rename(kept[entry.inode], full)
            _write(full, entry.content)
            placed[entry.inode] = full
    for entry in reversed(copy):  # the content of a folder before the folder, whose time it changes
        full = os.path.join(root, entry.path)
        if not stat.S_ISLNK(entry.mode):
            os.chmod(full, stat.S_IMODE(entry.mode))
        os.utime(full, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)


def _write(full: bytes, content: bytes) -> None:
    """Write ``content`` to the file ``full``, unless the file has the size of ``content``. A missing file is created.

    If the file exists, :func:`_empty_unless` has already compared its content with ``content``. If the content
    differed, the file is now empty. If the content was equal, the file is unchanged, or lacks its last byte. So a file
    with the size of ``content`` already has the right content.
    """
    handle = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        if os.fstat(handle).st_size != len(content):
            file.write(content)


def clear(root: bytes, copy: Copy = ()) -> dict[int, bytes]:
    """Remove all folders, and all files that are not in ``copy``, from the folder ``root``.

    ``copy`` is an earlier copy of the folder's content. The files in it stay, because the code may have them open. They
    get new names directly below the root, so no folder remains. A file whose content now differs from ``copy`` is
    emptied. Returns the new paths of the files, by inode number. Before a folder is removed, its content is moved to
    the root: so even deeply nested folders never need a long path.
    """
    os.chmod(root, 0o700)
    taken = {entry.path for entry in copy}
    names_left = (b"~%d" % number for number in itertools.count())
    fresh = (os.path.join(root, name) for name in names_left if name not in taken)
    contents: dict[int, bytes] = {}
    for entry in copy:
        if stat.S_ISREG(entry.mode):
            contents.setdefault(entry.inode, entry.content)
    kept: dict[int, bytes] = {}
    waiting = [os.path.join(root, name) for name in os.listdir(root)]
    while waiting:
        full = waiting.pop()
        is_folder = _is_folder(full)
        for path in [os.path.join(full, inner) for inner in _opened(full)] if is_folder else [full]:
            found = os.lstat(path)
            is_kept = stat.S_ISREG(found.st_mode) and found.st_ino in contents and found.st_ino not in kept
            if not is_kept and not stat.S_ISDIR(found.st_mode):
                os.unlink(path)
                continue
            new = next(new for new in fresh if not os.path.lexists(new))
            if is_kept:
                os.rename(path, new)
                kept[found.st_ino] = new
                _empty_unless(new, contents[found.st_ino])
            else:
                os.chmod(path, 0o700)
                os.rename(path, new)
                waiting.append(new)
        if is_folder:
            os.rmdir(full)
    return kept


def _opened(folder: bytes) -> list[bytes]:
    os.chmod(folder, 0o700)
    return os.listdir(folder)


def _empty_unless(full: bytes, content: bytes) -> None:
    """Empty the file if its content differs from ``content``, so that :func:`_write` writes it again.

    If the content is equal, only the last byte is cut, and :func:`_write` later writes the content again. The reason
    is data after the end of the file. Code that has mapped the file into memory (mmap) may have changed the bytes
    between the end of the file and the end of its last memory page. When the file is shortened, the kernel sets these
    bytes to 0. There is one exception: a file that fills its last page has no such bytes, and is not changed.
    """
    os.chmod(full, 0o600)
    if os.lstat(full).st_size != len(content) or _content(full) != content:
        os.truncate(full, 0)
    elif len(content) % mmap.PAGESIZE:
        os.truncate(full, len(content) - 1)


def _is_folder(full: bytes) -> bool:
    return stat.S_ISDIR(os.lstat(full).st_mode)
