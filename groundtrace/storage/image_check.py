"""Checks the images of shards (Parquet files of rows) before other code reads them."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from groundtrace.storage.row_sizes import ITEM_BYTES, ROWS, STRUCT_BYTES, check_sizes
from groundtrace.storage.shard_fault import ShardFault

IMAGES = ("images", "overlays")
"""The columns with lists of images."""
MAX_NAME_BYTES = 2**16
"""The maximum length of the name of an image."""
MAX_IMAGE_BYTES = 2**29
"""The maximum size of the images of :data:`ROWS_AT_ONCE` rows, and of a block of rows (row group).

A run writes an image of at most 256 MiB, and row groups of at most 100 MB or one row. The rows of a file may have
larger images if the file itself is large (:data:`MAX_IMAGE_EXPANSION`).
"""
MAX_IMAGE_EXPANSION = 8
"""The size of the images above :data:`MAX_IMAGE_BYTES`, as a multiple of the size of the file. PNG and JPEG files
hardly become smaller by compression, and raw pixels of photos 2 to 3 times smaller.
"""
ROWS_AT_ONCE = 8
"""The number of rows for whose images together the size is limited. Most code reads at most so many rows with their
images at once; `beam publish` reads twice as many.
"""
_REMEDY = "use PNG or JPEG instead of raw pixels in the input, and repeat the run"

_Sizes = npt.NDArray[np.int64]


def check_images(file: Path) -> None:
    """Raise ShardFault if a shard has images that would fill the memory, or that a pipeline never writes.

    ``file`` is the shard, a Parquet file of rows.

    Images can fill the memory of a program in two ways:

    - The images of a block of rows (row group) are strongly compressed. To read one of these images, a program may have
      to decompress all of them.
    - A row has very many images, or the file holds an image once and a row refers to it many times.

    This function itself reads the bytes and the names of images in the form of a dictionary: each different value is in
    memory only once, even if many rows refer to it.

    The bytes of the images are not read if the metadata of the file, and the largest number of images of a row, show
    that the images are small enough. This is always the case for a file with one image for each row, unless these
    images are strongly compressed.
    """
    metadata = pq.read_metadata(file)
    limit = MAX_IMAGE_BYTES + MAX_IMAGE_EXPANSION * file.stat().st_size
    for name in IMAGES:
        chunks = _chunks(file, metadata, name)
        sizes = {field: [chunk.total_uncompressed_size for chunk in of_field] for field, of_field in chunks.items()}
        largest = max(itertools.chain.from_iterable(sizes.values()), default=0)
        if largest > limit:
            raise _too_large(file, f"a block of rows has images of {largest / 2**20:,.0f} MiB", name, limit)
        if chunks:
            items = sum(chunk.num_values for chunk in chunks["path"]) - metadata.num_rows
            most = _check_names(file, metadata, name, items)
            if sum(sizes["bytes"]) + ROWS_AT_ONCE * most * max(sizes["bytes"], default=0) > limit:
                _check_bytes(file, metadata, name, limit)


def _path(name: str, field: str) -> str:
    """Return the Parquet path of a field of the images in the column ``name``."""
    return f"{name}.list.element.{field}"


def _chunks(file: Path, metadata: pq.FileMetaData, name: str) -> dict[str, list[pq.ColumnChunkMetaData]]:
    """Return the metadata of the images in the column ``name``: a dict from each field of an image to a list.

    The fields are ``bytes`` and ``path``. The list has the metadata of this field for each block of rows (row group) of
    the file, in order. The dict is empty if the file has no such column. Raises ShardFault if the images have other
    fields than these two.
    """
    paths = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    places = {path.removeprefix(_path(name, "")): at for path, at in paths.items() if path.startswith(_path(name, ""))}
    if places and places.keys() != {"bytes", "path"}:
        raise ShardFault(
            f"the images in the column {name} of {file} have more fields than bytes and path: repeat the run"
        )
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return {field: [group.column(place) for group in groups] for field, place in places.items()}


def _check_names(file: Path, metadata: pq.FileMetaData, name: str, items: int) -> int:
    """Check the images in the column ``name``, without their bytes. Return the largest number of images of a row.

    ``items`` is the number of all images in this column, according to the metadata. Raises ShardFault in these cases:

    - A row, a block of rows or the whole file has so many images that they would fill the memory. The lengths of their
      names are counted too.
    - The name of an image has more than :data:`MAX_NAME_BYTES` bytes.
    - An image has no value (it is null).
    """
    part, remedy = f"in the column {name}, without the bytes of the images", "Use fewer images in a record of the input"
    each = ITEM_BYTES + STRUCT_BYTES
    check_sizes(file, 0, 0, each * items, part, f"{remedy}, and repeat the run")
    most = largest = rows = 0
    blocks = Counter[int]()
    for counts, lengths in _read(file, metadata, name, "path"):
        if lengths.max(initial=0) > MAX_NAME_BYTES:
            raise ShardFault(
                f"the file name of an image has more than {MAX_NAME_BYTES} bytes (column {name} of {file}): "
                "shorten the name of this file in the input, and repeat the run"
            )
        sizes = _by_row(counts, lengths + each)
        most, largest = max(most, int(counts.max(initial=0))), max(largest, int(sizes.max(initial=0)))
        in_blocks = np.bincount((rows % ROWS + np.arange(len(sizes))) // ROWS, weights=sizes)
        for number, size in enumerate(in_blocks, rows // ROWS):
            blocks[number] += int(size)
        rows += len(sizes)
    check_sizes(file, largest, max(blocks.values(), default=0), blocks.total(), part, f"{remedy}, and repeat the run")
    return most


def _check_bytes(file: Path, metadata: pq.FileMetaData, name: str, limit: int) -> None:
    """Raise ShardFault if any :data:`ROWS_AT_ONCE` consecutive rows have images of more than ``limit`` bytes together.

    Only the images in the column ``name`` are counted. ShardFault is also raised if an image has no value (it is null).
    """
    before: _Sizes = np.zeros(ROWS_AT_ONCE - 1, np.int64)
    for counts, lengths in _read(file, metadata, name, "bytes"):
        sizes = np.concatenate([before, _by_row(counts, lengths)])
        sums = np.concatenate([[0], np.cumsum(sizes)])
        largest = int((sums[ROWS_AT_ONCE:] - sums[:-ROWS_AT_ONCE]).max())
        if largest > limit:
            raise _too_large(file, f"{ROWS_AT_ONCE} rows have images of {largest / 2**20:,.0f} MiB", name, limit)
        before = sizes[1 - ROWS_AT_ONCE :]


def _read(file: Path, metadata: pq.FileMetaData, name: str, field: str) -> Iterator[tuple[_Sizes, _Sizes]]:
    """Read one field of the images in the column ``name``, and yield two arrays for each batch of rows.

    ``field`` is "bytes" or "path". The first array has one element for each row: the number of its images. The second
    array has one element for each image of these rows: the length of the field in bytes. Raises ShardFault if an image
    has no value (it is null).
    """
    path = _path(name, field)
    with pq.ParquetFile(file, metadata=metadata, read_dictionary=[path]) as shard:
        for group in range(shard.num_row_groups):  # each has a dictionary of its own
            for batch in shard.iter_batches(row_groups=[group], columns=[path]):
                lists = batch.column(0)
                images = lists.flatten()
                if images.null_count:
                    raise ShardFault(f"{file} has an image without a value in the column {name}: repeat the run")
                yield _numbers(pc.call_function("list_value_length", [lists])), _lengths(images.field(field))


def _lengths(values: pa.Array) -> _Sizes:
    """Return the length in bytes of each value; 0 for null.

    ``values`` is an Arrow array with a dictionary of texts or bytes. There is one exception: if all values are null and
    the column has no type, the array has no dictionary.
    """
    if not pa.types.is_dictionary(values.type):
        return np.zeros(len(values), np.int64)
    lengths = pc.call_function("binary_length", [values.dictionary])
    return _numbers(lengths.take(values.indices))


def _numbers(values: Any) -> _Sizes:
    """Return integers as a NumPy array. A null becomes 0.

    `fill_null` and `to_numpy` are not used, because they import pandas, which takes 0.3 s.
    """
    found = np.zeros(len(values), np.int64)
    is_valid = pc.call_function("is_valid", [values]).cast(pa.uint8())
    found[np.from_dlpack(is_valid) == 1] = np.from_dlpack(pc.call_function("drop_null", [values]))
    return found


def _by_row(counts: _Sizes, sizes: _Sizes) -> _Sizes:
    """Return, for each row, the sum of the sizes of its images. ``counts`` holds the number of images of each row, and
    ``sizes`` the size of each image, in the order of the rows.
    """
    sums, ends = np.concatenate([[0], np.cumsum(sizes)]), np.cumsum(counts)
    return sums[ends] - sums[ends - counts]


def _too_large(file: Path, what: str, name: str, limit: int) -> ShardFault:
    return ShardFault(
        f"the images of {file} would fill the memory: {what} in the column {name}, but the limit is "
        f"{limit // 2**20:,} MiB ({MAX_IMAGE_BYTES // 2**20:,} MiB and {MAX_IMAGE_EXPANSION} times the size of the "
        f"file): {_REMEDY}"
    )
