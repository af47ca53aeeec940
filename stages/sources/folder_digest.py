"""Computes the identity of a local folder that the library ``datasets`` reads, from the folder's content."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from groundtrace.schemas.safe_files import is_elsewhere, read_json
from groundtrace.stages.sources.data_folders import INFO, STATE, saved_files
from groundtrace.stages.sources.images import IMAGE_ENDS

_HEADER = ".huggingface.yaml"
"""The hidden file that the library reads, because it may name the data files."""
_MEDIA_ENDS = IMAGE_ENDS | {".mp4", ".mov", ".mkv", ".webm", ".avi", ".wav", ".mp3", ".flac"}
_IN_INFO = ("features",)
_NOT_IN_STATE = ("_fingerprint",)
"""The library's own identity of a saved data set. It can differ between two copies with the same rows."""


def folder_digest(folder: Path) -> str:
    """Return a digest of the content of a data set in a local folder, as 64 hexadecimal digits.

    The digest does not depend on the path of the folder. If ``save_to_disk`` wrote the data set, only the files that
    the data set lists are counted, since the library keeps other files (e.g. ``cache-*.arrow``) in the same folder.
    Otherwise all files below the folder are counted, except hidden ones. A file is counted with its path in the folder
    and its content; an image, a video or a sound only with its path and size. A link out of the folder is counted with
    its target's path and is not followed. Raises OSError if a file cannot be read.
    """
    saved = saved_files(folder)
    digest = hashlib.sha256()
    for file in _files(folder) if saved is None else saved:
        content = _content(file, folder, is_saved=saved is not None)
        digest.update(os.fsencode(file.relative_to(folder)) + b"\0" + content + b"\n")
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in the order of their paths, without those that the library does not read."""
    for file in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "__")) for part in file.relative_to(folder).parts)
        if (not hidden or file == folder / _HEADER) and file.is_file():
            yield file


def _content(file: Path, folder: Path, is_saved: bool) -> bytes:
    """Return bytes that identify the content of a file in the folder ``folder``.

    ``is_saved`` is True if ``save_to_disk`` wrote the folder, so that the folder has JSON files of the library.
    """
    if is_elsewhere(file, folder):
        return os.fsencode(file.readlink() if file.is_symlink() else file.resolve())
    if is_saved and file.name == STATE:
        return _json({key: value for key, value in read_json(file).items() if key not in _NOT_IN_STATE})
    if is_saved and file.name == INFO:
        return _json({key: value for key, value in read_json(file).items() if key in _IN_INFO})
    if file.suffix.lower() in _MEDIA_ENDS:
        return str(file.stat().st_size).encode()
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
