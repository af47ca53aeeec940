"""Lists, downloads, uploads and deletes the segments of a shared reply cache. A segment is a compressed file with
replies that one machine has uploaded.

The cache's location is a local folder or a URL of a store (:mod:`groundtrace.storage.places`).
"""

import os
import re
import shutil
import uuid
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from groundtrace.inference.cache.log import stamp
from groundtrace.storage.files import written_whole
from groundtrace.storage.places import STANDARD, Place, RemotePath, StorageSettings, place

NAME = re.compile(r"\d{8}T\d{12}-[0-9a-f]{32}\.jsonl\.zz")
CHUNK_BYTES = 2**20


class TornSegment(Exception):
    """Raised if a segment (a compressed file with replies of a shared cache) is truncated or damaged."""


class SegmentFiles:
    """Lists, downloads, uploads and deletes the segments of a shared cache. A segment is a compressed file with replies
    in the folder ``segments`` at ``location`` (a folder path or a URL). ``storage`` holds the settings of the object
    storage.

    The methods raise OSError if the location cannot be reached. The constructor raises
    :class:`groundtrace.storage.places.StorageError` for a URL that no store supports.
    """

    def __init__(self, location: str, storage: StorageSettings = STANDARD) -> None:
        self.location = location
        self._folder: Place = place(location, storage) / "segments"

    def sizes_bytes(self) -> tuple[dict[str, int], int]:
        """Return two values. The first is a dict from the name of each segment (a compressed file with replies) to its
        size in bytes, oldest segment first. The second is the number of other files in the folder. Temporary files
        (``.tmp``) are not counted.
        """
        found = dict(self._listed())
        ours = {name: found[name] for name in sorted(found) if NAME.fullmatch(name)}
        foreign = [name for name in found if name not in ours and not name.endswith(".tmp")]
        return ours, len(foreign)

    def fetch(self, name: str, target: Path) -> None:
        """Download and decompress the segment ``name`` (a compressed file with replies), and write its lines to the
        local file ``target``. The file appears only when it is complete. Raises :class:`TornSegment` if the segment is
        damaged, and FileNotFoundError if it does not exist any more.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        unpacker = zlib.decompressobj()
        with written_whole(target) as unfinished, self._open(name) as source, unfinished.open("wb") as stream:
            try:
                while not unpacker.eof and (data := source.read(CHUNK_BYTES)):
                    while data and not unpacker.eof:  # in pieces of bounded size, whatever the compression ratio is
                        stream.write(unpacker.decompress(data, CHUNK_BYTES))
                        data = unpacker.unconsumed_tail
            except zlib.error as error:
                raise TornSegment(f"the segment {name} of the shared reply cache is damaged: {error}") from error
            if not unpacker.eof:
                raise TornSegment(f"the segment {name} of the shared reply cache is truncated")

    def store(self, lines: Iterable[bytes], scratch: Path) -> str:
        """Compress ``lines``, which are log lines with one reply each, upload them as a new segment, and return the
        segment's name. The compressed file is written to the local folder ``scratch`` before it is uploaded, and
        deleted there afterwards.
        """
        name = f"{stamp()}-{uuid.uuid4().hex}.jsonl.zz"
        packed = scratch / f".{name}.tmp"
        try:
            with packed.open("wb") as stream:
                packer = zlib.compressobj(1)
                for line in lines:
                    stream.write(packer.compress(line))
                stream.write(packer.flush())
            self._store(packed, name)
        finally:
            packed.unlink(missing_ok=True)
        return name

    def delete(self, names: Iterable[str]) -> None:
        """Delete the segments (files with replies) with these names. Names that do not exist are ignored."""
        for name in names:
            (self._folder / name).unlink(missing_ok=True)

    def _listed(self) -> Iterator[tuple[str, int]]:
        if isinstance(self._folder, RemotePath):
            for path, stat in self._folder.listed().items():
                if stat is not None:
                    yield path.name, stat.st_size
            return
        if not self._folder.exists() and not self._folder.parent.exists():
            return
        try:
            for entry in os.scandir(self._folder):
                if entry.is_file():
                    yield entry.name, entry.stat().st_size
        except FileNotFoundError:
            return

    def _open(self, name: str) -> IO[bytes]:
        return (self._folder / name).open("rb")

    def _store(self, packed: Path, name: str) -> None:
        if isinstance(self._folder, RemotePath):
            (self._folder / name).upload(packed)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with written_whole(self._folder / name, durable=True) as unfinished:
            shutil.copyfile(packed, unfinished)
