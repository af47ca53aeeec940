"""``beam inspect``: a finished run's figures as tables, and SQL over its shards."""

import argparse
import io
import sys
from collections.abc import Sequence
from dataclasses import astuple
from operator import attrgetter
from pathlib import Path

import duckdb
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.running.spending import Spending
from publishing.figures import (
    InspectError,
    funnel,
    one_line,
    open_tables,
    pass_rates,
    read_summary,
    rejections,
    role_costs,
)
from schemas.run_summary import RunSummary
from schemas.text import counted, printable

MAX_PRINTED_ROWS = 200
MAX_CELL_CHARS = 80

Rows = Sequence[Sequence[object]]


def inspect_run(run: Path, sql: str | None) -> str:
    """The run's figures, or the rows of a query, as plain text. Raises :class:`InspectError`."""
    text = io.StringIO()
    _print_run(Console(file=text, width=10_000, color_system=None), run, sql)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def run_inspect(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Print the run's figures, or the rows of a query; returns the exit code. Raises :class:`InspectError`."""
    if sys.stdout.isatty():
        _print_run(Console(), Path(parsed.run), parsed.sql)
    else:
        sys.stdout.write(inspect_run(Path(parsed.run), parsed.sql))
    return 0


def _print_run(console: Console, run: Path, sql: str | None) -> None:
    summary = read_summary(run)
    with open_tables(run, summary) as connection:
        try:
            if sql is None:
                _print_figures(console, connection, summary, run)
            else:
                _print_query(console, connection, sql)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise InspectError(one_line(error)) from error


def _print_figures(console: Console, connection: duckdb.DuckDBPyConnection, summary: RunSummary, run: Path) -> None:
    counts, flows, sets = summary.counts, funnel(summary), summary.sets
    facts = [summary.recipe, summary.input, summary.finished, summary.revision]
    ends = [*(f"{counts.rows(name)} {name}" for name in sets), f"{sum(flow.rejected for flow in flows)} rejected"]
    head = f"{printable(' · '.join(facts))}\n{counted(counts.input, 'record')}: {', '.join(ends)}"
    console.print(Text(head), soft_wrap=True)
    stages = [(f"({f.name})" if f.side else f.name, f.read, f.kept, f.rejected) for f in flows]
    _print_table(console, "funnel", ("stage", "in", "kept", "rejected"), stages)
    reasons = [astuple(entry) for entry in rejections(summary)]
    _print_table(console, "rejections", ("stage", "reason", "rows", "meaning", "most often"), reasons)
    bars = pass_rates(connection, summary)
    if bars:
        rates = [attrgetter("label", *sets, "rejected")(bar) for bar in bars]
        _print_table(console, "difficulty", ("pass rate", *sets, "rejected"), rates)
    counts_of = attrgetter("calls", "requests", "cached", "retries", "tokens_in", "tokens_out")
    rows = [(c.role, c.model, *counts_of(c.usage), c.usage.cost_usd or 0) for c in role_costs(summary)]
    columns = ("role", "model", "calls", "requests", "cached", "retries", "tokens in", "tokens out", "USD")
    _print_table(console, "calls and cost by role", columns, rows)
    paid = Spending(run).total()  # with what runs paid that have failed or were stopped since
    if paid.runs:
        worth = f"replies from the cache were worth ${summary.saved_usd:.2f}"
        console.print(
            f"\n{worth}; paid for this output in {counted(paid.runs, 'run')}: ${paid.usd:.2f}", soft_wrap=True
        )


def _print_query(console: Console, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql.encode("utf-8", "replace").decode("utf-8"))
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        found = ", ".join(kinds) or "nothing"
        raise InspectError(f"--sql takes one query that only reads (SELECT, DESCRIBE), got {found}")
    result = connection.execute(statements[0])
    columns = [column[0] for column in result.description or ()]
    rows = result.fetchmany(MAX_PRINTED_ROWS + 1)
    if len(rows) == 1:  # one row is asked for to be read: it stands upright and whole
        for name, value in zip(columns, rows[0], strict=True):
            console.print(Text(f"{printable(name)}: {_value_text(value, None)}"), soft_wrap=True)
        return
    _print_table(console, None, columns, rows[:MAX_PRINTED_ROWS])
    if len(rows) > MAX_PRINTED_ROWS:
        console.print(Text(f"more than {MAX_PRINTED_ROWS} rows: page with LIMIT and OFFSET"), soft_wrap=True)


def _print_table(console: Console, title: str | None, columns: Sequence[str], rows: Rows) -> None:
    plain = not console.is_terminal
    if title is not None:
        console.print(Text(f"\n{title}", style="bold"))
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(printable(name)), justify="right" if numbers else "left", no_wrap=plain)
    for row in rows:
        table.add_row(*(Text(_value_text(value, MAX_CELL_CHARS)) for value in row))
    console.print(table)


def _value_text(value: object, max_chars: int | None) -> str:
    text = printable(value if isinstance(value, str) else _nested_text(value, max_chars))
    return text if max_chars is None or len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _nested_text(value: object, max_chars: int | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, list):
        shown = value if max_chars is None else value[:max_chars]
        return f"[{', '.join(_nested_text(item, max_chars) for item in shown)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_nested_text(item, max_chars)}" for key, item in value.items()) + "}"
    return str(value)
