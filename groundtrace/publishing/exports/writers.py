"""Writes rows to Parquet files, to JSON Lines with image files, and to tar files.

A writer keeps at most one block of rows in memory.
"""

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.exports.base import ExportRow
from groundtrace.publishing.exports.images import UprightImage
from groundtrace.vision.hashing import sha256_bytes

BLOCK_BYTES = 32_000_000
"""The size of texts and images at which a row group is written. The Hub's viewer refuses row groups above 286 MB."""
BLOCK_ROWS = 1000
TAR_BYTES = 512_000_000
IMAGES = "images"

Record = Mapping[str, Any]


def embedded(images: Sequence[UprightImage]) -> list[dict[str, object]]:
    """Return images as dictionaries with ``bytes`` and ``path``, for a Parquet column.

    The path is the index of the image with its file extension, such as ``0.png``.
    """
    return [{"bytes": each.data, "path": f"{number}.{each.extension}"} for number, each in enumerate(images)]


def text_of(record: Record) -> str:
    """Return a record (the row as an export format writes it) as JSON on one line."""
    return json.dumps(record, ensure_ascii=False)


class ParquetWriter:
    """Writes rows to one Parquet file at ``path``, with the columns of ``schema``.

    ``record`` is a function that converts a row to the values of these columns.
    """

    def __init__(self, path: Path, schema: pa.Schema, record: Callable[[ExportRow], Record]) -> None:
        self._path, self._schema, self._record = path, schema, record
        self._file: pq.ParquetWriter | None = None
        self._block: list[Record] = []
        self._bytes = 0

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question.

        Raises LeftOut if one of the rows cannot be written. In this case, none of them is written.
        """
        self._block += [self._record(row) for row in rows]
        for row in rows:
            self._bytes += sum(len(image.data) for image in row.images)
            self._bytes += sum(len(turn["content"]) for turn in row.turns)
        if self._bytes >= BLOCK_BYTES or len(self._block) >= BLOCK_ROWS:
            self._flush()

    def close(self) -> None:
        """Write the rows that are still in memory, and close the file."""
        if self._block:
            self._flush()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, self._schema, compression="zstd", use_dictionary=False)
        self._file.write_table(pa.Table.from_pylist(self._block, self._schema))
        self._block, self._bytes = [], 0


class ImageFolder:
    """Writes images to files in subfolders of a folder. Equal images are written once.

    The file name is the SHA-256 of the image's bytes, with the extension of its format.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, image: UprightImage) -> str:
        """Write the image, unless its file exists already. Return the path of the file relative to the folder.

        The path has slashes on all systems, such as ``images/3f/3f9a….png``.
        """
        digest = sha256_bytes(image.data)
        name = f"{IMAGES}/{digest[:2]}/{digest}.{image.extension}"
        path = self._folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image.data)
        return name


class LinesWriter:
    """Writes rows to one file of JSON Lines at ``path``, and their images to files in the same folder.

    ``record`` is a function that converts a row and the paths of its images to a JSON object.
    """

    def __init__(self, path: Path, record: Callable[[ExportRow, list[str]], Record]) -> None:
        self._path, self._record = path, record
        self._images = ImageFolder(path.parent)
        self._file: io.TextIOWrapper | None = None

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question to the file, and their images to the image folder.

        Raises LeftOut if one of the rows cannot be written. In this case, neither rows nor images are written.
        """
        for row in rows:
            self._record(row, [])
        lines = [text_of(self._record(row, [self._images.put(image) for image in row.images])) for row in rows]
        if self._file is None:
            self._file = self._path.open("w", encoding="utf-8", newline="\n")
        self._file.write("".join(f"{line}\n" for line in lines))

    def close(self) -> None:
        """Close the file of JSON Lines, if a row was written to it."""
        if self._file is not None:
            self._file.close()


class TarWriter:
    """Writes rows to tar files of bounded size.

    The order of the rows is kept. For each row, a tar file holds first the images of the row, and then the row's JSON.

    ``side`` is the training set (sft or rl) of the rows. ``record`` is a function that converts a row and the names of
    its images to a JSON object. All files of a row have the same key, which is the part of the file name before the
    first full stop. The key consists of the training set and the row's number, such as ``sft-000000012``. If a question
    has several prompts (streams), each of them has a row, and the key ends with the name of the row's stream, as in
    ``rl-000000012-grounded``. The key does not contain the row's id. If the images are JPEG files, for example, the
    first image is ``KEY.jpg``, the next ``KEY.1.jpg``, etc.
    """

    def __init__(self, folder: Path, side: str, record: Callable[[ExportRow, list[str]], Record]) -> None:
        self._folder, self._side, self._record = folder, side, record
        self._tar: tarfile.TarFile | None = None
        self._count = self._bytes = 0

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question to the same tar file.

        Raises LeftOut if one of them cannot be written; then none of them is written.
        """
        members = [member for row in rows for member in self._members(row)]
        size = sum(len(data) for _, data in members)
        if self._tar is not None and self._bytes + size > TAR_BYTES:
            self.close()
        if self._tar is None:
            self._tar = tarfile.open(  # noqa: SIM115 (stays open from row to row)
                self._folder / f"{self._side}-{self._count:06d}.tar", "w", format=tarfile.USTAR_FORMAT
            )
            self._count, self._bytes = self._count + 1, 0
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            self._tar.addfile(entry, io.BytesIO(data))
        self._tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps an entry of each member
        self._bytes += size

    def _members(self, row: ExportRow) -> list[tuple[str, bytes]]:
        """Return the (file name, bytes) of all files of a row."""
        key = "-".join(filter(None, (f"{self._side}-{row.number:09d}", row.stream)))
        names = [f"{number}.{each.extension}" if number else each.extension for number, each in enumerate(row.images)]
        members = [(f"{key}.{name}", image.data) for name, image in zip(names, row.images, strict=True)]
        return [*members, (f"{key}.json", text_of(self._record(row, names)).encode())]

    def close(self) -> None:
        """Close the current tar file, if a tar file is open."""
        if self._tar is not None:
            self._tar.close()
            self._tar = None
