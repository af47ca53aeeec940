"""Whether a run has failed: where a stage could not do its work, its outputs mean nothing."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from inference.errors import stop_in
from pipelines.running.errors import RunPaused
from pipelines.running.loading import PipelineError
from schemas.errors import UserError
from schemas.run_summary import RunSummary
from stages.plumbing.recipe import Recipe
from stages.plumbing.stage import CALL_FAILED

MIN_FAILED = 5
"""Fewer records than this are no sign of anything, but where not one call was answered."""


class EndpointRefuses(UserError):
    """An endpoint of the config does not serve the run; the message says what to change."""


def stop_of(error: BaseException) -> Exception | None:
    """The error to end with, where a worker ended the run because an endpoint does not serve; None for other errors.

    That is :class:`EndpointRefuses`, or :class:`pipelines.running.errors.RunPaused` where the same command goes on.
    """
    seen: set[int] = set()  # a chain may lead back into itself
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        if (stop := stop_in(str(each))) is not None:
            return RunPaused(stop.message) if stop.resumable else EndpointRefuses(stop.message)
        seen.add(id(each))
        each = each.__cause__ or each.__context__
    return None


def check_failures(recipe: Recipe, summary: RunSummary, staging: Path, max_failed: float) -> None:
    """Raises PipelineError where a stage rejected more than this share of its records because it could not do its work.

    The message says what went wrong most often, as ``rejected/`` in the staging folder has it.
    """
    for stage in recipe.stages:
        failures = (*stage.failures, *((CALL_FAILED,) if stage.asks and not stage.is_sample else ()))
        reasons, figures = summary.counts.rejected.get(stage.name, {}), summary.stages.get(stage.name)
        failed, read = sum(reasons.get(reason, 0) for reason in failures), figures.read if figures else 0
        none_answered = read > 0 and reasons.get(CALL_FAILED, 0) == read
        if (failed >= MIN_FAILED or none_answered) and failed > max_failed * read:
            found = tuple(reason for reason in failures if reasons.get(reason))
            detail = most_frequent_detail(staging, stage.name, found)
            raise PipelineError(
                f"{stage.name}: {failed} of {read} records ended as {' or '.join(found)}; most often: {detail}"
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
