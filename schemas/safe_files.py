"""Opens files of a folder that another person may have sent, such as a run folder.

The sender decides what the folder contains. An entry may be a link to a file of the user, a pipe that nobody writes to,
or a device without an end. Therefore commands read only regular files that are in such a folder, and never write or
delete through a link in it. The folder itself may be a link, because the user has named it.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from groundtrace.schemas.errors import UserError

MAX_TEXT_BYTES = 256 * 2**20
"""The maximum size of a text that is read into memory as a whole. Few of these texts have more than a megabyte."""

MAX_JSON_BYTES = 64 * 2**20
"""The maximum size of a JSON file that is read into memory as a whole."""
MAX_BRACKETS = 3_000_000
"""The maximum number of lists and objects in a JSON file. The size of the file alone does not limit the use of RAM: an
empty list or object takes three bytes of the file, but 64 bytes of RAM.
"""
_SMALLER = "replace it by a smaller file, or move it out of its folder"


class UnsafeFile(UserError):
    """Raised if a file or folder of a run is a link, a pipe or a device, or if a text file is too large to be read."""


def refuse_links(root: Path, *names: str) -> None:
    """Raise :class:`UnsafeFile` if a file or folder below ``root`` is a link, or lies in a folder that is a link.

    ``names`` are paths relative to ``root``, e.g. "cache/log". Missing files are accepted. Call this function before
    files of these names are written or deleted. ``root`` itself and the folders above it may be links.
    """
    for name in names:
        path = root
        for part in Path(name).parts:
            path /= part
            if path.is_symlink():
                raise UnsafeFile(
                    f"{path} is a link, but Groundtrace writes and deletes nothing in {root} through a link: replace "
                    "the link by the file or folder to which it leads, or remove it"
                )


def is_inside(file: Path, root: Path) -> bool:
    """Return whether ``file`` is in the folder ``root``, or in the ``blobs`` of the data set that contains ``root``.

    The cache of the Hugging Face Hub has one folder for each data set. In this folder, the subfolders
    ``snapshots/<revision>/`` hold links to the files in the subfolder ``blobs``. So the files in ``blobs`` are accepted
    if ``root`` is a folder ``snapshots/<revision>/``, or is inside one. ``file`` and ``root`` must be resolved paths,
    i.e. without links.
    """
    if file.is_relative_to(root):
        return True
    snapshots = [folder.parent for folder in (root, *root.parents) if folder.parent.name == "snapshots"]
    return any(file.parent == folder.parent / "blobs" for folder in snapshots)


def is_elsewhere(path: Path, folder: Path) -> bool:
    """Return whether a path in a folder leads out of the folder, because the path or a folder above it is a link.

    The folder itself may be a link. As an exception, a link may lead to a file in the ``blobs`` of the same Hub data
    set (:func:`is_inside`). The result is False for links that form a cycle, which cannot be opened.
    """
    try:
        target, root = path.resolve(), folder.resolve()
    except RuntimeError:  # Python before 3.13 raises it for a cycle of links
        return False
    return not (target.is_relative_to(root) if target.is_dir() else is_inside(target, root))


def own_file(root: Path, name: str) -> Path:
    """Return the path of the file ``name`` in the folder ``root``, for reading. The file may be missing.

    ``name`` is the path relative to ``root``, e.g. "reviews/audit.json". Raises :class:`UnsafeFile` if a link leads to
    a file outside ``root`` (:func:`is_elsewhere`): through such a link, a private file of the user could get into a
    published data set or a page. Links to files in ``root`` are accepted, and ``root`` itself may be a link.
    """
    path = root / name
    if is_elsewhere(path, root):
        above = [root.joinpath(*path.relative_to(root).parts[:depth]) for depth in range(1, len(Path(name).parts))]
        link = next((each for each in above if each.is_symlink() and is_elsewhere(each, root)), path)
        raise UnsafeFile(
            f"{link} is a link to a place outside {root}, so nothing is read through it: replace the link by a copy of "
            "the file or folder to which it leads, or remove it"
        )
    return path


def opened_regular(path: Path) -> BinaryIO:
    """Open the regular file ``path`` for reading, and return it. A link to a regular file is accepted.

    Raises :class:`UnsafeFile` for a pipe or a device, without waiting for it, and OSError if the file cannot be opened,
    e.g. FileNotFoundError, or IsADirectoryError for a folder.
    """
    return os.fdopen(_opened(path, os.O_RDONLY), "rb")


def read_regular(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Return the content of the regular file ``path``.

    Raises :class:`UnsafeFile` for a pipe, a device, and a file of more than ``max_bytes`` bytes. Raises OSError if the
    file cannot be read.
    """
    with opened_regular(path) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnsafeFile(f"{path} has more than {max_bytes} bytes, so it is not read: {_SMALLER}")
    return data


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Return the value of the JSON file ``path``.

    Raises ValueError if the file is not JSON in UTF-8, or is nested too deeply. Raises :class:`UnsafeFile` if the file
    has more than ``max_bytes`` bytes or more than :data:`MAX_BRACKETS` opening brackets, and the errors of
    :func:`read_regular`.
    """
    data = read_regular(path, max_bytes)
    if data.count(b"[") + data.count(b"{") > MAX_BRACKETS:
        raise UnsafeFile(f"{path} has more than {MAX_BRACKETS} lists and objects, so it is not read: {_SMALLER}")
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def opened_for_writing(root: Path, name: str, *, truncate: bool = False) -> BinaryIO:
    """Open a file for reading and appending, and return it. The file is created if it is missing.

    ``name`` is the file's path relative to the folder ``root``. If ``truncate`` is True, the old content is deleted.
    Raises :class:`UnsafeFile` if the file or a folder between ``root`` and the file is a link, and if the file is a
    pipe or a device. Raises OSError if the file cannot be opened.
    """
    refuse_links(root, name)
    handle = _opened(root / name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
    if truncate:
        os.ftruncate(handle, 0)
    return os.fdopen(handle, "ab+")


def refuse_special(path: Path) -> None:
    """Raise :class:`UnsafeFile` if ``path`` is a pipe, a device or a socket. A missing file is accepted.

    Call this function before a library opens the file by its path.
    """
    try:
        mode = path.stat().st_mode
    except OSError:  # the library's own error names the cause
        return
    _check(path, mode)


def _opened(path: Path, flags: int) -> int:
    """Open the regular file ``path``, and return its file descriptor. ``flags`` are those of ``os.open``.

    Raises :class:`UnsafeFile` for a pipe or a device, without waiting for another process to open a pipe.
    """
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        _check(path, mode)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return handle


def _check(path: Path, mode: int) -> None:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
    if kind := kinds.get(stat.S_IFMT(mode)):
        raise UnsafeFile(f"{path} is not a regular file, but {kind}: move it away")
