"""Implements ``beam diff``: compares the settings, rows, funnel, reasons for rejection and costs of two runs."""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from groundtrace.pipelines.commands.tables import FigureTable, print_table
from groundtrace.pipelines.running.account.changes import flat
from groundtrace.publishing.figures import funnel, role_costs
from groundtrace.publishing.reading import read_config, read_summary
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import printable
from groundtrace.storage.mirror import local_copy


def run_diff(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Print the comparison of two finished runs, and return the exit code.

    Raises :class:`groundtrace.publishing.reading.InspectError` if a run cannot be read.
    """
    if sys.stdout.isatty():
        _print_diff(Console(), local_copy(parsed.first), local_copy(parsed.second))
    else:
        sys.stdout.write(diff_runs(local_copy(parsed.first), local_copy(parsed.second)))
    return 0


def diff_runs(first: Path, second: Path) -> str:
    """Return the comparison of the finished runs in two folders as plain text.

    Raises :class:`groundtrace.publishing.reading.InspectError` if a run cannot be read.
    """
    text = io.StringIO()
    _print_diff(Console(file=text, width=10_000, color_system=None), first, second)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _print_diff(console: Console, first: Path, second: Path) -> None:
    runs = [read_summary(first, digests=True), read_summary(second, digests=True)]
    for letter, folder, run in zip("AB", (first, second), runs, strict=True):
        facts = (str(folder), run.recipe, run.input, run.finished, run.revision)
        console.print(Text(f"{letter}: {printable(' · '.join(facts))}"), soft_wrap=True)
    tables = [_settings(first, second), _ends(*runs), _funnel(*runs), _reasons(*runs), _costs(*runs)]
    for table in tables:
        if table.rows:
            print_table(console, table.title, table.columns, table.rows)


def _settings(first: Path, second: Path) -> FigureTable:
    """Return the config keys whose values differ; "–" means that a config lacks the key."""
    a, b = (dict(flat(read_config(run))) for run in (first, second))
    changed = [(key, a.get(key, "–"), b.get(key, "–")) for key in sorted({*a, *b}) if a.get(key) != b.get(key)]
    return FigureTable("settings that differ", ("key", "A", "B"), changed)


def _ends(a: RunSummary, b: RunSummary) -> FigureTable:
    """Return the number of records read, and the number of rows of each set, with its share of the records read."""
    read = (a.counts.input, b.counts.input)
    rows: list[tuple[object, ...]] = [("input", *read, read[1] - read[0], "", "")]
    for name in (*dict.fromkeys((*a.sets, *b.sets)), "rejected"):
        found = [_rows(run, name) for run in (a, b)]
        shares = (f"{100 * n / of:.1f} %" if of else "–" for n, of in zip(found, read, strict=True))
        rows.append((name, *found, found[1] - found[0], *shares))
    return FigureTable("rows", ("set", "A", "B", "B − A", "yield A", "yield B"), rows)


def _rows(run: RunSummary, name: str) -> int:
    return run.counts.rejected_records if name == "rejected" else run.counts.rows(name)


def _funnel(a: RunSummary, b: RunSummary) -> FigureTable:
    flows = [{flow.name: flow for flow in funnel(run)} for run in (a, b)]
    rows = []
    for name in dict.fromkeys(name for side in flows for name in side):
        found = [side.get(name) for side in flows]
        cells = (getattr(flow, part, "–") for part in ("read", "kept", "rejected") for flow in found)
        rows.append((name, *cells))
    return FigureTable("funnel", ("stage", "in A", "in B", "kept A", "kept B", "rejected A", "rejected B"), rows)


def _reasons(a: RunSummary, b: RunSummary) -> FigureTable:
    counts = [
        {(stage, reason): n for stage, by in run.counts.rejected.items() for reason, n in by.items()} for run in (a, b)
    ]
    rows = []
    for stage, reason in dict.fromkeys(key for side in counts for key in side):
        found = [side.get((stage, reason), 0) for side in counts]
        rows.append((stage, reason, *found, found[1] - found[0]))
    return FigureTable("rejections", ("stage", "reason", "A", "B", "B − A"), rows)


def _costs(a: RunSummary, b: RunSummary) -> FigureTable:
    costs = [{cost.role: cost for cost in role_costs(run)} for run in (a, b)]
    rows = []
    for role in dict.fromkeys(role for side in costs for role in side):
        found = [side.get(role) for side in costs]
        models = ["–" if cost is None else cost.model for cost in found]
        calls = ["–" if cost is None else cost.usage.calls for cost in found]
        usd = ["–" if cost is None else round(cost.usage.cost_usd, 6) or 0 for cost in found]
        rows.append((role, *models, *calls, *usd))
    columns = ("role", "model A", "model B", "calls A", "calls B", "USD A", "USD B")
    return FigureTable("calls and cost by role", columns, rows)
