"""Which rows of a run may be published: by source and licence, as the rows themselves name them."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.figures import BATCH_ROWS, one_line
from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.licences import Terms, hub_id, terms_of

Key = tuple[str, str]
"""Source and licence of a row; "" where it has none."""


@dataclass(frozen=True)
class SourceUse:
    """The rows of one source under one licence, by set, and whether they are published; ``asked`` by name."""

    source: str
    licence: str
    rows: Mapping[str, int]
    asked: bool

    @property
    def terms(self) -> Terms:
        """What the licence asks."""
        return terms_of(self.licence)

    @property
    def total(self) -> int:
        """Its rows in all sets."""
        return sum(self.rows.values())

    @property
    def is_published(self) -> bool:
        """Whether the rows go out."""
        return self.asked or self.terms.may_be_published


@dataclass(frozen=True)
class Publication:
    """What a card says of being published: the run's digest, the ``uses`` of all sources, the published one with the
    ``strictest`` licence, and further configs by name with their files' pattern.
    """

    run_sha256: str
    uses: tuple[SourceUse, ...]
    strictest: SourceUse | None
    configs: Mapping[str, str]

    @property
    def left_out(self) -> list[SourceUse]:
        """The sources whose rows stay with the maker."""
        return [use for use in self.uses if not use.is_published]

    @property
    def share_alike(self) -> list[str]:
        """The published licences that ask to be kept, where there is another than the strictest."""
        asking = (Terms.SHARE_ALIKE, Terms.NON_COMMERCIAL_SHARE_ALIKE)
        found = {hub_id(use.licence) for use in self.uses if use.is_published and use.terms in asking}
        return sorted(found) if self.strictest and found - {hub_id(self.strictest.licence)} else []

    @property
    def included(self) -> list[SourceUse]:
        """The sources that go out though their licence does not say so, because the maker asked for it."""
        return [use for use in self.uses if use.is_published and not use.terms.may_be_published]


def count_sources(file: Path) -> Counter[Key]:
    """The rows of a shard by source and licence. Raises PublishError where it cannot be read."""
    found = Counter[Key]()
    for batch in batches(file, ["source", "license"]):
        columns = (batch[name].to_pylist() for name in ("source", "license"))
        found.update((source or "", licence or "") for source, licence in zip(*columns, strict=True))
    return found


def batches(file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns of a shard, some rows at a time. Raises PublishError where it cannot be read."""
    try:
        with pq.ParquetFile(file) as shard:
            yield from shard.iter_batches(BATCH_ROWS, columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        raise PublishError(f"{file} cannot be read: {one_line(error)}: repeat the run") from error


def uses_of(counted: Mapping[str, Counter[Key]], asked: Collection[str]) -> list[SourceUse]:
    """The sources of all sets, most rows first; ``asked`` are names of sources to publish whatever their licence.

    Raises PublishError for a name that no row has.
    """
    keys = {key for counts in counted.values() for key in counts}
    known = {source for source, _ in keys}
    unknown = sorted(set(asked) - known)
    if unknown:
        near = ", ".join(repr(name) for name in sorted(known)[:5])
        raise PublishError(f"--include-source {unknown[0]!r}: no row has this source; there are {near}")
    uses = [SourceUse(*key, {side: counts[key] for side, counts in counted.items()}, key[0] in asked) for key in keys]
    return sorted(uses, key=lambda use: (-use.total, use.source, use.licence))


def strictest(uses: Sequence[SourceUse]) -> SourceUse | None:
    """Of the published sources the one with the strictest licence; None where nothing is published."""
    return max((use for use in uses if use.is_published), key=lambda use: (use.terms, use.licence), default=None)
