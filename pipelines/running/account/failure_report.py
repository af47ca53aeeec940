"""Reports a run that does not finish: writes a page into its folder, and adds a note with its cost to the error."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from groundtrace.pipelines.running.account.spending import Spending
from groundtrace.pipelines.running.endings import RunNote, ending_of
from groundtrace.pipelines.running.plan.freshness import FreshnessError, fresh_since, is_unfinished_fresh
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.publishing.failure import RunFailure, StageCounts, write_failure
from groundtrace.publishing.reading import FAILED_PAGE
from groundtrace.schemas.run_summary import PaidFigures, RunSummary
from groundtrace.schemas.text import counted, dollars
from groundtrace.stages.plumbing.metrics import board
from groundtrace.storage.places import joined


@dataclass
class PartialRun:
    """Holds the known part of a run's result, for the page on a failed run.

    ``summary`` is the summary of the run; None until the records are counted.
    """

    summary: RunSummary | None = None


@contextlib.contextmanager
def reporting_failure(plan: Plan, spending: Spending) -> Iterator[PartialRun]:
    """Write the page ``failed.html`` into the run folder if the body of the ``with`` statement raises an error, and
    raise the error again.

    The error gets a note with the run's cost and the path of the page. Yields a :class:`PartialRun`, whose field
    ``summary`` is None. As soon as the summary of the run is known, the body stores it in this field, so that the page
    can show it. ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. ``spending``
    records the run's costs.
    """
    made = PartialRun()
    try:
        yield made
    except BaseException as error:
        error.add_note(_write_report(error, plan, spending, made.summary))
        raise


def _write_report(error: BaseException, plan: Plan, spending: Spending, summary: RunSummary | None) -> RunNote:
    """Write the page ``failed.html``, which reports a failed run, and return a note on the failure for the user.

    ``error`` is the error that ended the run. ``plan`` holds what the run needs, such as its recipe, settings, input
    and run folder. ``spending`` holds the costs, and ``summary`` the counts of the run (None if they are unknown). The
    note is one line with the run's cost and the path of the page. If the page cannot be written, the note contains the
    reason.
    """
    ending, root = ending_of(error), plan.folder.root
    paid = payment_lines(spending.latest)
    with contextlib.suppress(FreshnessError):
        if is_unfinished_fresh(root):
            paid.append(f"--fresh goes on with the replies since {fresh_since(root)}")
    try:
        failure = RunFailure(
            what=ending.what,
            line=ending.line,
            remedy=ending.remedy,
            recipe=plan.recipe.name,
            input=plan.input.name,
            spent=spending.latest,
            paid=spending.total(),
            reached=tuple(StageCounts(name, seen.kept, seen.rejected) for name, seen in board().items()),
        )
        write_failure(root, failure, plan.folder.staging, summary, plan.context.roots.store())
        page = f"report: {joined(plan.arguments.output, FAILED_PAGE)}"
    except Exception as broken:  # any error: the user must still learn why the run failed
        reason = " ".join(str(broken).split()) or type(broken).__name__
        page = f"the report of this failure could not be written: {reason}"
    return RunNote("; ".join([*paid, page]))


def payment_lines(paid: PaidFigures | None) -> list[str]:
    """Return a list with one line of text on the cost of a run, its requests and tokens, for the user.

    ``paid`` holds these numbers; None if they are unknown. The list is empty if the run used neither money nor tokens,
    or if the numbers are unknown.
    """
    if paid is None or not (paid.usd or paid.tokens):
        return []
    return [f"paid {dollars(paid.usd)}: {counted(paid.requests, 'request')}, {counted(paid.tokens, 'token')}"]
