"""Checks the images of shards (Parquet files of rows) before other code reads them."""

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from groundtrace.storage.shard_fault import ShardFault

IMAGES = ("images", "overlays")
"""The columns with lists of images."""
MAX_EXPANSION = 200
"""The maximum size of the values of a shard, as a multiple of the size of their part of the file.

Usual texts become about 20 times smaller by compression, and images not at all.
"""
MAX_NAME_BYTES = 2**16
"""The maximum length of the name of an image."""
MAX_GROUP_BYTES = 2**28
"""The size of the images of a block of rows (row group) up to which their compression is not checked."""


def check_images(file: Path) -> None:
    """Raise ShardFault for images that would fill the memory, or that a run never writes. The images are not read.

    The images of a block of rows (row group) fill the memory if the file holds them well compressed, because a program
    decompresses all of them to read one. The names of the images are read as a dictionary, so that a name that many
    rows share needs no memory.
    """
    metadata = pq.read_metadata(file)
    _check_compression(file, metadata)
    held = {metadata.schema.column(place).path for place in range(len(metadata.schema))}
    paths = {name: path for name in IMAGES if (path := f"{name}.list.element.path") in held}
    with pq.ParquetFile(file, metadata=metadata, read_dictionary=[*paths.values()]) as shard:
        for name, path in paths.items():
            batches = (shard.iter_batches(row_groups=[group], columns=[path]) for group in range(shard.num_row_groups))
            for batch in itertools.chain.from_iterable(batches):  # each row group has a dictionary of its own
                images = batch.column(0).flatten()
                if images.null_count:
                    raise ShardFault(f"{file} has an image without a value in the column {name}: repeat the run")
                names = images.field("path")
                lengths = pc.call_function("binary_length", [names.dictionary]) if _is_shared(names) else ()
                if any(length.is_valid and length.as_py() > MAX_NAME_BYTES for length in lengths):
                    raise ShardFault(
                        f"the file name of an image has more than {MAX_NAME_BYTES} bytes (column {name} of {file}): "
                        "shorten the name of this file in the input, and repeat the run"
                    )


def _is_shared(names: pa.Array) -> bool:
    """Return whether an array holds its texts as a dictionary; it does not if the column has no values."""
    return pa.types.is_dictionary(names.type)


def _check_compression(file: Path, metadata: pq.FileMetaData) -> None:
    """Raise ShardFault if a block of rows holds images that are far larger than their part of the file."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            size, stored = chunk.total_uncompressed_size, max(chunk.total_compressed_size, 1)
            is_image = chunk.path_in_schema.split(".")[0] in IMAGES
            if is_image and size > MAX_GROUP_BYTES and size > MAX_EXPANSION * stored:
                raise ShardFault(
                    f"the images in {file} have {size / 2**20:,.0f} MiB uncompressed, more than {MAX_EXPANSION} times "
                    "their compressed size, so they would fill the memory: use PNG or JPEG instead of raw pixels in "
                    "the input, and repeat the run"
                )
