"""Implements ``beam diff``: shows what differs between two finished runs (executions of a pipeline).

The differences are printed as text, or, with ``--html``, written to a page. With ``--ids``, a file is written, too. It
lists the records that ended differently in the two runs (e.g. kept in one and rejected in the other), and the records
that only one run has read.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from groundtrace.pipelines.commands.outside import refuse_inside
from groundtrace.pipelines.running.comparing import LISTED, diff_runs
from groundtrace.publishing.comparison.compare import all_moved
from groundtrace.publishing.comparison.page import comparison_page
from groundtrace.publishing.comparison.text import comparison_text, print_comparison
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import counted, say, storable
from groundtrace.storage.mirror import local_copy

LISTED_ON_PAGE = 200
"""How many ids are listed on the page by default."""


def run_diff(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Compare two finished runs of pipelines, print or write the differences, and return the exit code, which is 0.

    ``parsed`` holds the parsed arguments of the command line. The second argument is not used. Raises UserError if an
    option has a wrong value or a file cannot be written, and :class:`groundtrace.publishing.reading.InspectError` if a
    run cannot be read.
    """
    if parsed.limit is not None and parsed.limit < 0:
        raise UserError(f"--limit must be at least 0, got {parsed.limit}")
    folders = local_copy(parsed.first), local_copy(parsed.second)
    _check_files(parsed, folders)
    shown = LISTED if parsed.html is None else LISTED_ON_PAGE
    limit = None if parsed.all else shown if parsed.limit is None else parsed.limit
    found = diff_runs(*folders, (parsed.first, parsed.second), limit, parsed.settings)
    if parsed.ids is not None:
        moved = all_moved(*folders)
        lines = [json.dumps(each.to_fields(), ensure_ascii=False) for each in moved]
        _write(parsed.ids, "".join(f"{line}\n" for line in lines))
        say(f"{parsed.ids}: {counted(len(moved), 'id')}", file=sys.stderr)
    if parsed.html is not None:
        _write(parsed.html, comparison_page(found))
        say(found.same or f"{parsed.html}: the comparison as a page")
    elif sys.stdout.isatty():
        print_comparison(Console(), found)
    else:
        sys.stdout.write(comparison_text(found))
    return 0


def _check_files(parsed: argparse.Namespace, runs: Sequence[Path]) -> None:
    """Raise UserError if ``--ids`` or ``--html`` names a file in one of the runs, or if both name the same file."""
    files = {name: Path(given).expanduser().resolve() for name in ("ids", "html") if (given := getattr(parsed, name))}
    for name, file in files.items():
        refuse_inside(f"--{name}", file, runs)
    if len({*files.values()}) < len(files):
        raise UserError("--ids and --html name the same file: choose another file for one of them")


def _write(name: str, text: str) -> None:
    """Write ``text`` to the file ``name``. Raises UserError if the file cannot be written."""
    try:
        Path(name).expanduser().write_text(storable(text), "utf-8")
    except OSError as error:
        raise UserError(f"cannot write {name}: {error.strerror or error}: choose another file") from error
