"""Reads the traces (reasoning with answer) of some rows from their shards (Parquet files), to compare them with the
traces that a reviewer has marked.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.reading import InspectError, one_line
from groundtrace.publishing.view.reviews import seen_trace

ROWS_AT_ONCE = 64
_COLUMNS = {
    "messages": ("messages",),
    "traces": ("traces.list.element.text", "traces.list.element.score"),
}
"""The columns with traces, each with the Parquet paths of the parts that are read."""
Place = tuple[Path, int]


def seen_traces(places: Iterable[Place]) -> dict[Place, str]:
    """Return the SHA-256 of the trace (reasoning with answer) that the page of each row shows first
    (:func:`groundtrace.publishing.view.reviews.seen_trace`).

    ``places`` are the rows, each as its shard (Parquet file) and its index in the shard. Each shard is read once, and
    only the row groups with one of the rows. Raises :class:`groundtrace.publishing.reading.InspectError` if a shard
    cannot be read.
    """
    wanted = defaultdict[Path, set[int]](set)
    for file, row in places:
        wanted[file].add(row)
    found = dict[Place, str]()
    for file, rows in wanted.items():
        try:
            found |= {(file, row): digest for row, digest in _digests(file, rows)}
        except (OSError, pa.ArrowException) as error:
            raise InspectError(f"cannot read {file}: {one_line(error)}: repeat the run") from error
    return found


def _digests(file: Path, wanted: Set[int]) -> Iterator[tuple[int, str]]:
    """Yield the index of each wanted row of a shard (Parquet file), with the SHA-256 of the trace that its page shows
    first.
    """
    with pq.ParquetFile(file, pre_buffer=False) as shard:
        held = shard.schema_arrow.names
        columns = [path for name, paths in _COLUMNS.items() if name in held for path in paths]
        first = 0
        for group in range(shard.num_row_groups):
            after = first + shard.metadata.row_group(group).num_rows
            if any(first <= row < after for row in wanted):
                for batch in shard.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=columns):
                    yield from (
                        (first + index, seen_trace(batch.slice(index, 1).to_pylist()[0]))
                        for index in range(batch.num_rows)
                        if first + index in wanted
                    )
                    first += batch.num_rows
            first = after
