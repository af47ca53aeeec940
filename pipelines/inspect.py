"""Looking into a finished run: its figures, and SQL over its shards.

Everything is answered from the run folder: the rows from the Parquet shards through DuckDB, calls and costs from ``run.json``.
The report and the data card take their figures from here, so that all three show the same numbers.
"""

import io
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inference.settings import ROLES
from schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA
from schemas.reasons import MEANING, Reason

SHARDS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}
SIDE_STAGES = ("rubric_candidates", "rubric_judge")
STAGE_ORDER = (
    "ingest", "clean", "dedup", "decontaminate", "open_choices", "attempt", "difficulty",
    "propose", "point", "overlay", "trace", "verify", *SIDE_STAGES,
)  # fmt: skip
MAX_PRINTED_ROWS = 200
MAX_CELL_CHARS = 60
_MAX_ITEMS = 8
_MAX_RATES = 11
_QUERIES = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
# Rows come in through Arrow, so a query needs no file and no network, and is given neither.
_CLOSED: dict[str, bool | str] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}

Summary = Mapping[str, Any]
"""The content of ``run.json``."""


class InspectError(Exception):
    """The folder or the query cannot be used; the message is one line and says what to do."""


@dataclass(frozen=True)
class StageFlow:
    """Records that entered a stage, left it by its main output, and were rejected by it.

    ``side`` marks a stage that looks at a sample beside the records' way and ends none of them.
    """

    name: str
    read: int
    kept: int
    rejected: int
    side: bool


@dataclass(frozen=True)
class Rejection:
    """How many records one stage rejected for one reason, and what the reason means."""

    stage: str
    reason: str
    rows: int
    meaning: str


@dataclass(frozen=True)
class PassRateBar:
    """Rows of each side with one pass rate, or in one band of pass rates; ``rejected`` only at the two ends."""

    label: str
    sft: int
    rl: int
    rejected: int


@dataclass(frozen=True)
class RoleCost:
    """What one role's model was asked. ``cached`` counts samples, ``cost_usd`` is at the prices of the config."""

    role: str
    model: str
    calls: int
    requests: int
    cached: int
    retries: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


def read_summary(run: Path) -> Summary:
    """The run's ``run.json``. Raises :class:`InspectError` when the folder holds no finished run."""
    file = run / "run.json"
    if not run.is_dir():
        raise InspectError(f"there is no folder {run}: give the folder that `beam run` had as --output")
    if not file.is_file():
        unfinished = (run / "input.json").is_file()
        advice = "its run has not finished: give the same `beam run` again" if unfinished else "it is no run folder"
        raise InspectError(f"{run} has no run.json, {advice}")
    try:
        summary = json.loads(file.read_text("utf-8"))
        _ = summary["counts"]["rejected"], summary["stages"], summary["ledger"], summary["roles"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InspectError(f"{file} cannot be read ({type(error).__name__}): repeat the run to write it again") from error
    return summary


@contextmanager
def open_tables(run: Path, summary: Summary) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the views sft, rl, rejected and runs, and with no way to files or the network.

    Raises :class:`InspectError` for a shard that is no Parquet file.
    """
    with duckdb.connect(":memory:", config=_CLOSED) as connection:
        for name, schema in SHARDS.items():
            files = [str(file) for file in sorted((run / name).glob("*.parquet"))]
            try:
                rows = pads.dataset(files, format="parquet") if files else schema.empty_table()
            except (OSError, pa.ArrowException) as error:
                raise InspectError(f"a shard of {run / name} cannot be read: {_one_line(str(error))}") from error
            connection.register(name, rows)
        connection.register("runs", _runs_table(summary))
        connection.execute("SET lock_configuration = true")
        yield connection


def funnel(summary: Summary) -> list[StageFlow]:
    """The stages in the order in which records pass them; a stage that this module does not know comes by size after."""
    counts: Mapping[str, Mapping[str, int]] = summary["counts"]["rejected"]
    flows = [
        StageFlow(
            name,
            summary["stages"].get(name, {}).get("in", 0),
            summary["stages"].get(name, {}).get("kept", 0),
            sum(counts.get(name, {}).values()),
            name in SIDE_STAGES,
        )
        for name in {*summary["stages"], *counts}
    ]
    return sorted(flows, key=lambda flow: (flow.side, _stage_rank(flow.name), -flow.read, flow.name))


def rejections(summary: Summary) -> list[Rejection]:
    """Rejections by stage, in the order of the funnel, and by reason, the most frequent first."""
    found = [
        Rejection(stage, reason, rows, MEANING[Reason(reason)] if reason in set(Reason) else "")
        for stage, reasons in summary["counts"]["rejected"].items()
        for reason, rows in reasons.items()
    ]
    order = [flow.name for flow in funnel(summary)]
    return sorted(found, key=lambda entry: (order.index(entry.stage), -entry.rows, entry.reason))


def pass_rates(connection: duckdb.DuckDBPyConnection, summary: Summary) -> list[PassRateBar]:
    """The histogram of pass rates over the shards, between what was rejected as too hard and as too easy.

    Each rate has its own bar, or from the twelfth different rate on each tenth has one.
    """
    query = (
        "SELECT pass_rate, count(*) FILTER (side = 'sft'), count(*) FILTER (side = 'rl') FROM (SELECT 'sft' AS side, pass_rate"
        " FROM sft UNION ALL SELECT 'rl', pass_rate FROM rl) WHERE pass_rate IS NOT NULL GROUP BY ALL ORDER BY pass_rate"
    )
    rows: list[tuple[float, int, int]] = connection.execute(query).fetchall()
    bars = [PassRateBar(f"{rate:.2f}", sft, rl, 0) for rate, sft, rl in rows]
    if len(rows) > _MAX_RATES:
        tenths = [[row for row in rows if min(int(row[0] * 10 + 1e-9), 9) == tenth] for tenth in range(10)]
        bars = [
            PassRateBar(f"{tenth / 10:.1f}–{(tenth + 1) / 10:.1f}", sum(r[1] for r in part), sum(r[2] for r in part), 0)
            for tenth, part in enumerate(tenths)
        ]
    ends = Counter(itertools.chain.from_iterable(Counter(by).elements() for by in summary["counts"]["rejected"].values()))
    hard, easy = (PassRateBar(reason.replace("_", " "), 0, 0, ends[reason]) for reason in ("too_hard", "too_easy"))
    return [hard, *bars, easy]


def role_costs(summary: Summary) -> list[RoleCost]:
    """The ledger by role; roles that have a model and were never asked are listed with zeros."""
    names = [role for role in ROLES if role in {*summary["ledger"], *summary["roles"]}]
    names += sorted(set(summary["ledger"]) - set(names))
    fields = ("calls", "requests", "cached", "retries", "tokens_in", "tokens_out", "cost_usd")
    return [
        RoleCost(role, summary["roles"].get(role, ""), *(summary["ledger"].get(role, {}).get(name, 0) for name in fields))
        for role in names
    ]


def inspect_run(run: Path, sql: str | None) -> str:
    """The run's figures, or the rows of a query, as plain text. Raises :class:`InspectError`."""
    text = io.StringIO()
    _print_run(Console(file=text, width=10_000, color_system=None), run, sql)
    return text.getvalue()


def run_inspect(run: str, sql: str | None) -> None:
    """Print the run's figures, or the rows of a query, to stdout. Raises :class:`InspectError`."""
    if sys.stdout.isatty():
        _print_run(Console(), Path(run), sql)
    else:
        sys.stdout.write(inspect_run(Path(run), sql))


def _print_run(console: Console, run: Path, sql: str | None) -> None:
    summary = read_summary(run)
    with open_tables(run, summary) as connection:
        try:
            if sql is None:
                _print_figures(console, connection, summary)
            else:
                _print_query(console, connection, sql)
        except (duckdb.Error, pa.ArrowException, OSError, UnicodeError) as error:
            raise InspectError(_one_line(str(error))) from error


def _print_figures(console: Console, connection: duckdb.DuckDBPyConnection, summary: Summary) -> None:
    counts, flows, bars = summary["counts"], funnel(summary), pass_rates(connection, summary)
    refused = sum(flow.rejected for flow in flows)
    head = f"{summary['recipe']} on {summary['input']}, {summary['finished']}, {summary['wall_s']} s, {summary['revision']}"
    console.print(Text(_printable(head)), soft_wrap=True)
    ends = f"{counts['input']} records: {counts['sft']} sft, {counts['rl']} rl, {refused} rejected"
    console.print(Text(ends), soft_wrap=True)
    stages = [(f"({flow.name})" if flow.side else flow.name, flow.read, flow.kept, flow.rejected) for flow in flows]
    _print_table(console, "funnel", ("stage", "in", "kept", "rejected"), stages)
    reasons = [(entry.stage, entry.reason, entry.rows, entry.meaning) for entry in rejections(summary)]
    _print_table(console, "rejections", ("stage", "reason", "rows", "meaning"), reasons)
    rates = [(bar.label, bar.sft, bar.rl, bar.rejected) for bar in bars]
    _print_table(console, "difficulty", ("pass rate", "sft", "rl", "rejected"), rates)
    columns = ("role", "model", "calls", "requests", "cached", "retries", "tokens in", "tokens out", "USD")
    costs = [
        (c.role, c.model, c.calls, c.requests, c.cached, c.retries, c.tokens_in, c.tokens_out, f"{c.cost_usd:.4f}")
        for c in role_costs(summary)
    ]
    _print_table(console, "calls and cost by role", columns, costs)


def _print_query(console: Console, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    kinds = [statement.type for statement in statements]
    if len(kinds) != 1 or kinds[0] not in _QUERIES:
        found = ", ".join(kind.name for kind in kinds) or "nothing"
        raise InspectError(f"--sql takes one query that reads (SELECT, DESCRIBE, SUMMARIZE, EXPLAIN), got {found}")
    result = connection.execute(statements[0])
    columns = [column[0] for column in result.description or ()]
    rows = result.fetchmany(MAX_PRINTED_ROWS + 1)
    if len(rows) == 1:  # one row is asked for to be read: it stands upright and whole
        for name, value in zip(columns, rows[0], strict=True):
            console.print(Text(f"{_printable(name)}: {_value_text(value, None)}"), soft_wrap=True)
        return
    _print_table(console, None, columns, rows[:MAX_PRINTED_ROWS])
    if len(rows) > MAX_PRINTED_ROWS:
        console.print(Text(f"more than {MAX_PRINTED_ROWS} rows: narrow the query, or page with LIMIT and OFFSET"))


def _print_table(console: Console, title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if title is not None:
        console.print(Text(f"\n{title}", style="bold"))
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(_printable(name)), justify="right" if numbers else "left", no_wrap=not console.is_terminal)
    for row in rows:
        table.add_row(*(Text(_value_text(value, MAX_CELL_CHARS)) for value in row))
    console.print(table)


def _value_text(value: object, max_chars: int | None) -> str:
    text = _printable(value if isinstance(value, str) else _nested_text(value, max_chars))
    return text if max_chars is None or len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _nested_text(value: object, max_chars: int | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, list):
        shown = value if max_chars is None else value[:_MAX_ITEMS]
        return f"[{', '.join(_nested_text(item, max_chars) for item in shown)}{', …' if len(shown) < len(value) else ''}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_nested_text(item, max_chars)}" for key, item in value.items()) + "}"
    return str(value)


def _printable(text: str) -> str:
    """Text without anything that a terminal would obey: model replies are printed, never performed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _one_line(message: str) -> str:
    return " ".join(message.split("\nLINE ", 1)[0].split())


def _stage_rank(name: str) -> int:
    return STAGE_ORDER.index(name) if name in STAGE_ORDER else len(STAGE_ORDER)


def _runs_table(summary: Summary) -> pa.Table:
    """One row: the run as a whole."""
    counts, costs = summary["counts"], role_costs(summary)
    row = {
        "recipe": summary["recipe"],
        "input": summary["input"],
        "records": counts["input"],
        "sft": counts["sft"],
        "rl": counts["rl"],
        "rejected": sum(sum(reasons.values()) for reasons in counts["rejected"].values()),
        "requests": sum(cost.requests for cost in costs),
        "cached": sum(cost.cached for cost in costs),
        "cost_usd": float(sum(cost.cost_usd for cost in costs)),
        "wall_s": float(summary["wall_s"]),
        "finished": summary["finished"],
        "revision": summary["revision"],
        "config_sha256": summary["config_sha256"],
        "self_judged": summary["self_judged"],
    }
    return pa.Table.from_pylist([row])
