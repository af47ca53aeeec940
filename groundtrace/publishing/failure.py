"""The page of a run that did not finish: ``failed.html`` in the run folder, beside what the last finished run left.

A failed run replaces nothing, so its page is no ``report.html``. It begins with what went wrong, what there is to do,
what stands in the folder and what was paid; where the run had counted its records, the whole report of them follows.
"""

import datetime
from dataclasses import dataclass, field
from pathlib import Path

from groundtrace.publishing.figures import FAILED_PAGE, InspectError, read_summary
from groundtrace.publishing.pages import render
from groundtrace.publishing.report import report_page
from groundtrace.schemas.files import write_atomically
from groundtrace.schemas.run_summary import PaidFigures, RunSummary
from groundtrace.schemas.text import printable
from groundtrace.vision.media import MediaStore


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Reached:
    """How far a stage came: the records that went on and those that were rejected."""

    stage: str
    kept: int
    rejected: int


@dataclass(frozen=True)
class Failure:
    """Why a run ended before its end.

    Attributes:
        what: that it failed, in a few words.
        line: why, as the user got it in the terminal.
        remedy: what the user has to do.
        recipe, input: what was run on what.
        spent: what this run has paid; None where it ended before it could pay.
        paid: what all runs of the folder have paid.
        reached: how far the stages came, as far as this process knows.
        ended: when, in UTC.
    """

    what: str
    line: str
    remedy: str
    recipe: str
    input: str
    spent: PaidFigures | None
    paid: PaidFigures
    reached: tuple[Reached, ...] = ()
    ended: str = field(default_factory=_now)


def write_failure(root: Path, failure: Failure, staging: Path, summary: RunSummary | None, store: MediaStore) -> None:
    """Write ``failed.html`` into the run folder ``root``, whose other files stay as they are.

    ``summary`` not None is what the run counted before it failed, of the shards in ``staging``. Raises OSError, and
    :class:`groundtrace.publishing.figures.InspectError` for shards that cannot be read.
    """
    about = {"failure": failure, "why": [printable(line) for line in failure.line.splitlines()]}
    about |= {"standing": _standing(root), "previous": (root / "previous").is_dir()}
    if summary is None:
        page = render("failed.html.jinja", name=root.name, **about)
    else:
        page = report_page(staging, root, summary, store, **about)
    write_atomically(root / FAILED_PAGE, page.encode("utf-8", "backslashreplace"))


def _standing(root: Path) -> RunSummary | None:
    """The finished run whose outputs stand in the folder, if any."""
    try:
        return read_summary(root, checked=False)
    except InspectError:
        return None
