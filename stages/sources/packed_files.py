"""Refuses compressed files and oversized archives in a data folder, before the library ``datasets`` unpacks them.

The folder may come from a stranger. A compressed file of some megabytes may hold a line of many gigabytes, and the
library reads a line as a whole. So compressed files are refused, as they are for JSON Lines. Zip archives are allowed
up to a maximum size. An archive states the size of each file in it, and Python never unpacks more bytes of a file than
the stated size.
"""

import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from groundtrace.schemas.safe_files import MAX_TEXT_BYTES
from groundtrace.stages.sources.base import InputError

MAX_ARCHIVE_BYTES: Final = 100 * 2**30
"""The maximum size of all files in an archive together, after unpacking."""
_PACKED: Final = (
    (".gz", b"\x1f\x8b", "gunzip"),
    (".bz2", b"BZh", "bunzip2"),
    (".xz", b"\xfd7zXZ\0", "unxz"),
    (".lzma", b"\x5d\x00\x00\x80", "unlzma"),
    (".zst", b"\x28\xb5\x2f\xfd", "unzstd"),
    (".lz4", b"\x04\x22\x4d\x18", "unlz4"),
    (".7z", b"7z\xbc\xaf\x27\x1c", "7z x"),
    (".rar", b"Rar!", "unrar x"),
)
"""The ending of each kind of compressed file, its first bytes, and the command that unpacks it."""
_HEAD_BYTES: Final = max(len(magic) for _, magic, _ in _PACKED)


def refuse_packed(files: Iterable[str], media: Collection[str]) -> None:
    """Raise InputError for the first compressed file, and for the first zip archive that may not be read.

    ``files`` are the paths of data files, and ``media`` are the endings of media files in archives, such as ".png". An
    archive may not be read in these cases:

    - It holds a name with ``::``.
    - It holds a compressed file.
    - It holds a file of more than :data:`MAX_TEXT_BYTES` bytes that is not a medium.
    - Its unpacked files have more than :data:`MAX_ARCHIVE_BYTES` bytes in all.

    Raises the errors of ``zipfile``.
    """
    for file in files:
        with Path(file).open("rb") as stream:
            if command := _unpacker(file, stream.read(_HEAD_BYTES)):
                raise InputError(f"the data file {file} is compressed: unpack it with `{command}` first")
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                _check_archive(file, archive, media)


def _unpacker(name: str, head: bytes) -> str:
    """Return the command that unpacks a compressed file; "" for another file.

    ``name`` is the name of the file, and ``head`` holds its first bytes.
    """
    lower = name.lower()
    return next((each for end, magic, each in _PACKED if lower.endswith(end) or head.startswith(magic)), "")


def _check_archive(file: str, archive: zipfile.ZipFile, media: Collection[str]) -> None:
    members = archive.infolist()
    chain = next((member.filename for member in members if "::" in member.filename), None)
    if chain is not None:
        raise InputError(
            f"the archive {file} holds the file {chain!r}, whose name has '::', so the package `datasets` would open "
            "another file: rename this file in the archive"
        )
    if sum(member.file_size for member in members) > MAX_ARCHIVE_BYTES:
        raise InputError(f"the archive {file} holds more than {MAX_ARCHIVE_BYTES} bytes: unpack it with `unzip` first")
    for member in members:
        if member.is_dir() or PurePosixPath(member.filename).suffix.lower() in media:
            continue
        if member.file_size > MAX_TEXT_BYTES:
            raise InputError(
                f"the archive {file} holds the file {member.filename!r} of more than {MAX_TEXT_BYTES} bytes: unpack it "
                "with `unzip` first"
            )
        with archive.open(member) as stream:
            if command := _unpacker(member.filename, stream.read(_HEAD_BYTES)):
                raise InputError(
                    f"the archive {file} holds the compressed file {member.filename!r}: unpack both, with `unzip` and "
                    f"`{command}`"
                )
