"""Writes the page of a run that did not finish: ``failed.html`` in the run folder.

A failed run replaces no file of the last finished run, so its page is not called ``report.html``. The page begins with
the error, the remedy, the content of the folder and the cost. If the run had already counted its records when it
failed, the page also has all parts of a finished run's report, such as the numbers of kept and rejected records.
"""

from dataclasses import dataclass, field
from pathlib import Path

from groundtrace.pages.render import render
from groundtrace.publishing.diversity import balances
from groundtrace.publishing.reading import FAILED_PAGE, InspectError, open_tables, read_summary
from groundtrace.publishing.report import report_page
from groundtrace.schemas.run_summary import PaidFigures, RunSummary
from groundtrace.schemas.text import printable, utc_now
from groundtrace.storage.files import write_atomically
from groundtrace.vision.media import MediaStore


@dataclass(frozen=True)
class StageCounts:
    """Holds how many records one stage (step of the pipeline) kept and rejected in a run that did not finish."""

    stage: str
    kept: int
    rejected: int


@dataclass(frozen=True)
class RunFailure:
    """Holds the facts about a run that did not finish, for its page ``failed.html``.

    Attributes:
        what: the heading of the page, which is a short form of the error message.
        line: the error message, as the terminal showed it. It may have several lines.
        remedy: what the user has to do.
        recipe, input: the names of the recipe (the run's pipeline) and of the data that it reads.
        spent: the calls and cost of this run; None if it failed before its first paid call.
        paid: the calls and cost of all runs in this run folder together.
        reached: how many records each stage (step of the pipeline) has processed. The numbers come from the process
            that writes the page. So records that other processes of the run handled may be missing.
        ended: the time of the failure, in UTC.
    """

    what: str
    line: str
    remedy: str
    recipe: str
    input: str
    spent: PaidFigures | None
    paid: PaidFigures
    reached: tuple[StageCounts, ...] = ()
    ended: str = field(default_factory=utc_now)


def write_failure(
    root: Path, failure: RunFailure, staging: Path, summary: RunSummary | None, store: MediaStore
) -> None:
    """Write the page ``failed.html`` into the folder of a run that did not finish. Other files are not changed.

    ``root`` is the run folder, and ``failure`` holds the facts about the failure. ``staging`` is the folder with the
    run's shards (Parquet files). ``summary`` holds the numbers of records in these shards; None if the run failed
    before it counted the records. If there is a summary, the page also has all parts of a finished run's report.
    ``store`` reads the images of rejected records for these parts.

    Raises OSError if the page cannot be written, and :class:`groundtrace.publishing.reading.InspectError` for shards
    that cannot be read.
    """
    about = {"failure": failure, "why": [printable(line) for line in failure.line.splitlines()]}
    about |= {"standing": _standing(root), "previous": (root / "previous").is_dir()}
    if summary is None:
        page = render("groundtrace.publishing", "failed.html.jinja", name=root.name, **about)
    else:
        with open_tables(staging, summary) as tables:
            spread = balances(staging, tables, summary.sets)
            page = report_page(staging, root, summary, store, tables, spread, **about)
    write_atomically(root / FAILED_PAGE, page.encode("utf-8", "backslashreplace"))


def _standing(root: Path) -> RunSummary | None:
    """Return the summary of the last finished run in the folder; None if no run in this folder has finished."""
    try:
        return read_summary(root, checked=False)
    except InspectError:
        return None
