"""Decides whether a run has failed because its input or a stage (step of the pipeline) failed.

A stage fails if too many of its records failed, for example because the model calls for them failed. The outputs of
a run with a failed stage are useless.
"""

from collections import Counter
from operator import itemgetter
from pathlib import Path

import pyarrow.parquet as pq

from groundtrace.pipelines.running.plan.loading import PipelineError
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import printable
from groundtrace.stages.ingest_records import STAGE as INGEST_STAGE
from groundtrace.stages.plumbing.stage import CALL_FAILED, UNPARSABLE_REPLY
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.base import InputError

MAX_DETAIL_CHARS = 200
INGEST = INGEST_STAGE.name
MIN_FAILED = 5
"""The minimum number of failed records with which a stage can fail the run.

With fewer failed records, a stage can fail the run only if the model calls of all its records failed.
"""


class StageFailed(PipelineError):
    """Raised if too many records failed in a stage (step of the pipeline).

    If ``by_replies`` is True, replies of models were unusable for at least one record. These replies are in the cache,
    so the same command would use them again.
    """

    def __init__(self, message: str, by_replies: bool) -> None:
        super().__init__(message)
        self.by_replies = by_replies


def check_records(summary: RunSummary) -> None:
    """Raise InputError if no record of the input can be used: the input is empty, or all its records were rejected.

    The first step of the pipeline reads the records. A record that only a later step rejected counts as usable.
    ``summary`` holds the run's counts of records and rejections.
    """
    counts = summary.counts
    if not counts.input:
        raise InputError(
            f"{summary.input} has no records: set --input to data with records (no earlier output was replaced)"
        )
    reasons = counts.rejected.get(INGEST, {})
    if sum(reasons.values()) == counts.input:
        reason, records = max(reasons.items(), key=itemgetter(1))
        raise InputError(
            f"all records of {summary.input} were rejected, {records} of {counts.input} as {reason} (such as: "
            f"{summary.detail_of(reason)}). No earlier output was replaced. List the problems of the records with "
            "`beam validate`, and correct them"
        )


def check_failures(stages: StageList, summary: RunSummary, staging: Path, max_failed: float) -> None:
    """Raise StageFailed if too many records failed in a stage (step of the pipeline).

    A record fails e.g. if a model call for it fails, or if the model's reply does not have the requested form. A stage
    has too many failed records if both conditions are met:

    - Their share of the stage's records is above ``max_failed``.
    - Their number is at least :data:`MIN_FAILED`, or the model calls of all records of the stage have failed.

    The message contains the most frequent detail (the text that explains a rejection) of the failed records.

    Args:
        stages: The stages of the run.
        summary: The summary of the run, with the number of records that each stage rejected for each reason.
        staging: The staging folder of the run, which holds its new outputs. The subfolder ``rejected/`` holds the
            rejected records.
        max_failed: The maximum share (0–1) of a stage's records that may fail.
    """
    for stage in stages:
        of_calls = (CALL_FAILED, UNPARSABLE_REPLY) if stage.asks and not stage.is_sample else ()
        failures = (*stage.failures, *of_calls)
        reasons, figures = summary.counts.rejected.get(stage.name, {}), summary.stages.get(stage.name)
        failed, read = sum(reasons.get(reason, 0) for reason in failures), figures.read if figures else 0
        none_answered = read > 0 and reasons.get(CALL_FAILED, 0) == read
        if (failed >= MIN_FAILED or none_answered) and failed > max_failed * read:
            found = tuple(reason for reason in failures if reasons.get(reason))
            detail = most_frequent_detail(staging, stage.name, found)
            by_replies = found != (CALL_FAILED,)
            fresh = " (with --fresh, to get new replies, if the replies are wrong)" if by_replies else ""
            raise StageFailed(
                f"the stage {stage.name} rejected {failed} of {read} records as {' or '.join(found)}, most often "
                f"because: {detail}. No earlier output was replaced, and the models' replies are kept for the next "
                f"run. Correct this cause and run the same command again{fresh}, or raise the setting max_failed",
                by_replies,
            )


def most_frequent_detail(staging: Path, stage: str, reasons: tuple[str, ...]) -> str:
    """Return the most frequent explanation (detail) of a stage's rejections; "no detail" if there are no such records.

    A stage is a step of the pipeline. A detail is the text that explains the rejection of a record. ``staging`` is the
    staging folder of the run, which holds its new outputs. The subfolder ``rejected/`` holds the rejected records.
    ``stage`` is the name of the stage. Only rejections for one of the ``reasons`` count.
    """
    counted = _counted_details(staging)
    most = sum((counted.get((stage, reason), Counter[str]()) for reason in reasons), Counter[str]()).most_common(1)
    return most[0][0] if most else "no detail"


def most_frequent_details(staging: Path) -> dict[str, dict[str, str]]:
    """Return the most frequent detail (the text that explains a rejection) by stage (pipeline step) and reason.

    ``staging`` is the staging folder of the run, which holds its new outputs. The subfolder ``rejected/`` holds the
    rejected records. The result maps the name of a stage to a dict, which maps each reason to the detail.
    """
    found: dict[str, dict[str, str]] = {}
    for (stage, reason), details in sorted(_counted_details(staging).items()):
        found.setdefault(stage, {})[reason] = details.most_common(1)[0][0]
    return found


def _counted_details(staging: Path) -> dict[tuple[str, str], Counter[str]]:
    """Return how often each detail is in ``rejected/``, by stage (pipeline step) and reason. A detail is cut to one
    short line.

    A detail is the text that explains the rejection of a record. ``staging`` is the folder that contains ``rejected/``.
    """
    counted: dict[tuple[str, str], Counter[str]] = {}
    for file in sorted((staging / "rejected").glob("*.parquet")):
        with pq.ParquetFile(file) as shard:  # pq.read_table imports pandas, and pyarrow's group_by its 280 functions
            batches = shard.iter_batches(columns=["stage", "reason", "detail"])
            found = Counter(each for batch in batches for each in zip(*batch.to_pydict().values(), strict=True))
        for (stage, reason, text), count in found.items():
            detail = printable(" ".join((text or "").split()))[:MAX_DETAIL_CHARS]
            counted.setdefault((stage, reason), Counter())[detail] += count
    return counted
