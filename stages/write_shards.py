"""Shards: rows to Parquet files whose number, names, order and bytes depend on the rows alone.

In: rows keyed by id (image columns as URIs). Out: the paths written. A row's place is fixed by a hash of its id: the
shard by the hash's leading bits, the order within by the hash. The number of shards is a function of row count and
bytes. Images are read when their row group is written, so that memory holds one row group and no pixels cross a
shuffle.
"""

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.coders import BytesCoder, Coder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.coders.typecoders import registry
from apache_beam.pvalue import AsSingleton, PCollection
from pydantic import NonNegativeInt, PositiveInt

from schemas.config import settings
from schemas.ordering import order_key
from schemas.storage import Place, place, written_to
from stages.ingest_records import MediaRoots
from stages.plumbing.malloc import release_memory
from stages.plumbing.packing import LEVEL, unpacked
from stages.plumbing.rows import Row
from stages.plumbing.spill import read_spilled, spill, spool_folder
from vision.media import MediaStore

IMAGE_COLUMNS = ("images", "overlays")
PLAN_BITS = 32
PART_BYTES = 8_000_000


@settings
class ShardSettings:
    """The size of the shards, and what else their rows hold; the Hub's viewer refuses row groups above 286 MB."""

    shards: Annotated[NonNegativeInt, "how many there are (0: as many as shard_bytes needs)"] = 0
    shard_bytes: Annotated[PositiveInt, "the size of a shard, on average, when shards is 0"] = 400_000_000
    row_group_bytes: Annotated[PositiveInt, "the size of a row group"] = 100_000_000
    max_group_rows: Annotated[PositiveInt, "rows of a row group"] = 1000
    other_traces: Annotated[bool, "SFT rows hold the traces that were not chosen too, with their verdicts"] = False
    rejected_images: Annotated[bool, "rejected rows hold the bytes of their images too, not references alone"] = False


def shard_count(rows: int, total_bytes: int, settings: ShardSettings) -> int:
    """How many shards that many rows make: at least one, never more than there are rows."""
    wanted = settings.shards or -(-total_bytes // settings.shard_bytes)
    return max(1, min(wanted, rows))


def shard_of(row_id: str, shards: int) -> int:
    """The shard of a row, from 0."""
    return int(order_key(row_id)[: PLAN_BITS // 4], 16) * shards >> PLAN_BITS


@dataclass(frozen=True)
class SizedRow:
    """A row as it crosses the shuffle, packed, and the bytes that it will take with its images.

    All rows of a shard are in memory at once: ``packed`` is a row's JSON compressed, or where that lies in the
    ``spool`` (:mod:`stages.plumbing.spill`). It is empty for no row: one such stands for each shard, so that one
    without rows is written too.
    """

    id: str
    packed: bytes
    size_bytes: int
    spool: str = ""

    def unpack(self) -> Row:
        """The row, its image columns as URIs."""
        return json.loads(unpacked(read_spilled(self.packed, self.spool)))


def size_row(row: Row, media_bytes: int) -> SizedRow:
    """The row ready to be shuffled; ``media_bytes`` is what its images take on disk."""
    data = json.dumps(row, ensure_ascii=False).encode()
    return SizedRow(str(row["id"]), spill(zlib.compress(data, LEVEL), ""), len(data) + media_bytes)


class SizedRowCoder(Coder):
    """Writes a sized row, its packed part into the spool where there is one."""

    _parts = TupleCoder((StrUtf8Coder(), BytesCoder(), VarIntCoder()))

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def from_type_hint(cls, kind: Any, registry: Any) -> "SizedRowCoder":
        """The coder for pipelines built now."""
        return cls(spool_folder())

    def encode(self, value: SizedRow) -> bytes:
        """The row as bytes."""
        packed = value.packed
        if packed and value.spool != self._folder:
            packed = spill(read_spilled(packed, value.spool), self._folder)
        return self._parts.encode((value.id, packed, value.size_bytes))

    def decode(self, encoded: bytes) -> SizedRow:
        """The row again."""
        row_id, packed, size_bytes = self._parts.decode(encoded)
        return SizedRow(row_id, packed, size_bytes, self._folder)

    def is_deterministic(self) -> bool:
        """Never a key: what lies in a spool lies at another place each time."""
        return False

    def to_type_hint(self) -> type[SizedRow]:
        """The type that is written."""
        return SizedRow

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizedRowCoder) and self._folder == other._folder

    def __hash__(self) -> int:
        return hash((SizedRowCoder, self._folder))


registry.register_coder(SizedRow, SizedRowCoder)
NO_ROW = SizedRow("", b"", 0)


def write_shard(
    rows: Iterable[SizedRow], path: Place, schema: pa.Schema, settings: ShardSettings, store: MediaStore
) -> int:
    """Write one shard, which is there whole or not at all. Returns its rows. Raises ValueError on a repeated id."""
    ordered = sorted(rows, key=lambda row: (order_key(row.id), row.id))
    for before, after in itertools.pairwise(ordered):
        if before.id == after.id:
            raise ValueError(f"{path}: two rows have the id {before.id!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_to(path) as unfinished, pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for group in row_groups(ordered, settings):
            writer.write_table(_table(group, schema, store), row_group_size=len(group))
            release_memory()
    return len(ordered)


def _table(rows: list[SizedRow], schema: pa.Schema, store: MediaStore) -> pa.Table:
    """The rows with their images, turned into Arrow a few at a time: as Python objects they take far more room."""
    parts = (
        pa.Table.from_pylist([_with_images(row, store) for row in part], schema)
        for part in cut(rows, PART_BYTES, len(rows))
    )
    return pa.concat_tables(parts)


def row_groups(rows: list[SizedRow], settings: ShardSettings) -> Iterator[list[SizedRow]]:
    """The rows cut, in order, into row groups within the bounds of the settings."""
    return cut(rows, settings.row_group_bytes, settings.max_group_rows)


def cut(rows: list[SizedRow], most_bytes: int, most_rows: int) -> Iterator[list[SizedRow]]:
    """The rows cut, in order, into parts within the bounds; a row larger than the bound stands alone."""
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


def _with_images(sized: SizedRow, store: MediaStore) -> Row:
    row = sized.unpack()
    for column in IMAGE_COLUMNS:
        uris = row.get(column)
        if isinstance(uris, list):
            row[column] = [{"bytes": store.open_bytes(uri), "path": uri.split(":", 1)[1]} for uri in uris]
    return row


@dataclass(frozen=True)
class ShardTarget:
    """Where a set of rows goes and under which schema."""

    folder: str
    schema: pa.Schema
    roots: MediaRoots


def _add_sizes(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    rows = total_bytes = 0
    for count, size_bytes in pairs:
        rows, total_bytes = rows + count, total_bytes + size_bytes
    return rows, total_bytes


def _placed(row: SizedRow, shards: int) -> tuple[int, SizedRow]:
    return shard_of(row.id, shards), row


def _every_shard(shards: int) -> Iterator[tuple[int, SizedRow]]:
    for shard in range(shards):
        yield shard, NO_ROW


class _Write(beam.DoFn):
    def __init__(self, target: ShardTarget, settings: ShardSettings) -> None:
        self._target, self._settings = target, settings

    def setup(self) -> None:
        self._store = self._target.roots.store()
        # Arrow's own pool keeps what was freed for itself, beside the free memory that Python's side keeps.
        pa.set_memory_pool(pa.system_memory_pool())

    def process(self, keyed: tuple[int, Iterable[SizedRow]], shards: int) -> Iterator[tuple[str, int]]:
        shard, rows = keyed[0], (row for row in keyed[1] if row.packed)
        release_memory()
        name = f"train-{shard:05d}-of-{shards:05d}.parquet"
        path = place(self._target.folder, self._target.roots.storage) / name
        yield name, write_shard(rows, path, self._target.schema, self._settings, self._store)


@dataclass
class WriteShards(beam.PTransform):
    """Write sized rows as Parquet shards; see the module. Every shard is written, an empty one too."""

    target: ShardTarget
    settings: ShardSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, rows: PCollection) -> PCollection:
        """(file name, rows written) of each shard."""
        plan = (
            rows
            | "Sizes" >> beam.Map(lambda row: (1, row.size_bytes))
            | "Total" >> beam.CombineGlobally(_add_sizes)
            | "Plan" >> beam.Map(lambda total, settings: shard_count(total[0], total[1], settings), self.settings)
        )
        shards: Any = AsSingleton(plan)  # type: ignore[arg-type]
        empty = plan | "EveryShard" >> beam.FlatMap(_every_shard)
        placed = rows | "Place" >> beam.Map(_placed, shards)
        return (
            (placed, empty)
            | "Parts" >> beam.Flatten()
            | "ByShard" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_Write(self.target, self.settings), shards)
        )
