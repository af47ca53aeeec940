"""Prevents a run that made no SFT and no RL rows from replacing the rows of a finished run in its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.figures import truncations
from groundtrace.publishing.reading import InspectError, read_summary
from groundtrace.publishing.rejections import why_no_rows
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.run_summary import TRAINING_SETS, RunSummary
from groundtrace.schemas.text import counted
from groundtrace.stages.plumbing.stage import BUDGET


class NothingKept(UserError):
    """Raised if a run made no SFT and no RL rows, but its folder holds rows of a finished run. The old rows were not
    replaced.
    """


def check_kept(root: Path, output: str, summary: RunSummary, config: Mapping[str, Any]) -> None:
    """Raise :class:`NothingKept` if a run made no SFT and no RL rows, but its folder holds rows of an older run.

    ``root`` is the run folder on this machine. ``output`` is its path or URL as the user gave it, for the message.
    ``summary`` holds the new run's counts of records and rows, and ``config`` is its complete config.
    """
    held = "" if summary.counts.kept else _rows_in(root)
    if not held:
        return
    why = why_no_rows(summary, config) or "it read no records"
    [(reason, _)] = summary.counts.by_reason.most_common(1) or [("", 0)]
    detail = summary.detail_of(reason)
    why = "; ".join([f"{why}{f' (most often: {detail})' if detail else ''}", *truncations(summary)])
    change = "Set a larger budget to continue from the cache" if reason == BUDGET else "Correct the cause and run again"
    raise NothingKept(
        f"this run kept no rows: {why}. The old outputs were not replaced: {output} still holds {held}. {change}. "
        "To replace the old outputs although the new ones have no rows, add --replace (replace=True in Python)"
    )


def _rows_in(root: Path) -> str:
    """Return a text on the training rows in the run folder ``root``, with their number; "" if there are no such rows.

    If ``run.json`` cannot be read, the rows in the folder's Parquet files are counted. There is one exception: for a
    run folder in a store (remote storage such as S3), the result is then "". The reason is that its Parquet files are
    not copied to this machine. In a store, a folder without ``run.json`` holds no finished run.
    """
    try:
        held = read_summary(root, checked=False)
    except InspectError:
        rows = sum(_rows_of(file) for name in TRAINING_SETS for file in (root / name).glob("*.parquet"))
        return f"{counted(rows, 'row')} of a run whose run.json is missing or damaged" if rows else ""
    counts = held.counts
    return f"the run of {held.finished} ({counts.sft} sft and {counts.rl} rl)" if counts.kept else ""


def _rows_of(shard: Path) -> int:
    """Return the number of rows of a shard (Parquet file of rows).

    If the shard cannot be read, return 1, because it may hold rows that must not be replaced.
    """
    try:
        return pq.read_metadata(shard).num_rows
    except (OSError, pa.ArrowException):
        return 1
