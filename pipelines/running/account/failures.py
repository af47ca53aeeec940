"""Decides whether a run has failed.

A run has failed if a stage could not do its work, for example because its model calls failed. The outputs of such a run
are useless.
"""

from collections import Counter
from operator import itemgetter
from pathlib import Path

import pyarrow.parquet as pq

from groundtrace.pipelines.running.plan.loading import PipelineError
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import printable
from groundtrace.stages.ingest_records import STAGE as INGEST_STAGE
from groundtrace.stages.plumbing.stage import CALL_FAILED
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.base import InputError

MAX_DETAIL_CHARS = 200
INGEST = INGEST_STAGE.name
MIN_FAILED = 5
"""A stage with fewer failed records than this does not fail the run, unless all its calls failed."""


def check_records(summary: RunSummary) -> None:
    """Raise InputError if the input has no records, or none of its records can be used."""
    counts = summary.counts
    if not counts.input:
        raise InputError(
            f"{summary.input} has no records: no earlier output was replaced; name an input that has records"
        )
    reasons = counts.rejected.get(INGEST, {})
    if sum(reasons.values()) == counts.input:
        reason, records = max(reasons.items(), key=itemgetter(1))
        raise InputError(
            f"{summary.input}: all records were rejected, {records} of {counts.input} as {reason} "
            f"({summary.detail_of(reason)}). No earlier output was replaced: correct the records; `beam validate` "
            "lists their problems"
        )


def check_failures(stages: StageList, summary: RunSummary, staging: Path, max_failed: float) -> None:
    """Raise PipelineError if a stage could not do its work for more than the share ``max_failed`` of its records.

    The rejected records are in ``rejected/`` of the staging folder, each with a detail (a text that explains the
    rejection). The message contains the most frequent detail of the failed records.
    """
    for stage in stages:
        failures = (*stage.failures, *((CALL_FAILED,) if stage.asks and not stage.is_sample else ()))
        reasons, figures = summary.counts.rejected.get(stage.name, {}), summary.stages.get(stage.name)
        failed, read = sum(reasons.get(reason, 0) for reason in failures), figures.read if figures else 0
        none_answered = read > 0 and reasons.get(CALL_FAILED, 0) == read
        if (failed >= MIN_FAILED or none_answered) and failed > max_failed * read:
            found = tuple(reason for reason in failures if reasons.get(reason))
            detail = most_frequent_detail(staging, stage.name, found)
            raise PipelineError(
                f"{stage.name}: {failed} of {read} records were rejected as {' or '.join(found)}; most often: {detail}"
                f". No earlier output was replaced, and the replies are kept: remove the cause and run again, or raise "
                "max_failed"
            )


def most_frequent_detail(staging: Path, stage: str, reasons: tuple[str, ...]) -> str:
    """Return the most frequent detail among the records that a stage rejected for these reasons.

    A detail is the text that explains a rejection; it is in ``rejected/`` of the staging folder. The result is
    "no detail" if there are no such records.
    """
    counted = _counted_details(staging)
    most = sum((counted.get((stage, reason), Counter[str]()) for reason in reasons), Counter[str]()).most_common(1)
    return most[0][0] if most else "no detail"


def most_frequent_details(staging: Path) -> dict[str, dict[str, str]]:
    """Return the most frequent detail (the text that explains a rejection) in ``rejected/``, by stage and reason."""
    found: dict[str, dict[str, str]] = {}
    for (stage, reason), details in sorted(_counted_details(staging).items()):
        found.setdefault(stage, {})[reason] = details.most_common(1)[0][0]
    return found


def _counted_details(staging: Path) -> dict[tuple[str, str], Counter[str]]:
    """Return how often each detail is in ``rejected/``, by stage and reason; a detail is cut to one short line."""
    counted: dict[tuple[str, str], Counter[str]] = {}
    for file in sorted((staging / "rejected").glob("*.parquet")):
        columns = ["stage", "reason", "detail"]  # ParquetFile, because pq.read_table imports pandas
        details = pq.ParquetFile(file).read(columns).group_by(columns)
        for row in details.aggregate([([], "count_all")]).to_pylist():
            detail = printable(" ".join((row["detail"] or "").split()))[:MAX_DETAIL_CHARS]
            counted.setdefault((row["stage"], row["reason"]), Counter())[detail] += row["count_all"]
    return counted
