"""Copies shards (Parquet files) without the rows that must not be published.

The copies have row groups (blocks of rows) that the Hub's viewer accepts. Rows are read and written in batches, so that
memory holds at most one row group.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.sources import Key, keys_of
from groundtrace.publishing.reading import one_line
from groundtrace.stages.plumbing.malloc import release_memory
from groundtrace.storage.files import written_whole

MAX_GROUP_BYTES = 100_000_000
"""The maximum uncompressed size of a row group (block of rows), in bytes.

This is well below 286 MB, the limit above which the Hub's viewer refuses a row group.
"""
READ_ROWS = 16

Change = Callable[[pa.RecordBatch], pa.RecordBatch]


def check_shard(file: Path, needs_images: bool) -> bool:
    """Return whether the Hub's viewer accepts a shard (Parquet file of a run) unchanged. ``file`` is its path.

    The viewer accepts a shard if each row group (block of rows) has only one row, or has at most
    :data:`MAX_GROUP_BYTES`. If ``needs_images`` is True, the shard's metadata must declare which column holds images.
    Without this declaration, the viewer shows bytes instead of images. Raises PublishError if the shard cannot be read,
    or if ``needs_images`` is True and the declaration is missing.
    """
    try:
        read = pq.read_metadata(file)
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise PublishError(f"{file} cannot be read: {one_line(error)}: repeat the run") from error
    if needs_images and b'"Image"' not in (read.metadata or {}).get(b"huggingface", b""):
        raise PublishError(
            f"{file} does not declare which column holds images: repeat the run with this version of Groundtrace"
        )
    groups = (read.row_group(number) for number in range(read.num_row_groups))
    return all(group.num_rows <= 1 or group.total_byte_size <= MAX_GROUP_BYTES for group in groups)


def copy_rows(
    file: Path,
    copy: Path,
    sources: Collection[Key],
    change: Change | None = None,
    flagged_ids: Collection[str] = frozenset(),
) -> int:
    """Copy the rows to publish from a shard to the file ``copy``. Return the number of copied rows.

    ``file`` is the path of the shard. A source is a data set from which rows come. ``sources`` holds the (source,
    licence) pairs whose rows are published, except rows whose id is in ``flagged_ids``. ``change`` is a function that
    is applied to batches of the copied rows; None if the rows stay unchanged. The copy appears only when it is
    complete. If no row is published, no copy is written, and the result is 0. Raises PublishError if the shard cannot
    be read or the copy cannot be written.
    """
    written = 0
    try:
        with (
            pq.ParquetFile(file) as shard,
            written_whole(copy) as unfinished,
            pq.ParquetWriter(unfinished, shard.schema_arrow, compression="zstd") as writer,
        ):
            for table in _groups(_published(shard, sources, flagged_ids), change):
                writer.write_table(table, row_group_size=max(1, table.num_rows))
                written += table.num_rows
                del table
                release_memory()
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise PublishError(
            f"{file} cannot be copied to {copy}: {one_line(error)}: check that the first file can be read, and "
            "that the second file can be written"
        ) from error
    if not written:
        copy.unlink()
    return written


def _groups(batches: Iterator[pa.RecordBatch], change: Change | None) -> Iterator[pa.Table]:
    """Yield the rows of the ``batches`` as tables, each of which becomes one row group (block of rows) of a copy.

    ``change``, if not None, is applied to each batch.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        for part in _parts(change(batch) if change else batch):
            if held and held_bytes + part.nbytes > MAX_GROUP_BYTES:
                group, held, held_bytes = held, [], 0
                yield pa.Table.from_batches(group)
            held.append(part)
            held_bytes += part.nbytes
    if held:
        yield pa.Table.from_batches(held)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in parts that fit into a row group (block of rows).

    A part has at most :data:`MAX_GROUP_BYTES`. A single row with more bytes is a part of its own.
    """
    if batch.num_rows <= 1 or batch.nbytes <= MAX_GROUP_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def _published(
    shard: pq.ParquetFile, sources: Collection[Key], flagged_ids: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard (Parquet file) to publish, in batches of at most :data:`READ_ROWS` rows.

    These are the rows whose (source, licence) is in ``sources`` and whose id is not in ``flagged_ids``.
    """
    for batch in shard.iter_batches(READ_ROWS):
        mask = [key in sources for key in keys_of(batch)]
        if flagged_ids:
            ids = batch["id"].to_pylist()
            mask = [is_kept and row_id not in flagged_ids for is_kept, row_id in zip(mask, ids, strict=True)]
        if any(mask):
            yield batch if all(mask) else batch.filter(pa.array(mask))
