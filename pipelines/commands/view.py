"""Implements ``beam view``: serves the rows of a finished run to a browser on this machine, until a signal ends it.

A second run can be shown for comparison. If the run has not finished, its requests and its newest replies are shown
instead of rows.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from groundtrace.pipelines.commands.serving import http_loop, listening, positive, stopped_by_signals
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import counted, say
from groundtrace.storage.mirror import local_copy

if TYPE_CHECKING:
    from groundtrace.publishing.view.other_run import OtherRun
    from groundtrace.publishing.view.rows import ViewedRows

HOST = "127.0.0.1"
ENDING_S = 2.0
MAX_ADDRESS_BYTES = 2**20
"""The maximum length of an address (URL) that a browser requests. It is large, because the address contains the id of a
record, which may be long."""
EXAMPLES = """examples:
  beam view runs/mine
  beam view runs/mine --at 'set=rejected&reason=too_hard&view=table'
  beam view runs/mine --at 'set=rejected' --export copy                 # a page to send to other people
  beam view runs/new runs/old                                           # what changed since an earlier run?
  beam view runs/mine --audit 100                                       # how often is "verified" right?
  ssh -L 8600:127.0.0.1:8600 HOST beam view runs/mine --port 8600       # for a run on another machine
"""


def add_view_parser(commands: Any) -> None:
    """Add the subcommand ``view`` to the parser of the ``beam`` command.

    ``commands`` is the object that ``ArgumentParser.add_subparsers`` has returned.
    """
    parser = commands.add_parser(
        "view",
        help="look at all rows of a run in a browser, or at the requests of a run that goes on",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="an earlier or other run, to show beside it")
    parser.add_argument("--at", default="", metavar="STATE", help="the filters and the record to open, as in a link")
    parser.add_argument(
        "--export", metavar="DIR", help="write a copy of the rows of --at that needs no server; then end"
    )
    parser.add_argument("--audit", type=positive, metavar="N", help="judge a random sample of about N rows by hand")
    parser.add_argument("--reviewer", default="", metavar="NAME", help="the name of who judges, if several do")
    parser.add_argument(
        "--pipeline", metavar="FILE", help="the pipeline, to replay records of a run with code of your own"
    )
    parser.add_argument("--cache", metavar="FOLDER", help="the --cache of `beam run`, if the run has its replies there")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port (default: any that is free)")


def _check_export(parsed: argparse.Namespace) -> None:
    """Raise UserError if ``--export`` is empty or a URL, or if it is used together with ``--audit``.

    ``--export`` must be the path of a folder on this machine. The folder need not exist yet.
    """
    if not parsed.export or "://" in parsed.export:
        raise UserError(f"--export must name a folder on this machine, got {parsed.export!r}")
    if parsed.audit:
        raise UserError("--export and --audit cannot be used together: leave one of them out")


def _cache_folder(named: str | None) -> Path | None:
    """Return the folder that ``--cache`` names; None if the option is left out.

    Raises UserError if it is not a folder on this machine, or if it is a run folder, whose cache is in a subfolder.
    """
    if named is None:
        return None
    from groundtrace.publishing.view.replies import CACHE

    folder = Path(named).absolute()
    if not named or "://" in named or not folder.is_dir():
        raise UserError(f"--cache must name a folder on this machine: {named!r} is not one")
    if (folder / CACHE).is_file():
        raise UserError(f"--cache {named} is a run folder, not a cache: write --cache {folder / CACHE.parent} instead")
    return folder


def run_view(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Serve the rows of a run to a browser until the process receives a signal. Return the exit code, which is 0.

    With ``--export``, nothing is served: a copy of the page is written to a folder. The option ``--at`` names the
    filters of the page, and the record that the page shows first. ``parsed`` holds the parsed arguments of the command
    line. The second argument is not used. Raises :class:`groundtrace.schemas.errors.UserError` if the run, the port or
    the value of an option such as ``--at`` cannot be used.
    """
    from groundtrace.pipelines.running.plan.loading import recipe_file
    from groundtrace.publishing.reading import InspectError, input_folder
    from groundtrace.publishing.view.audit import open_audit
    from groundtrace.publishing.view.copying import export_view
    from groundtrace.publishing.view.filters import BadFilter, read_filters
    from groundtrace.publishing.view.guard import TOKEN, Guard
    from groundtrace.publishing.view.images import RowImages
    from groundtrace.publishing.view.live import is_unfinished
    from groundtrace.publishing.view.replays import Replays
    from groundtrace.publishing.view.reviews import Reviews
    from groundtrace.publishing.view.rows import ViewedRows
    from groundtrace.publishing.view.server import ViewServer, filter_items, state_of
    from groundtrace.vision.media import MediaStore

    begun = time.monotonic()
    cache = _cache_folder(parsed.cache)
    run = local_copy(parsed.run).absolute()
    if is_unfinished(run) and not (parsed.other or parsed.at or parsed.export or parsed.audit or "://" in parsed.run):
        return _follow(run, parsed.port, cache)
    rows = ViewedRows(run)
    other = None if parsed.other is None else _compared(run, rows, parsed.other)
    state = state_of(parsed.at)
    try:
        filters = read_filters(filter_items(state), rows.dimensions)
    except BadFilter as error:
        raise InspectError(f"--at {parsed.at} cannot be used: {error}") from error
    reviews = Reviews(run, is_copy="://" in parsed.run)
    rows.mark({mark.id: (mark.flagged, mark.tags_text) for mark in reviews})
    guard = Guard()
    images = RowImages(MediaStore(input_folder(rows.summary.input), str(run), cache_bytes=0))
    if parsed.export is not None:
        _check_export(parsed)
        server = ViewServer(run, rows, images, reviews, guard, other=other)
        count = export_view(server.about(), rows, images, reviews, filters, Path(parsed.export), server.check_runs)
        say(f"{counted(count, 'row')} copied: open {Path(parsed.export) / 'index.html'} in a browser")
        return 0
    audit = None
    if parsed.audit:
        if "://" in parsed.run:
            raise InspectError(
                f"--audit cannot write judgements to {parsed.run}, because this run is in an object store: copy the "
                "run to this machine, and give the path of the copy"
            )
        audit = open_audit(run, rows, images, parsed.audit, parsed.reviewer)
        state = state or [("view", "audit")]
    replays = Replays(run, str(recipe_file(parsed.pipeline)) if parsed.pipeline else "", cache)
    app = ViewServer(run, rows, images, reviews, guard, audit, other, replays, cache).app()
    notes = [f"{counted(len(rows), 'row')} of {run} in {time.monotonic() - begun:.1f} s; Ctrl-C ends the view"]
    notes += _notes(run, rows, other) + ([audit.note] if audit and audit.note else [])
    _serve(app, parsed.port, notes, urlencode([*state, (TOKEN, guard.token)]))
    rows.close()
    if other:
        other.rows.close()
    return 0


def _compared(run: Path, rows: "ViewedRows", named: str) -> "OtherRun":
    """Open the second run, add the columns that compare the two runs to ``rows``, and return the second run.

    ``rows`` are the rows of the run in the folder ``run``. ``named`` is the path or URL of the second run.
    """
    from groundtrace.pipelines.running.comparing import recipe_defaults
    from groundtrace.publishing.comparison.setting_changes import setting_changes
    from groundtrace.publishing.view.other_run import compare
    from groundtrace.publishing.view.rows import ViewedRows

    other, summary = local_copy(named).absolute(), rows.summary
    there = ViewedRows(other)
    differ = setting_changes((other, there.summary), (run, summary), lambda: recipe_defaults(summary.recipe))
    return compare(rows, other, there, differ.shown)


def _notes(run: Path, rows: "ViewedRows", other: "OtherRun | None") -> list[str]:
    """Return notes for the user: that a later run in the folder ``run`` failed, and that two runs have no common id."""
    from groundtrace.publishing.reading import FAILED_PAGE

    found = list[str]()
    if (run / FAILED_PAGE).is_file():
        found.append(
            f"these are the rows of {rows.summary.finished}; a later run in this folder failed: {run / FAILED_PAGE}"
        )
    if other and other.only_there == len(other.rows):
        found.append(f"no record of {run} is in {other.run}: they have no common ids")
    return found


def _follow(run: Path, port: int, cache: Path | None) -> int:
    """Serve the page of an unfinished run until a signal arrives, and return the exit code, which is 0.

    ``cache`` is the folder of the reply cache; None for the cache in the run folder.
    """
    from groundtrace.publishing.view.guard import TOKEN, Guard
    from groundtrace.publishing.view.live_server import live_app

    guard = Guard()
    note = f"{run} has no finished run, so the page shows its requests and newest replies; Ctrl-C ends the view"
    _serve(live_app(run, guard, cache), port, [note], urlencode([(TOKEN, guard.token)]))
    return 0


def _serve(app: Any, port: int, notes: Sequence[str], query: str) -> None:
    """Serve the aiohttp application ``app`` until a signal arrives.

    First print ``notes``, one line for each, and the URL of the first page, which ends in the query string ``query``.
    """
    from aiohttp import web

    with stopped_by_signals() as stopped, http_loop() as on_loop:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=ENDING_S, max_line_size=MAX_ADDRESS_BYTES)
        address = on_loop(listening(runner, HOST, port))
        for note in notes:
            say(f"beam: {note}", file=sys.stderr)
        say(f"{address}/?{query}")
        sys.stdout.flush()
        stopped.wait()
        on_loop(runner.cleanup())
