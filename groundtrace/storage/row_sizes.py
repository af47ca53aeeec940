"""Defines how large the rows of a shard (Parquet file of rows) may be, and raises the error for larger rows."""

from pathlib import Path

import pyarrow.parquet as pq

from groundtrace.storage.shard_fault import ShardFault

MAX_ROW_BYTES = 64 * 2**20
"""The maximum size of a row without its images. A row with many long traces has about a megabyte."""
MAX_ROWS_BYTES = 2**30
"""The maximum size of :data:`ROWS` rows that follow each other, without their images."""
ROWS = 1000
"""The largest number of rows that the code reads at once."""
MAX_FILE_BYTES = 2**30
"""The maximum size of all rows of a file, without their images. A file may have larger rows in total if it is large
itself (:data:`MAX_EXPANSION`).
"""
MAX_EXPANSION = 200
"""The maximum size of the rows of a shard without their images, as a multiple of the size of the file. Usual texts
become about 20 times smaller by compression.
"""
NUMBER_BYTES, ITEM_BYTES, STRUCT_BYTES = 8, 32, 256
"""The memory of a number in a column, of an item in a list, and of a struct in a list. Python needs more for the latter
two than Parquet.
"""


def check_sizes(
    file: Path,
    row: int,
    block: int,
    whole: int,
    part: str = "without images",
    remedy: str = "Shorten the texts of the input, and repeat the run",
) -> None:
    """Raise ShardFault if rows of ``file`` are too large to be read.

    ``row``, ``block`` and ``whole`` are sizes in bytes: of the largest row, of the largest block of :data:`ROWS` rows,
    and of all rows. ``part`` and ``remedy`` are texts for the message. ``part`` describes what these sizes count, e.g.
    "without images". ``remedy`` is what the user has to do.
    """
    limits = (
        ("a row", row, MAX_ROW_BYTES),
        (f"a block of {ROWS} rows", block, MAX_ROWS_BYTES),
        ("the sum of its rows", whole, max(MAX_FILE_BYTES, MAX_EXPANSION * file.stat().st_size)),
    )
    for what, size, limit in limits:
        if size > limit:
            raise ShardFault(
                f"{file} is too large to be read: {part}, {what} has {size / 2**20:,.0f} MiB, but the limit is "
                f"{limit // 2**20:,} MiB. {remedy}"
            )


def check_items(file: Path, metadata: pq.FileMetaData) -> None:
    """Raise ShardFault if the lists of a column have so many items that even the check of the rows would fill the
    memory. Only the metadata of the file are read.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    values = (sum(group.column(place).num_values for group in groups) for place in range(metadata.num_columns))
    items = max(values, default=0) - metadata.num_rows  # a row without items has one value in the metadata
    check_sizes(file, 0, 0, items * ITEM_BYTES)
