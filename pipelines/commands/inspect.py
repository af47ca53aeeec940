"""Implements ``beam inspect``: prints tables on a finished run (an execution of a pipeline), such as its counts and
costs, or the result of an SQL query over the rows of one or more runs.
"""

import argparse
import base64
import csv
import io
import itertools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.text import Text

from groundtrace.pipelines.running.account.spending import Spending
from groundtrace.publishing.columns import columns_added
from groundtrace.publishing.diversity import balances
from groundtrace.publishing.figures import CALLS_NOTE, funnel, pass_rates, rejections, role_costs
from groundtrace.publishing.reading import (
    InspectError,
    config_for_hints,
    one_line,
    open_several,
    open_tables,
    read_summary,
    schema_names,
)
from groundtrace.publishing.role_endpoints import role_endpoint
from groundtrace.publishing.tables import FigureTable, print_table, value_text
from groundtrace.publishing.verdicts import verdict_figures
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import counted, printable, say
from groundtrace.storage.mirror import local_copy

MAX_PRINTED_ROWS = 200
MAX_RUNS = 26
BATCH_ROWS = 1000


def inspect_run(run: Path, sql: str | None, *others: Path) -> str:
    """Return the statistics of a run, or the result of an SQL query over its rows, as tables in plain text.

    ``run`` is the folder of the run. ``sql`` is the query; None for the statistics, such as counts, rejections and
    costs (:func:`figures_of`). ``others`` are the folders of further runs that the query reads. If there are any, each
    run is a separate schema of the database, e.g. ``a.sft`` and ``b.sft``
    (:func:`groundtrace.publishing.reading.open_several`). Raises :class:`InspectError` if a run cannot be read or the
    query fails.
    """
    text = io.StringIO()
    _print_run(Console(file=text, width=10_000, color_system=None), (run, *others), sql)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def run_inspect(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Print a run's counts and costs, or the result of an SQL query over runs, and return the exit code, which is 0.

    ``parsed`` holds the parsed arguments of the command line. The second argument is not used. Raises
    :class:`InspectError` if the arguments do not fit together, a run cannot be read or the query fails.
    """
    if len(parsed.runs) > 1 and parsed.sql is None:
        if other := next((name for name in parsed.runs[1:] if "://" not in name and not os.path.lexists(name)), None):
            at = shlex.quote(f"id={quote(other)}")
            raise InspectError(
                f"there is no run folder {other}: if this is the id of a record, see the record with `beam view "
                f"{parsed.runs[0]} --at {at}`, or query its row with --sql"
            )
        raise InspectError(
            "beam inspect reads several runs only with a query: add --sql, or compare two runs with `beam diff RUN_A "
            "RUN_B`"
        )
    if len(parsed.runs) > MAX_RUNS:
        raise InspectError(f"a query can read at most {MAX_RUNS} runs, got {len(parsed.runs)}: name fewer runs")
    runs = [local_copy(run) for run in parsed.runs]
    if parsed.json or parsed.csv:
        _write_run(runs, parsed.sql, parsed.csv)
    elif sys.stdout.isatty():
        _print_run(Console(), runs, parsed.sql)
    else:
        sys.stdout.write(inspect_run(runs[0], parsed.sql, *runs[1:]))
    return 0


@contextmanager
def _opened(runs: Sequence[Path], sql: str | None) -> Iterator[tuple[duckdb.DuckDBPyConnection, RunSummary]]:
    """Yield the database of the runs, and the summary of the first run.

    If ``sql`` is not None, the database also has the marks (such as flags) and judgements that persons made in ``beam
    view`` (:func:`groundtrace.publishing.view.review_tables.add_review_tables`). The body of the ``with`` statement
    queries the database. Raises InspectError if such a query fails.
    """
    summaries = [read_summary(run, digests=True) for run in runs]
    one = len(runs) == 1
    opened = open_tables(runs[0], summaries[0]) if one else open_several(list(zip(runs, summaries, strict=True)))
    with opened as connection:
        try:
            if sql is not None:
                from groundtrace.publishing.view.review_tables import add_review_tables  # needs OpenCV

                for names, run, summary in zip([("",)] if one else schema_names(runs), runs, summaries, strict=True):
                    add_review_tables(connection, run, summary, sql, names)
            yield connection, summaries[0]
        except BrokenPipeError:  # the output of the command, as in `beam inspect … | head`
            raise
        except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
            raise InspectError(f"{_failed(runs, sql)}: {one_line(error)}{_tables_of(runs, sql)}") from error


def figures_of(connection: duckdb.DuckDBPyConnection, summary: RunSummary, run: Path) -> list[FigureTable]:
    """Return the statistics of a finished run, as one table for each topic. Only diversity has two tables.

    The topics are:

    - the numbers of records that each stage (step of the pipeline) read, kept and rejected;
    - the rejections by reason;
    - verdicts on traces: the results of the checks of the teacher's reasoning;
    - difficulty: the numbers of records by pass rate (the share of right attempts);
    - diversity: how evenly the rows are spread over the classes of a property, such as their source;
    - the columns that stages added, and columns of the input that were kept;
    - the model calls and costs of each role (such as teacher);
    - truncated replies.

    A table without rows is left out. There are three exceptions: the tables of the stages, of the rejections, and of
    the calls and costs.

    ``connection`` is the open database with the run's rows. ``summary`` is the content of its ``run.json``. ``run`` is
    the folder of the run. The column of the endpoints is empty if the config of the run is missing or damaged.
    """
    stages = [(f"({f.name})" if f.side else f.name, f.read, f.kept, f.rejected) for f in funnel(summary)]
    tables = [
        FigureTable("funnel", ("stage", "in", "kept", "rejected"), stages),
        FigureTable(
            "rejections",
            ("stage", "reason", "rows", "meaning", "most often"),
            [astuple(e) for e in rejections(summary)],
        ),
    ]
    if judged := verdict_figures(connection, summary):
        columns = ("scorer", "scored", "not applicable", "failed", "mean", "floor", "below floor", "rejected records")
        tables.append(FigureTable("verdicts on traces", columns, judged))
    bars = pass_rates(connection, summary)
    if bars:
        rates = [attrgetter("label", *summary.sets, "rejected")(bar) for bar in bars]
        tables.append(FigureTable("difficulty", ("pass rate", *summary.sets, "rejected"), rates))
    tables += _spread(connection, summary, run)
    added = [astuple(each) for each in columns_added(run, (*summary.sets, "rejected"))]
    if added:
        tables.append(FigureTable("columns that stages add, and kept ones", ("column", "type", "in", "meaning"), added))
    counts_of = attrgetter("calls", "requests", "cached", "retries", "tokens_in", "tokens_out")
    config = config_for_hints(run)
    rows = [
        (c.role, c.model, role_endpoint(config, c.role).text, *counts_of(c.usage), round(c.usage.cost_usd, 6) or 0)
        for c in role_costs(summary)
    ]
    columns = ("role", "model", "endpoint", "calls", "requests", "cached", "retries", "tokens in", "tokens out", "USD")
    tables.append(FigureTable("calls and cost by role", columns, rows, CALLS_NOTE))
    if summary.truncated:
        cut = [
            (role, stage, each.replies, each.truncated, each.max_tokens, " or ".join(each.settings))
            for role, stages in summary.truncated.items()
            for stage, each in stages.items()
        ]
        columns = ("role", "stage", "replies", "truncated", "of at most tokens", "raise")
        tables.append(FigureTable("truncated replies", columns, cut))
    return tables


def _spread(connection: duckdb.DuckDBPyConnection, summary: RunSummary, run: Path) -> list[FigureTable]:
    """Return two tables on how evenly the rows of the run are spread over the classes of each property.

    A property is, for example, the source of a row, and a class is one of its values. The first table has the number of
    classes and the evenness of each property, from 0 (all rows in one class) to 1 (equal classes). The second has the
    number of rows of each class. The result is empty if no property has values.
    """
    found, sets = balances(run, connection, summary.sets), summary.sets
    if not found:
        return []
    even = [(b.name, b.distinct, *(_rounded(b.evenness[name]) for name in sets)) for b in found]
    classes = [(b.name, each) for b in found for each in (*b.classes, *([b.others] if b.others else []))]
    rows = [(name, each.label, *(getattr(each, side) for side in sets)) for name, each in classes]
    return [
        FigureTable("diversity", ("property", "classes", *(f"evenness {name}" for name in sets)), even),
        FigureTable("balance", ("property", "class", *sets), rows),
    ]


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


def _print_run(console: Console, runs: Sequence[Path], sql: str | None) -> None:
    with _opened(runs, sql) as (connection, summary):
        if sql is None:
            _print_figures(console, connection, summary, runs[0])
        else:
            _print_query(console, connection, sql)


def _write_run(runs: Sequence[Path], sql: str | None, as_csv: bool) -> None:
    """Print the statistics of a run as JSON if ``sql`` is None; else print the rows of the query ``sql``.

    The rows are printed as CSV if ``as_csv`` is True, and otherwise as JSON lines. Raises InspectError if ``as_csv`` is
    True but there is no query, or if the query or the reading of a run fails.
    """
    if as_csv and sql is None:
        raise InspectError(
            "--csv writes the rows of a query: add --sql with the query, or use --json instead to write all tables"
        )
    with _opened(runs, sql) as (connection, summary):
        if sql is None:
            tables = {table.title: table.as_objects() for table in figures_of(connection, summary, runs[0])}
            print(json.dumps(summary.to_fields() | {"tables": tables}, indent=1, ensure_ascii=False))
        else:
            columns, rows = _query(connection, sql)
            first = list(itertools.islice(rows, 1))
            (_write_csv if as_csv else _write_json)(columns, itertools.chain(first, rows))
            _note_if_empty(first)


def _note_if_empty(rows: Sequence[object]) -> None:
    """Print a note on stderr if a query has no rows. Programs that read stdout are not affected."""
    if not rows:
        say("beam: no rows", file=sys.stderr)


def _failed(runs: Sequence[Path], sql: str | None) -> str:
    """Return the start of an error message: the query failed, or, if ``sql`` is None, the run cannot be read."""
    return f"the shards of {runs[0]} cannot be read" if sql is None else "the query failed"


def _tables_of(runs: Sequence[Path], sql: str | None) -> str:
    """Return the end of an error message: the names of the tables, or, if ``sql`` is None, what the user can do."""
    if sql is None:
        return ": repeat the run, or use a machine with more memory if the memory ran out"
    if len(runs) == 1:
        names = "sft, rl, rejected, verdicts, marks, judgements and runs"
        return f"; the tables of {runs[0]} are {names}, and `DESCRIBE sft` lists columns"
    named = [f"{names[0]} is {run}" for names, run in zip(schema_names(runs), runs, strict=True)]
    tables = "a.sft, a.rl, a.rejected, a.verdicts, a.marks, a.judgements, a.runs, b.sft and so on"
    return f"; the tables are {tables} ({', '.join(named)})"


def _write_csv(columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    plain = str | int | float | None
    for row in rows:
        writer.writerow([v if isinstance(v, plain) else json.dumps(v, default=_as_json) for v in row])


def _write_json(columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    """Print each row as a JSON object, one on each line."""
    for row in rows:
        print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=_as_json))


def _as_json(value: object) -> str:
    """Return the text for a value whose type JSON lacks. For bytes, the text is base64."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def _print_figures(console: Console, connection: duckdb.DuckDBPyConnection, summary: RunSummary, run: Path) -> None:
    counts, sets = summary.counts, summary.sets
    facts = [summary.recipe, summary.input, summary.finished, summary.revision]
    ends = [*(f"{counts.rows(name)} {name}" for name in sets), f"{counts.rejected_records} rejected"]
    head = f"{printable(' · '.join(facts))}\n{counted(counts.input, 'record')}: {', '.join(ends)}"
    console.print(Text(head), soft_wrap=True)
    for table in figures_of(connection, summary, run):
        print_table(console, table.title, table.columns, table.rows)
        if table.note:
            console.print(Text(table.note), soft_wrap=True)
    paid = Spending(run).total()  # including the payments of later runs that failed or were stopped
    if paid.runs:
        worth = f"replies from the cache were worth ${summary.saved_usd:.2f}"
        console.print(
            f"\n{worth}; paid for this output in {counted(paid.runs, 'run')}: ${paid.usd:.2f}", soft_wrap=True
        )


def _query(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
    """Return the columns and rows of a query that only reads. Raises InspectError for other statements."""
    statements = connection.extract_statements(sql.encode("utf-8", "replace").decode("utf-8"))
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        found = ", ".join(kinds) or "nothing"
        raise InspectError(f"--sql must be one read-only query (SELECT or DESCRIBE), got {found}")
    result = connection.execute(statements[0])
    return [column[0] for column in result.description or ()], _fetched(result)


def _fetched(result: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while batch := result.fetchmany(BATCH_ROWS):
        yield from batch


def _print_query(console: Console, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    columns, found = _query(connection, sql)
    rows = list(itertools.islice(found, MAX_PRINTED_ROWS + 1))
    _note_if_empty(rows)
    if len(rows) == 1:  # a single row is printed vertically, without cuts
        for name, value in zip(columns, rows[0], strict=True):
            console.print(Text(f"{printable(name)}: {value_text(value, None)}"), soft_wrap=True)
        return
    if print_table(console, None, columns, rows[:MAX_PRINTED_ROWS]):
        console.print(Text("long values are cut: --csv and --json write them whole"), soft_wrap=True)
    if len(rows) > MAX_PRINTED_ROWS:
        more = f"more than {MAX_PRINTED_ROWS} rows: page with LIMIT and OFFSET, or write all with --json or --csv"
        console.print(Text(more), soft_wrap=True)
