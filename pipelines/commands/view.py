"""Implements ``beam view``: serves the rows of a finished run to a browser on this machine, until a signal ends it.

A second run can be shown for comparison. If the run has not finished, its requests and its newest replies are shown
instead of rows.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundtrace.pipelines.commands.outside import refuse_inside
from groundtrace.pipelines.commands.serving import positive
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import counted, say

EXAMPLES = """examples:
  beam view runs/mine
  beam view runs/mine --at 'set=rejected&reason=too_hard&view=table'
  beam view runs/mine --at 'set=rejected' --export copy                 # a page to send to other people
  beam view runs/old runs/new                                           # what is different in the second run?
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
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", help="a second run: the page shows changes from RUN to OTHER"
    )
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
    """Raise UserError if ``--export`` cannot be used: it is empty, a URL, in a viewed run, or used with ``--audit``.

    ``--export`` must be the path of a folder on this machine. The folder need not exist yet.
    """
    if not parsed.export or "://" in parsed.export:
        raise UserError(f"--export must name a folder on this machine, got {parsed.export!r}")
    runs = [Path(each) for each in (parsed.run, parsed.other) if each is not None and "://" not in each]
    refuse_inside("--export", Path(parsed.export), runs)
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
    from groundtrace.pipelines.commands.viewing import serve

    cache = _cache_folder(parsed.cache)
    if parsed.export is None:
        serve(parsed, cache)
    else:
        _check_export(parsed)
        _export(parsed)
    return 0


def _export(parsed: argparse.Namespace) -> None:
    """Write a copy of the page to the folder that ``--export`` names, and print the path of its first file."""
    from groundtrace.pipelines.commands.viewing import open_rows
    from groundtrace.publishing.view.copying import export_view
    from groundtrace.publishing.view.guard import Guard
    from groundtrace.publishing.view.server import ViewServer

    opened, folder = open_rows(parsed.run, parsed.other), Path(parsed.export)
    filters = opened.filters(parsed.at)
    opened.check_values(parsed.at)
    run, rows, images, reviews = opened.run, opened.rows, opened.images, opened.reviews
    server = ViewServer(run, rows, images, reviews, Guard(), other=opened.other)
    count = export_view(server.about(), rows, images, reviews, filters, folder, server.check_runs)
    say(f"{counted(count, 'row')} copied: open {folder / 'index.html'} in a browser")
