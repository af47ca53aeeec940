"""Looking into a finished run: its figures, and SQL over its shards.

Rows are counted in the shards through DuckDB, calls and costs stand in ``run.json``. The report and the data
card take their figures from here, so that all three show the same numbers.
"""

import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
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
MAX_CELL_CHARS = 80
_MAX_RATES = 11
# Rows come in through Arrow, so a query needs no file and no network, and is given neither.
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}

Rows = Sequence[Sequence[object]]
Summary = Mapping[str, Any]
"""The content of ``run.json``."""


class InspectError(Exception):
    """The folder or the query cannot be used; the message is one line and says what to do."""


@dataclass(frozen=True)
class StageFlow:
    """Records that entered a stage, left it, and were rejected; a ``side`` stage only looks at a sample."""

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
    """Rows of each side with one pass rate or in one tenth; ``rejected`` stands at the two ends only."""

    label: str
    sft: int
    rl: int
    rejected: int


@dataclass(frozen=True)
class RoleCost:
    """What one role's model was asked. ``cached`` counts samples; cost is at the prices of the config."""

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
        begun = (run / "input.json").is_file()
        advice = "repeat its `beam run` to finish it" if begun else "it is no run folder"
        raise InspectError(f"{run} has no run.json: {advice}")
    try:
        summary = json.loads(file.read_text("utf-8"))
        _ = summary["counts"]["rejected"], summary["stages"], summary["ledger"], summary["roles"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InspectError(f"{file} is damaged ({type(error).__name__}): repeat the run") from error
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
                raise InspectError(f"cannot read {run / name}: {_one_line(error)}") from error
            connection.register(name, rows)
        connection.register("runs", _runs_table(summary))
        connection.execute("SET lock_configuration = true")
        yield connection


def funnel(summary: Summary) -> list[StageFlow]:
    """The stages in the order in which records pass them; stages not known here come after, by size."""
    counts: Mapping[str, Mapping[str, int]] = summary["counts"]["rejected"]
    rank = {name: place for place, name in enumerate(STAGE_ORDER)}
    flows = []
    for name in {*summary["stages"], *counts}:
        passed, rejected = summary["stages"].get(name, {}), sum(counts.get(name, {}).values())
        read, kept = passed.get("in", 0), passed.get("kept", 0)
        flows.append(StageFlow(name, read, kept, rejected, name in SIDE_STAGES))
    return sorted(flows, key=lambda flow: (flow.side, rank.get(flow.name, len(rank)), -flow.read, flow.name))


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

    Each rate has its own bar, or, when more than eleven differ, each tenth.
    """
    query = f"""
        WITH rates AS (SELECT 'sft' AS side, pass_rate FROM sft UNION ALL SELECT 'rl', pass_rate FROM rl),
             tenths AS (SELECT *, least(floor(pass_rate * 10 + 1e-9), 9) / 10 AS tenth FROM rates),
             few AS (SELECT count(DISTINCT pass_rate) <= {_MAX_RATES} AS yes FROM rates)
        SELECT if(yes, printf('%.2f', pass_rate), printf('%.1f–%.1f', tenth, tenth + 0.1)) AS label,
               count(*) FILTER (side = 'sft'), count(*) FILTER (side = 'rl')
        FROM tenths, few WHERE pass_rate IS NOT NULL GROUP BY label ORDER BY label"""
    bars = [PassRateBar(label, sft, rl, 0) for label, sft, rl in connection.execute(query).fetchall()]
    rejected = summary["counts"]["rejected"].values()
    too_hard, too_easy = (sum(by.get(end, 0) for by in rejected) for end in ("too_hard", "too_easy"))
    return [PassRateBar("too hard", 0, 0, too_hard), *bars, PassRateBar("too easy", 0, 0, too_easy)]


def role_costs(summary: Summary) -> list[RoleCost]:
    """The ledger by role; roles that have a model and were never asked are listed with zeros."""
    names = [role for role in ROLES if role in {*summary["ledger"], *summary["roles"]}]
    names += sorted(set(summary["ledger"]) - set(names))
    fields = ("calls", "requests", "cached", "retries", "tokens_in", "tokens_out", "cost_usd")
    ledger, models = summary["ledger"], summary["roles"]
    return [
        RoleCost(role, models.get(role, ""), *(ledger.get(role, {}).get(field, 0) for field in fields))
        for role in names
    ]


def inspect_run(run: Path, sql: str | None) -> str:
    """The run's figures, or the rows of a query, as plain text. Raises :class:`InspectError`."""
    text = io.StringIO()
    _print_run(Console(file=text, width=10_000, color_system=None), run, sql)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


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
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise InspectError(_one_line(error)) from error


def _print_figures(console: Console, connection: duckdb.DuckDBPyConnection, summary: Summary) -> None:
    counts, flows = summary["counts"], funnel(summary)
    facts = [str(summary[name]) for name in ("recipe", "input", "finished", "revision")]
    ends = f"{counts['sft']} sft, {counts['rl']} rl, {sum(flow.rejected for flow in flows)} rejected"
    head = f"{_printable(' · '.join(facts))}\n{counts['input']} records: {ends}"
    console.print(Text(head), soft_wrap=True)
    stages = [(f"({f.name})" if f.side else f.name, f.read, f.kept, f.rejected) for f in flows]
    _print_table(console, "funnel", ("stage", "in", "kept", "rejected"), stages)
    reasons = [astuple(entry) for entry in rejections(summary)]
    _print_table(console, "rejections", ("stage", "reason", "rows", "meaning"), reasons)
    rates = [astuple(bar) for bar in pass_rates(connection, summary)]
    _print_table(console, "difficulty", ("pass rate", "sft", "rl", "rejected"), rates)
    columns = ("role", "model", "calls", "requests", "cached", "retries", "tokens in", "tokens out", "USD")
    _print_table(console, "calls and cost by role", columns, [astuple(cost) for cost in role_costs(summary)])


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
            console.print(Text(f"{_printable(name)}: {_value_text(value, None)}"), soft_wrap=True)
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
        table.add_column(Text(_printable(name)), justify="right" if numbers else "left", no_wrap=plain)
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
        shown = value if max_chars is None else value[:max_chars]
        return f"[{', '.join(_nested_text(item, max_chars) for item in shown)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_nested_text(item, max_chars)}" for key, item in value.items()) + "}"
    return str(value)


def _printable(text: str) -> str:
    """Text without anything that a terminal would obey: model replies are printed, never performed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split("\nLINE ", 1)[0].split())


def _runs_table(summary: Summary) -> pa.Table:
    """One row: what ``run.json`` says of the run as a whole."""
    counts = summary["counts"]
    row = {name: value for name, value in summary.items() if isinstance(value, str | int | float)} | {
        "records": counts["input"],
        "sft": counts["sft"],
        "rl": counts["rl"],
        "rejected": sum(sum(reasons.values()) for reasons in counts["rejected"].values()),
        "cost_usd": float(sum(cost.cost_usd for cost in role_costs(summary))),
    }
    return pa.Table.from_pylist([row])
