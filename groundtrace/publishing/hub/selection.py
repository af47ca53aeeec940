"""Decides which rows of a run are published: by their source and licence, and by the flags of reviewers."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.sources import Key, count_sources, uses_of
from groundtrace.publishing.publication import SourceUse, rows_text
from groundtrace.schemas.run_summary import TRAINING_SETS


@dataclass(frozen=True)
class Selection:
    """Holds which rows of a run are published. A source is a data set from which rows come.

    Attributes:
        uses: the sources of the training rows with their licences and numbers of rows. For a published source, only the
            published rows are counted. A source is missing if all its rows are left out because of flags.
        sources: the (source, licence) pairs whose rows are published.
        flagged_ids: the ids of the records whose rows are left out because a reviewer has flagged the records.
        flagged: for each output set (sft, rl or rejected), the number of rows that are left out only because of a flag.
        rows: the numbers of published rows by output set.
        rows_of: the number of published rows of each shard (Parquet file).
    """

    uses: Sequence[SourceUse]
    sources: frozenset[Key]
    flagged_ids: frozenset[str]
    flagged: Mapping[str, int]
    rows: Mapping[str, int]
    rows_of: Mapping[Path, int]


def select_rows(
    shards: Mapping[str, Sequence[Path]], asked: Collection[str], flagged_ids: frozenset[str] = frozenset()
) -> Selection:
    """Decide which rows of a run are published.

    ``shards`` holds the shards (Parquet files) of each output set (such as sft) that may be published. ``asked`` holds
    the names of sources (data sets from which rows come) whose rows are published whatever their licence is. Rows whose
    id is in ``flagged_ids`` are not published. A flagged row of a source that is not published counts as left out
    because of its source.

    Raises PublishError if a shard cannot be read, if no row has a source in ``asked``, or if no training row may be
    published.
    """
    counted = {file: count_sources(file) for files in shards.values() for file in files}
    marked = {file: count_sources(file, flagged_ids) if flagged_ids else Counter[Key]() for file in counted}
    totals = {name: sum((counted[file] for file in files), Counter[Key]()) for name, files in shards.items()}
    left_out = {name: sum((marked[file] for file in files), Counter[Key]()) for name, files in shards.items()}
    training = [name for name in shards if name in TRAINING_SETS]
    uses = uses_of({name: totals[name] for name in training}, asked)
    sources = frozenset((use.source, use.licence) for use in uses if use.is_published)
    flagged = {name: sum(left_out[name][key] for key in sources) for name in shards}
    rows = {name: sum(totals[name][key] for key in sources) - flagged[name] for name in shards}
    if not any(rows[name] for name in training):
        raise PublishError(nothing_to_publish(uses, {name: flagged[name] for name in training}))
    rows_of = {file: sum(counted[file][key] - marked[file][key] for key in sources) for file in counted}
    return Selection(_without_flagged(uses, left_out), sources, flagged_ids, flagged, rows, rows_of)


def count_rows(shards: Mapping[str, Sequence[Path]], sources: Collection[Key], ids: Collection[str]) -> dict[str, int]:
    """Return for each output set (such as sft) the number of rows whose id is in ``ids`` and whose (source, licence) is
    in ``sources``.

    ``shards`` holds the shards (Parquet files) of each output set. Raises PublishError if a shard cannot be read.
    """
    counts = {name: [count_sources(file, ids) for file in files if ids] for name, files in shards.items()}
    return {name: sum(count[key] for count in found for key in sources) for name, found in counts.items()}


def _without_flagged(uses: Sequence[SourceUse], left_out: Mapping[str, Counter[Key]]) -> list[SourceUse]:
    """Subtract the flagged rows from the numbers of rows of the published sources, and return the sources.

    A source is a data set from which rows come. The sources that are not published keep their numbers of rows.
    ``left_out`` holds for each output set (such as sft) the number of flagged rows by source and licence. If all rows
    of a published source are flagged, the source is left out of the result.
    """
    found = list[SourceUse]()
    for use in uses:
        if use.is_published:
            key = use.source, use.licence
            use = replace(use, rows={side: count - left_out[side][key] for side, count in use.rows.items()})
        if use.total:
            found.append(use)
    return found


def nothing_to_publish(uses: Sequence[SourceUse], flagged: Mapping[str, int]) -> str:
    """Return the error message for a run without a row that may be published.

    ``uses`` are the sources of the run (the data sets from which its rows come) with their licences. ``flagged`` holds
    for each training set the number of rows that are left out only because a reviewer flagged their records. If there
    are such rows, the message states their numbers. Otherwise the message names the first source and its licence. The
    message also states what to do.
    """
    if any(flagged.values()):
        return (
            f"no row is left to publish, because the records of {rows_text(flagged)} are flagged in `beam view`: leave "
            "out --without-flagged, or remove flags there"
        )
    if not uses:
        return "the run has no rows to publish: choose a run that kept rows"
    use = uses[0]
    source = use.source or "the source"
    named = f'the licence of {source} is "{use.licence}", which {use.terms.text}'
    return (
        f"no row may be published: {named if use.licence else f'the rows of {source} name no licence'}: set "
        f"input.constants.license to the right licence and run again, or pass --include-source {use.source!r} if you "
        "have the right to publish its rows"
    )
