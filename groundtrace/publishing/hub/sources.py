"""Decides which rows of a run may be published, by the source and licence that each row names."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.publication import SourceUse
from groundtrace.publishing.reading import BATCH_ROWS, one_line

Key = tuple[str, str]
"""The source and the licence that a row names; "" for a missing value."""


def count_sources(file: Path, ids: Collection[str] | None = None) -> Counter[Key]:
    """Return the number of rows of a shard (Parquet file of a run) for each pair of source and licence.

    A source is a data set from which rows come. ``file`` is the path of the shard. If ``ids`` is not None, only the
    rows with these ids are counted. Raises PublishError if the shard cannot be read.
    """
    found = Counter[Key]()
    for batch in batches(file, ["source", "license", *([] if ids is None else ["id"])]):
        keys = keys_of(batch)
        counted = keys if ids is None else itertools.compress(keys, (each in ids for each in batch["id"].to_pylist()))
        found.update(counted)
    return found


def keys_of(batch: pa.RecordBatch) -> list[Key]:
    """Return the source and the licence of each row of a batch."""
    columns = (batch[name].to_pylist() for name in ("source", "license"))
    return [(source or "", licence or "") for source, licence in zip(*columns, strict=True)]


def batches(file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard (Parquet file of a run) in batches, with only the given ``columns``.

    ``file`` is the path of the shard. Raises PublishError if it cannot be read.
    """
    try:
        with pq.ParquetFile(file) as shard:
            yield from shard.iter_batches(BATCH_ROWS, columns=list(columns))
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise PublishError(f"{file} cannot be read: {one_line(error)}: repeat the run") from error


def uses_of(counted: Mapping[str, Counter[Key]], asked: Collection[str]) -> list[SourceUse]:
    """Return the sources of a run with their licences and numbers of rows. The sources with the most rows come first.

    A source is a data set from which rows come. ``counted`` holds for each output set (such as sft) the number of rows
    by source and licence. ``asked`` are the sources that the user named; the rows of these sources are published
    whatever their licence is. Raises PublishError for a name in ``asked`` that is not the source of any row.
    """
    keys = {key for counts in counted.values() for key in counts}
    known = {source for source, _ in keys}
    unknown = sorted(set(asked) - known)
    if unknown:
        near = ", ".join(repr(name) for name in sorted(known)[:5])
        raise PublishError(
            f"--include-source names {unknown[0]!r}, but no row has this source: name a source of the run, such as "
            f"{near}"
        )
    uses = [SourceUse(*key, {side: counts[key] for side, counts in counted.items()}, key[0] in asked) for key in keys]
    return sorted(uses, key=lambda use: (-use.total, use.source, use.licence))


def strictest(uses: Sequence[SourceUse]) -> SourceUse | None:
    """Return the published source whose licence is the strictest; None if no source is published.

    A source is a data set from which rows of a run come. ``uses`` are all sources of the run with their licences.
    """
    return max((use for use in uses if use.is_published), key=lambda use: (use.terms, use.licence), default=None)
