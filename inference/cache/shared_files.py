"""The segments of a shared cache as files: listed, fetched, stored and deleted, locally mounted or behind a scheme.

A location that contains ``://`` is reached through Beam's filesystems, any other through the local file system.
"""

import errno
import os
import re
import shutil
import uuid
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from inference.cache.log import stamp
from schemas.files import written_whole

NAME = re.compile(r"\d{8}T\d{12}-[0-9a-f]{32}\.jsonl\.zz")
CHUNK_BYTES = 2**20
_WRITES_APPEAR_WHOLE = ("gs://", "s3://", "azfs://")


class TornSegment(Exception):
    """The file is not a whole segment."""


class SegmentFiles:
    """The folder ``segments`` at a location. Every method but the constructor raises OSError when it cannot be reached.

    Raises ValueError for a remote location with ``*``, ``?`` or ``[`` in it: Beam would read it as a pattern.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._remote = "://" in location
        if self._remote and any(sign in location for sign in "*?["):
            raise ValueError(f"the location of a reply cache must not hold a pattern: {location!r}")

    def sizes_bytes(self) -> tuple[dict[str, int], int]:
        """Name and size of each segment in the order of time, and how many other files lie there."""
        found = dict(self._listed_remote() if self._remote else self._listed_local())
        ours = {name: found[name] for name in sorted(found) if NAME.fullmatch(name)}
        foreign = [name for name in found if name not in ours and not name.endswith(".tmp")]
        return ours, len(foreign)

    def fetch(self, name: str, target: Path) -> None:
        """Write the segment's lines to ``target``, which appears whole. Raises :class:`TornSegment`."""
        target.parent.mkdir(parents=True, exist_ok=True)
        unpacker = zlib.decompressobj()
        with written_whole(target) as unfinished, self._open(name) as source, unfinished.open("wb") as stream:
            try:
                while not unpacker.eof and (data := source.read(CHUNK_BYTES)):
                    while data and not unpacker.eof:  # a bounded piece at a time, however much it unpacks to
                        stream.write(unpacker.decompress(data, CHUNK_BYTES))
                        data = unpacker.unconsumed_tail
            except zlib.error as error:
                raise TornSegment(f"{name}: {error}") from error
            if not unpacker.eof:
                raise TornSegment(f"{name} ends early")

    def store(self, lines: Iterable[bytes], scratch: Path) -> str:
        """Write the lines as a new segment; returns its name. ``scratch`` is a local folder for the packed file."""
        name = f"{stamp()}-{uuid.uuid4().hex}.jsonl.zz"
        packed = scratch / f".{name}.tmp"
        try:
            with packed.open("wb") as stream:
                packer = zlib.compressobj(1)
                for line in lines:
                    stream.write(packer.compress(line))
                stream.write(packer.flush())
            if self._remote:
                self._store_remote(packed, name)
            else:
                self._store_local(packed, name)
        finally:
            packed.unlink(missing_ok=True)
        return name

    def delete(self, names: Iterable[str]) -> None:
        """Delete segments; one that is gone already is no error."""
        for name in names:
            if not self._remote:
                (Path(self.location) / "segments" / name).unlink(missing_ok=True)
                continue
            from apache_beam.io.filesystems import FileSystems

            path = self._path(name)
            if FileSystems.exists(path):
                FileSystems.delete([path])

    def _path(self, *names: str) -> str:
        from apache_beam.io.filesystems import FileSystems  # takes seconds to import, and local caches do without it

        return FileSystems.join(self.location, "segments", *names)

    def _listed_local(self) -> Iterator[tuple[str, int]]:
        folder = Path(self.location) / "segments"
        if not folder.exists() and not Path(self.location).exists():
            return
        try:
            for entry in os.scandir(folder):
                if entry.is_file():
                    yield entry.name, entry.stat().st_size
        except FileNotFoundError:
            return

    def _listed_remote(self) -> Iterator[tuple[str, int]]:
        from apache_beam.io.filesystems import FileSystems

        for match in FileSystems.match([self._path("*")]):
            for metadata in match.metadata_list:
                yield metadata.path.rpartition("/")[2], metadata.size_in_bytes

    def _open(self, name: str) -> BinaryIO:
        if not self._remote:
            return (Path(self.location) / "segments" / name).open("rb")
        from apache_beam.io.filesystem import CompressionTypes
        from apache_beam.io.filesystems import FileSystems

        return FileSystems.open(self._path(name), compression_type=CompressionTypes.UNCOMPRESSED)

    def _store_local(self, packed: Path, name: str) -> None:
        folder = Path(self.location) / "segments"
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(folder / name, durable=True) as unfinished:
            shutil.copyfile(packed, unfinished)

    def _store_remote(self, packed: Path, name: str) -> None:
        from apache_beam.io.filesystem import CompressionTypes
        from apache_beam.io.filesystems import FileSystems

        path = self._path(name)
        whole = self.location.startswith(_WRITES_APPEAR_WHOLE)
        target = path if whole else f"{path}.tmp"
        stream = FileSystems.create(target, compression_type=CompressionTypes.UNCOMPRESSED)
        with packed.open("rb") as source, stream:
            while data := source.read(CHUNK_BYTES):
                stream.write(data)
        if not whole:
            FileSystems.rename([target], [path])
        if FileSystems.get_filesystem(path).size(path) != packed.stat().st_size:
            raise OSError(errno.EIO, "the segment did not arrive whole", path)
