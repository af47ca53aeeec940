"""Implements ``beam diff``: shows what differs between two finished runs.

The output is text on the terminal, a page, or the ids of the records that differ.
"""

import argparse
import io
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from groundtrace.config.flat import flat_values
from groundtrace.config.settings import settings_from, to_toml
from groundtrace.pipelines.commands.tables import print_table
from groundtrace.pipelines.running.plan.loading import PipelineError, load_recipe
from groundtrace.publishing.comparison.compare import Comparison, all_moved, compare
from groundtrace.publishing.comparison.page import comparison_page
from groundtrace.publishing.reading import read_summary
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import counted, printable, say, storable
from groundtrace.storage.mirror import local_copy

LISTED, LISTED_ON_PAGE = 20, 200
"""How many ids are listed by default on the terminal, and on the page."""


def run_diff(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Print or write the comparison of two finished runs, and return the exit code.

    Raises :class:`groundtrace.publishing.reading.InspectError` if a run cannot be read, and UserError if a file cannot
    be written.
    """
    if parsed.limit is not None and parsed.limit < 0:
        raise UserError(f"--limit must be at least 0, got {parsed.limit}")
    folders = local_copy(parsed.first), local_copy(parsed.second)
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
        _print_diff(Console(), found)
    else:
        sys.stdout.write(diff_text(found))
    return 0


def diff_runs(
    first: Path,
    second: Path,
    names: tuple[str, str] | None = None,
    limit: int | None = LISTED,
    all_settings: bool = False,
) -> Comparison:
    """Return the comparison of the finished runs in the folders ``first`` and ``second``.

    ``names`` are the names of the two runs for the user; by default they are the paths. At most ``limit`` record
    ids are listed (None: all). If ``all_settings`` is True, a default that differs only because one config lacks the
    key is listed too. Raises :class:`groundtrace.publishing.reading.InspectError` if a run cannot be read.
    """
    name_a, name_b = names or (str(first), str(second))
    return compare(
        (name_a, first),
        (name_b, second),
        limit=limit,
        all_settings=all_settings,
        defaults=lambda: _defaults_of(read_summary(first, checked=False).recipe),
    )


def diff_text(found: Comparison) -> str:
    """Return a comparison as plain text."""
    text = io.StringIO()
    _print_diff(Console(file=text, width=10_000, color_system=None), found)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _print_diff(console: Console, found: Comparison) -> None:
    if found.same:
        console.print(Text(printable(found.same)), soft_wrap=True)
    else:
        for run in found.runs:
            console.print(Text(f"{run.letter}: {printable(' · '.join(run.facts))}"), soft_wrap=True)
        console.print(Text(printable(found.headline), style="bold"), soft_wrap=True)
    for section in found.sections:
        if section.rows:
            print_table(console, section.title, section.columns, section.rows)
        else:
            console.print(Text(f"\n{section.title}", style="bold"))
        for line in (section.more, section.note):
            if line:
                console.print(Text(printable(line), style="" if line is section.more else "dim"), soft_wrap=True)


def _defaults_of(recipe: str) -> Mapping[str, Any]:
    """Return the present defaults of a bundled recipe's settings by dotted key; empty for another recipe.

    The import of the recipe takes seconds, because it imports Beam.
    """
    try:
        settings = load_recipe(recipe).settings
    except PipelineError:
        return {}
    return dict(flat_values(tomllib.loads(to_toml(settings_from(settings, {})))))


def _write(name: str, text: str) -> None:
    """Write a file. Raises UserError if it cannot be written."""
    try:
        Path(name).expanduser().write_text(storable(text), "utf-8")
    except OSError as error:
        raise UserError(f"cannot write {name}: {error.strerror or error}: choose another file") from error
