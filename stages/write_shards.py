"""Writes rows to shards: Parquet files whose number, names, order and bytes depend only on the rows.

The inputs are rows whose image columns hold URIs. The outputs are the entries of the shards in the job's manifest (list
of written files). The leading bits of the hash of a row's id choose the row's shard. Within a shard, the rows are
sorted by this hash. The number of shards depends only on the number of rows and bytes. Images are read only when their
row group is written. So only the images of one row group are in RAM at a time, and no pixels cross a shuffle.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsDict, PCollection
from pydantic import NonNegativeInt, PositiveInt

from groundtrace.config.settings import settings
from groundtrace.schemas.ordering import order_key
from groundtrace.stages.plumbing.ends import ENDS_SCHEMA
from groundtrace.stages.plumbing.malloc import release_memory
from groundtrace.stages.plumbing.rows import Row
from groundtrace.stages.plumbing.shard_files import (
    ENDS,
    HashedStream,
    ShardEntry,
    attempt_name,
    entry_line,
    ids_sha256,
    parquet_writer,
    write_table,
)
from groundtrace.stages.plumbing.sized_rows import NO_ROW, SizedRow
from groundtrace.storage.places import Place, place
from groundtrace.vision.media import MediaRoots, MediaStore

IMAGE_COLUMNS = ("images", "overlays")
PLAN_BITS = 32
PART_BYTES = 8_000_000


@settings
class ShardSettings:
    """Holds the size of the shards (Parquet files of rows), and the optional contents of their rows.

    The default maximum size of a row group (100 MB) is below the limit of the Hub's viewer, which refuses row groups
    above 286 MB.
    """

    shards: Annotated[NonNegativeInt, "the number of shards (0: as many as shard_bytes needs)"] = 0
    shard_bytes: Annotated[PositiveInt, "the average size of a shard, if shards is 0"] = 400_000_000
    row_group_bytes: Annotated[PositiveInt, "the maximum size of a row group, unless one row is larger"] = 100_000_000
    max_group_rows: Annotated[PositiveInt, "the maximum number of rows in a row group"] = 1000
    other_traces: Annotated[bool, "SFT rows also hold the traces that were not chosen, with their verdicts"] = False
    input_row: Annotated[
        bool, "SFT and RL rows also have the column input_row, so that their files depend on the order of the input"
    ] = False
    rejected_images: Annotated[bool, "rejected rows hold the bytes of their images, not only references"] = False


def shard_count(rows: int, total_bytes: int, settings: ShardSettings) -> int:
    """Return the number of shards (Parquet files) for the rows: at least one, but not more than the number of rows.

    ``rows`` is the number of rows, and ``total_bytes`` is their size with their images. ``settings`` holds the number
    of shards or their average size.
    """
    wanted = settings.shards or -(-total_bytes // settings.shard_bytes)
    return max(1, min(wanted, rows))


def shard_of(row_id: str, shards: int) -> int:
    """Return the number of the shard (Parquet file) to which a row is written, from 0. ``row_id`` is the row's id, and
    ``shards`` is the number of shards.
    """
    return int(order_key(row_id)[: PLAN_BITS // 4], 16) * shards >> PLAN_BITS


def write_shard(
    rows: Iterable[SizedRow],
    path: Place,
    schema: pa.Schema,
    settings: ShardSettings,
    store: MediaStore,
    ends: Place | None = None,
) -> tuple[int, HashedStream, str]:
    """Write one shard (Parquet file), and the table of final outcomes of its rows: the stages that each record passed,
    and its calls.

    ``rows`` are the rows in any order. ``path`` is the new file, ``schema`` its Arrow schema, and ``store`` opens the
    images. ``settings`` limits the size of row groups. ``ends`` is the file of the table; None means that no table is
    written. Both files are complete on return.

    Returns the number of rows, the stream that counted and hashed the shard's bytes, and the digest of the ids. Raises
    ValueError for a repeated id.
    """
    ordered = sorted(rows, key=lambda row: (order_key(row.id), row.id))
    for before, after in itertools.pairwise(ordered):
        if before.id == after.id:
            raise ValueError(f"{path}: two rows have the id {before.id!r}: the recipe must return each draft once")
    tables: list[pa.Table] = []
    with parquet_writer(path, schema) as (writer, stream):
        for group in row_groups(ordered, settings):
            table, beside = _tables(group, schema, store)
            writer.write_table(table, row_group_size=len(group))
            tables.append(beside)
            release_memory()
    if ends:
        write_table(ends, pa.concat_tables(tables) if tables else ENDS_SCHEMA.empty_table())
    return len(ordered), stream, ids_sha256([row.id for row in ordered])


def _tables(rows: list[SizedRow], schema: pa.Schema, store: MediaStore) -> tuple[pa.Table, pa.Table]:
    """Return the rows with their images as one table, and the final outcomes of their records as another table.

    A final outcome lists the stages that the record passed, and its model calls. ``schema`` is the Arrow schema of the
    rows, and ``store`` opens their images. The rows are converted to Arrow in small parts. So only a few rows at a time
    are Python objects, which need far more RAM than Arrow tables.
    """
    made, beside = list[pa.Table](), list[pa.Table]()
    for part in cut(rows, PART_BYTES, len(rows)):
        found = [(sized.id, *sized.unpack()) for sized in part]
        made.append(pa.Table.from_pylist([_with_images(row, store) for _, row, _ in found], schema))
        beside.append(pa.Table.from_pylist([{"id": row_id, **end} for row_id, _, end in found], ENDS_SCHEMA))
    return pa.concat_tables(made), pa.concat_tables(beside)


def row_groups(rows: list[SizedRow], settings: ShardSettings) -> Iterator[list[SizedRow]]:
    """Divide the rows of a shard (Parquet file), in order, into row groups within the limits of the settings, and yield
    the groups.
    """
    return cut(rows, settings.row_group_bytes, settings.max_group_rows)


def cut(rows: list[SizedRow], most_bytes: int, most_rows: int) -> Iterator[list[SizedRow]]:
    """Divide rows, in order, into parts of at most ``most_rows`` rows and ``most_bytes`` bytes, and yield the parts.

    A row that alone has more than ``most_bytes`` bytes becomes a part with only this row.
    """
    group: list[SizedRow] = []
    size = 0
    for row in rows:
        if group and (size + row.size_bytes > most_bytes or len(group) >= most_rows):
            yield group
            group, size = [], 0
        group.append(row)
        size += row.size_bytes
    if group:
        yield group


def _with_images(row: Row, store: MediaStore) -> Row:
    for column in IMAGE_COLUMNS:
        uris = row.get(column)
        if isinstance(uris, list):
            row[column] = [{"bytes": store.open_bytes(uri), "path": uri.split(":", 1)[1]} for uri in uris]
    return row


@dataclass(frozen=True)
class ShardTarget:
    """Describes where the shards (Parquet files) of one set of rows are written.

    ``folder`` is the folder of the job (one execution of a Beam pipeline). The shards are written to a folder in it
    with the name of the set, such as ``sft``. ``schema`` is the Arrow schema of the shards. ``roots`` holds the folders
    from which images are read.
    """

    folder: str
    schema: pa.Schema
    roots: MediaRoots


def _add_sizes(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    rows = total_bytes = 0
    for count, size_bytes in pairs:
        rows, total_bytes = rows + count, total_bytes + size_bytes
    return rows, total_bytes


def _of_set(row: SizedRow, name: str) -> tuple[str, SizedRow]:
    return name, row


def _size(keyed: tuple[str, SizedRow]) -> tuple[str, tuple[int, int]]:
    return keyed[0], (1, keyed[1].size_bytes)


def _planned(total: tuple[str, tuple[int, int]], settings: ShardSettings) -> tuple[str, int]:
    name, (rows, size_bytes) = total
    return name, shard_count(rows, size_bytes, settings)


def _shards_of(name: str, plan: Mapping[str, int]) -> int:
    """Return the number of shards (Parquet files) of the set of rows with the name ``name``, such as ``sft``.

    ``plan`` maps each set that has rows to its number of shards. A set without rows gets one shard.
    """
    return plan.get(name, 1)


def _placed(keyed: tuple[str, SizedRow], plan: Mapping[str, int]) -> tuple[tuple[str, int], SizedRow]:
    name, row = keyed
    return (name, shard_of(row.id, _shards_of(name, plan))), row


def _every_shard(name: str, plan: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], SizedRow]]:
    for shard in range(_shards_of(name, plan)):
        yield (name, shard), NO_ROW


class _Write(beam.DoFn):
    def __init__(self, targets: Mapping[str, ShardTarget], settings: ShardSettings) -> None:
        self._targets, self._settings = targets, settings

    def setup(self) -> None:
        self._stores = {name: target.roots.store() for name, target in self._targets.items()}
        # Arrow's own pool would keep freed memory for itself, beside the free memory that Python's allocator keeps.
        pa.set_memory_pool(pa.system_memory_pool())

    def process(self, keyed: tuple[tuple[str, int], Iterable[SizedRow]], plan: Mapping[str, int]) -> Iterator[str]:
        """Write a shard (Parquet file), and emit its line of the job's manifest (list of complete files).

        ``keyed`` holds the key of the shard (the name of its set, and its number) and the rows of the shard. ``plan``
        maps each set that has rows to its number of shards.
        """
        (of_set, shard), rows = keyed[0], (row for row in keyed[1] if row.packed)
        release_memory()
        target, name = self._targets[of_set], f"train-{shard:05d}-of-{_shards_of(of_set, plan):05d}.parquet"
        file = attempt_name(name)
        path, ends = (
            place(target.folder, target.roots.storage) / folder / f
            for folder, f in ((of_set, file), (ENDS, f"{of_set}-{file}"))
        )
        count, written, ids = write_shard(rows, path, target.schema, self._settings, self._stores[of_set], ends)
        yield entry_line(
            ShardEntry(of_set, name, file, f"{of_set}-{file}", count, written.size_bytes, written.sha256, ids)
        )


@dataclass
class WriteShards(beam.PTransform):
    """Beam transform that writes the rows of several sets as Parquet shards. Shards without rows are written, too.

    ``targets`` maps the name of each set, such as ``sft``, to the folder and the Arrow schema of the set's shards. A
    hash of a row's id chooses the row's shard. One transform writes all sets, because each step of a pipeline takes
    some milliseconds.
    """

    targets: Mapping[str, ShardTarget]
    settings: ShardSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, sets: Mapping[str, PCollection]) -> PCollection:
        """Write the rows to shards (Parquet files), and return a collection with one JSON text for each shard: its line
        in the job's manifest, i.e. in the list of complete files.

        ``sets`` holds a collection of :class:`SizedRow` for each set in :attr:`targets`.
        """
        keyed = tuple[str, SizedRow]
        named = [
            rows | f"Of{name.capitalize()}" >> beam.Map(_of_set, name).with_output_types(keyed)
            for name, rows in sets.items()
        ]
        rows: Any = named | "Rows" >> beam.Flatten()
        total = rows | "Sizes" >> beam.Map(_size).with_output_types(tuple[str, tuple[int, int]])
        total |= "Total" >> beam.CombinePerKey(_add_sizes)
        plan: Any = AsDict(total | "Plan" >> beam.Map(_planned, self.settings).with_output_types(tuple[str, int]))
        in_shards = tuple[tuple[str, int], SizedRow]
        names = rows.pipeline | "Sets" >> beam.Create(list(self.targets), reshuffle=False)
        empty = names | "EveryShard" >> beam.FlatMap(_every_shard, plan).with_output_types(in_shards)
        placed = rows | "Place" >> beam.Map(_placed, plan).with_output_types(in_shards)
        return (
            (placed, empty)
            | "Parts" >> beam.Flatten()
            | "ByShard" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_Write(self.targets, self.settings), plan).with_output_types(str)
        )
