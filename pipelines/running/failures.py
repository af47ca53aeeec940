"""Whether a run that came to its end has failed: where a stage could not do its work, its outputs mean nothing."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.running.loading import PipelineError
from schemas.run_summary import RunSummary
from stages.plumbing.recipe import Recipe

MIN_FAILED = 5
"""Fewer records than this are no sign of anything."""


def check_failures(recipe: Recipe, summary: RunSummary, staging: Path, max_failed: float) -> None:
    """Raises PipelineError where a stage rejected more than this share of its records because it could not do its work.

    The message says what went wrong most often, as ``rejected/`` in the staging folder has it.
    """
    for stage in recipe.stages:
        reasons, figures = summary.counts.rejected.get(stage.name, {}), summary.stages.get(stage.name)
        failed, read = sum(reasons.get(reason, 0) for reason in stage.failures), figures.read if figures else 0
        if failed >= MIN_FAILED and failed > max_failed * read:
            detail = most_frequent_detail(staging, stage.name, stage.failures)
            raise PipelineError(
                f"{stage.name}: {failed} of {read} records ended as {' or '.join(stage.failures)}; most often: {detail}"
                f". Nothing was replaced, and the replies are kept: mend that and run again, or set max_failed"
            )


def most_frequent_detail(staging: Path, stage: str, reasons: tuple[str, ...]) -> str:
    """What ``rejected/`` says most often of the records that a stage rejected for these reasons."""
    counted = Counter[str]()
    for file in sorted((staging / "rejected").glob("*.parquet")):
        rows = pq.read_table(file, columns=["stage", "reason", "detail"]).to_pylist()
        details = (row["detail"] or "" for row in rows if row["stage"] == stage and row["reason"] in reasons)
        counted.update(" ".join(detail.split())[:200] for detail in details)
    return counted.most_common(1)[0][0] if counted else "nothing is said"
