"""Reads the images of a run's rows from its shards and image files, and makes thumbnails of them."""

import threading
from pathlib import Path
from typing import Any, Literal

import cv2
import pyarrow.parquet as pq

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.rows import RowPlace
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.lru_cache import LruCache
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore, sniff_kind

THUMBNAIL_SIDE_PX = 240
CACHE_BYTES = 64 * 2**20
ROWS_AT_ONCE = 8
"""The number of rows that are read at a time with their images. Each row may have images of a hundred megabytes."""
READ_BYTES = 2**20
READ_AGAIN = "reload the page or repeat the command, since the run may have been repeated"
Column = Literal["images", "overlays", "media"]
_SHOWN_AS_THEY_ARE = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png", b"GIF8": "image/gif"}


class NoImage(LookupError):
    """Raised if a row does not have the requested image, or if the image cannot be read.

    The message states the reason.
    """


class RowImages:
    """Reads the images of rows. Several threads may use one instance.

    The caller names a row by its :class:`groundtrace.publishing.view.rows.RowPlace` (file and index), and an image by
    its column and its index. The columns ``images`` and ``overlays`` (copies with drawings for the teacher) hold the
    bytes of images in the row's shard. A rejected record has the column ``media`` instead, which holds only paths of
    image files. ``store`` reads these files from the run's input folder. An image of a rejected record is missing if
    this folder or the file no longer exists, or if the file has changed.
    """

    def __init__(self, store: MediaStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._shards: dict[Path, pq.ParquetFile] = {}
        self._thumbnails: LruCache[bytes] = LruCache(CACHE_BYTES, size_of=len)

    def close(self) -> None:
        """Close all shards, and remove the thumbnails from memory."""
        with self._lock:
            for shard in self._shards.values():
                shard.close()
            self._shards = {}
            self._thumbnails = LruCache(CACHE_BYTES, size_of=len)

    def values(self, place: RowPlace, columns: list[str]) -> dict[str, Any]:
        """Return the values of the given ``columns`` in one row, by column. ``place`` is the row's file and index.

        A column may be a Parquet path, such as ``images.list.element.path``, to read only a part of its values. Raises
        :class:`groundtrace.publishing.reading.InspectError` if the shard cannot be read, or has changed since it was
        opened.
        """
        with self._lock:
            try:
                shard = self._shards.get(place.file) or self._opened(place.file)
                group, row = _group_of(shard, place.row)
                seen = 0
                for batch in shard.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=columns):
                    if row < seen + batch.num_rows:
                        return batch.slice(row - seen, 1).to_pylist()[0]
                    seen += batch.num_rows
            except OSError as error:
                raise InspectError(f"cannot read {place.file} ({error}): {READ_AGAIN}") from error
        raise InspectError(f"{place.file} has no row {place.row}: {READ_AGAIN}")

    def _opened(self, file: Path) -> pq.ParquetFile:
        """Open a shard (Parquet file), and keep it open for later calls.

        The shard is not memory-mapped. If a program truncated a memory-mapped file during a read, this process would
        crash.
        """
        self._shards[file] = pq.ParquetFile(file, buffer_size=READ_BYTES, pre_buffer=False)
        return self._shards[file]

    def schema_names(self, place: RowPlace) -> list[str]:
        """Return the names of all columns in the shard (Parquet file) that contains a row.

        ``place`` holds the path of the shard and the index of the row.
        """
        return pq.read_schema(place.file).names

    def original(self, place: RowPlace, column: Column, index: int) -> tuple[str, bytes]:
        """Return the MIME type and the bytes of an image, in a format that browsers can show.

        ``place`` is the row's file and index. ``index`` is the position of the image in the ``column``. Raises NoImage
        if the image does not exist or cannot be read.
        """
        data = self._bytes(place, column, index)
        for magic, kind in _SHOWN_AS_THEY_ARE.items():
            if data.startswith(magic):
                return kind, data
        return "image/png", _encoded(data, None)

    def thumbnail(self, place: RowPlace) -> tuple[str, bytes]:
        """Return the MIME type and the bytes of a small copy of a row's first image.

        ``place`` is the row's file and index. Raises NoImage if the row has no image, or if the image cannot be read.
        """
        column: Column = "media" if place.set == "rejected" else "images"
        key = f"{place.file}#{place.row}"
        data = self._thumbnails.of(key, lambda: _encoded(self._bytes(place, column, 0), THUMBNAIL_SIDE_PX))
        return "image/jpeg", data

    def _bytes(self, place: RowPlace, column: Column, index: int) -> bytes:
        """Return the bytes of a row's image: the item ``index`` of the ``column``. ``place`` is the row's file and
        index. Raises NoImage if the image does not exist or cannot be read.
        """
        if column == "media":
            media = self.values(place, ["media"]).get("media") or []
            if not 0 <= index < len(media):
                raise NoImage(f"the record has only {len(media)} media files, so it has no image at index {index}")
            try:
                data = self._store.open_recorded(media[index]["uri"], media[index]["sha256"])
            except (MediaMissing, MediaNotAllowed, UndecodableMedia, OSError) as error:
                raise NoImage(f"cannot read the file of the image: {error}") from error
            if sniff_kind(data) == "video":
                raise NoImage(
                    "the file is a video clip, and no frame of it can be shown, because a run stores no frames for "
                    "rejected records"
                )
            return data
        images = self.values(place, [column]).get(column) or []
        if not 0 <= index < len(images):
            raise NoImage(
                f"the column {column} has only {len(images)} images in this row, so it has no image at index {index}"
            )
        data = (images[index] or {}).get("bytes")
        if data is None:
            raise NoImage(f"an image in the column {column} of this row has no bytes: repeat the run")
        return data


def _group_of(shard: pq.ParquetFile, row: int) -> tuple[int, int]:
    """Return the row group (block of rows) that contains a shard's row, and the row's index in this group."""
    for group in range(shard.num_row_groups):
        size = shard.metadata.row_group(group).num_rows
        if row < size:
            return group, row
        row -= size
    raise InspectError(f"a shard (Parquet file) of the run has fewer rows than before: {READ_AGAIN}")


def _encoded(data: bytes, side_px: int | None) -> bytes:
    """Convert the bytes of an image file to PNG in full size; if ``side_px`` is given, to a small JPEG instead.

    The longer side of the JPEG has at most ``side_px`` pixels. Raises NoImage if the image cannot be decoded.
    """
    try:
        pixels = decode_image(data).pixels
    except UndecodableMedia as error:
        raise NoImage(f"the image cannot be decoded: {error.kind}") from error
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    if side_px is None:
        return cv2.imencode(".png", bgr, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    height, width = bgr.shape[:2]
    scale = min(side_px / max(width, height), 1.0)
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    small = cv2.resize(bgr, size, interpolation=cv2.INTER_AREA) if scale < 1 else bgr
    return cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 82])[1].tobytes()
