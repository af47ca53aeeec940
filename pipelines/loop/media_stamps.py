"""Notices media (images and clips) of the input that have changed since ``beam loop`` divided the questions.

The parts of a divided input have hard links to the user's media. If a file is overwritten in place, the questions of
the parts change, too, and with them all results. So the loop stores the size, the time of the last change and the
SHA-256 of each file, and compares them when the loop is continued. A file is read only if its size or time differs.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from groundtrace.schemas.safe_files import opened_regular, read_json

PIECE_BYTES = 2**20
MAX_STAMPS_BYTES = 2**30
STAMPS = "media.json"
"""The name of the file, in the folder of the questions, with the stamps of all local media."""


def write_stamps(folder: Path, root: Path, names: Iterable[str]) -> None:
    """Write the size, the time of the last change and the SHA-256 of each media file into the folder of the questions.

    ``folder`` is the folder of the questions. ``root`` is the folder of the input, and ``names`` are the paths of the
    media files below ``root``.
    """
    stamps = {name: [*_times(root / name), _sha256(root / name)] for name in sorted(names)}
    (folder / STAMPS).write_text(json.dumps(stamps) + "\n", "utf-8")


def changed_medium(folder: Path, root: Path) -> Path | None:
    """Return the path of the first media file of the input that has changed; None if there is none.

    A file has changed if its SHA-256 differs from the one that :func:`write_stamps` has written.

    A file that was removed from the input does not count as changed, because the divided questions still have a link to
    it. ``folder`` is the folder of the questions, and ``root`` is the folder of the input. Raises OSError or ValueError
    if a file cannot be read.
    """
    stamps: Mapping[str, Any] = read_json(folder / STAMPS, MAX_STAMPS_BYTES) if (folder / STAMPS).exists() else {}
    if not isinstance(stamps, dict):
        raise ValueError(f"{folder / STAMPS} is damaged")
    for name, (size, mtime_ns, sha256) in stamps.items():
        path = root / name
        if path.is_file() and _times(path) != (size, mtime_ns) and _sha256(path) != sha256:
            return path
    return None


def _times(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with opened_regular(path) as stream:
        while piece := stream.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
