"""Computes the statistics of a run's audit for the run's data card: how often the verification was right.

In an audit (``beam view RUN --audit N``), a person judges a random sample of the run's traces (reasoning with answer).
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from groundtrace.publishing.reading import InspectError, input_folder
from groundtrace.publishing.view.audit import Audit, open_audit
from groundtrace.publishing.view.audit_estimate import Share, estimate
from groundtrace.publishing.view.audit_sample import SAMPLE, read_sample
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.schemas.text import counted
from groundtrace.vision.media import MediaStore


@dataclass(frozen=True)
class AuditFigures:
    """Holds the result of an audit, from the judgements of one reviewer.

    This is the reviewer who judged the most traces (reasoning with answer) as right or wrong. Reviewers who judged no
    kept row as right or wrong come last, because nothing can be estimated from their judgements.

    Attributes:
        sample: the number of traces in the sample.
        decided: the number of these traces that were judged as right or wrong.
        open: the number of these traces that were not judged yet.
        precision: the share of the kept rows that are right.
        recall: the share of all right rows that were kept. It is None in three cases: the verification rejected no row,
            no trace was judged as right, or there is a reason of rejection with no trace that was judged as right or
            wrong.
        kappas: for each other reviewer, Cohen's kappa (the agreement with this reviewer), and the number of traces that
            both reviewers judged.
    """

    sample: int
    decided: int
    open: int
    precision: Share
    recall: Share | None
    kappas: tuple[tuple[float, int], ...]


def audit_figures(run: Path) -> AuditFigures:
    """Return the result of a run's audit, from the judgements of one reviewer (:class:`AuditFigures`).

    ``run`` is the run folder.

    Raises :class:`groundtrace.publishing.reading.InspectError` if the run has no audit, if no kept row was judged as
    right or wrong, if a repeated run changed judged traces that were not judged again, or if the run or its audit
    cannot be read.
    """
    sample = read_sample(run)
    command = f"beam view {shlex.quote(str(run))} --audit {100 if sample is None else sample['count']}"
    if sample is None:
        raise InspectError(f"{run} has no audit: judge traces with `{command}`")
    rows = ViewedRows(run)
    try:
        images = RowImages(MediaStore(input_folder(rows.summary.input), str(run), cache_bytes=0))
        audit = open_audit(run, rows, images, sample["count"], "")
    finally:
        rows.close()
    audits = [Audit(run, audit.strata, audit.rows, sample["name"], reviewer) for reviewer in audit.reviewers]
    audit = max(audits, key=_decided, default=audit)
    if audit.changed:
        as_reviewer = f" --reviewer {shlex.quote(audit.reviewer)}" if audit.reviewer else ""
        raise InspectError(
            f"a repeated run has changed {counted(len(audit.changed), 'judged trace')} of the sample in "
            f"{run / SAMPLE}, so the other judged traces are not a random sample: judge the changed traces again with "
            f"`{command}{as_reviewer}`"
        )
    strata = audit.counted()
    found = estimate(strata)
    if found.precision is None:
        raise InspectError(f"no SFT row of {run} has been judged as right or wrong yet: judge traces with `{command}`")
    kappas = tuple(sorted(audit.kappa().values(), key=lambda each: (-each[1], -each[0])))
    decided, left = sum(each.decided for each in strata), sum(each.open for each in strata)
    return AuditFigures(len(audit.rows), decided, left, found.precision, found.recall, kappas)


def _decided(audit: Audit) -> tuple[bool, int]:
    """Return whether a kept row is decided, and how many traces are decided in total.

    A trace (reasoning with answer) and its row are decided if the audit's reviewer judged the trace as right or wrong.
    Without a decided kept row, nothing can be estimated.
    """
    kept, *rejected = audit.counted()
    return kept.decided > 0, kept.decided + sum(each.decided for each in rejected)
