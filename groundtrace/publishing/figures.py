"""The figures of a finished run, which the report, the data card and ``beam inspect`` show.

Rows are counted in the shards through DuckDB; calls and costs come from ``run.json``.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from groundtrace.inference.settings import ROLES
from groundtrace.schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.run_files import problem_of
from groundtrace.schemas.run_summary import RoleLedger, RunSummary, StageFigures
from groundtrace.schemas.text import counted
from groundtrace.schemas.usage import Usage

SHARDS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}
BATCH_ROWS = 1000
FAILED_PAGE = "failed.html"
"""The page in a run folder about a run that did not finish (:mod:`groundtrace.publishing.failure`)."""
_MAX_RATES = 11
# DuckDB gets the rows through Arrow, so a query has no access to files or to the network.
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}


class InspectError(UserError):
    """The folder or the query cannot be used; the message is one line and says what to do."""


@dataclass(frozen=True)
class StageFlow:
    """The numbers of records that a stage read, kept and rejected; ``does`` is the stage's description of itself.

    A ``side`` stage processes only a sample; a ``for_target`` stage acts only if the run has a target number of rows.
    """

    name: str
    does: str
    read: int
    kept: int
    rejected: int
    side: bool
    for_target: bool


@dataclass(frozen=True)
class Rejection:
    """The number of records that one stage rejected for one reason, its meaning, and the most frequent detail."""

    stage: str
    reason: str
    rows: int
    meaning: str
    detail: str = ""


@dataclass(frozen=True)
class PassRateBar:
    """The number of rows of each set with one pass rate, or in one tenth; ``rejected`` is 0 except in the end bars."""

    label: str
    sft: int
    rl: int
    rejected: int


@dataclass(frozen=True)
class RoleCost:
    """The calls to the model of one role, and their cost by the prices of the config."""

    role: str
    model: str
    usage: Usage


def read_summary(run: Path, *, checked: bool = True, digests: bool = False) -> RunSummary:
    """Reads the run's ``run.json``. Raises :class:`InspectError` if the folder holds no finished run.

    If ``checked``, the shards are also compared with ``run.json``, and a difference raises the error; if ``digests``,
    their bytes are read for this.
    """
    file = run / "run.json"
    if not run.is_dir():
        raise InspectError(f"there is no folder {run}: give the folder that `beam run` had as --output")
    if not file.is_file():
        begun = (run / "input.json").is_file()
        advice = (
            "repeat its `beam run` to finish it"
            if begun
            else "it is not a run folder: give the one that `beam run` had as --output"
        )
        if (run / FAILED_PAGE).is_file():
            advice = f"its run did not finish, and {run / FAILED_PAGE} says why"
        raise InspectError(f"{run} has no run.json: {advice}")
    try:
        summary = RunSummary.from_fields(json.loads(file.read_text("utf-8")))
        problem = _contradiction(summary) if checked else ""
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InspectError(f"{file} is damaged ({type(error).__name__}): repeat the run") from error
    if problem:
        raise InspectError(f"{file} is damaged ({problem}): repeat the run")
    if checked:
        check_files(run, summary, digests=digests)
    return summary


def _contradiction(summary: RunSummary) -> str:
    """Returns a message on the first set whose count differs from the rows of its shards in ``files``; "" if all are
    equal.

    A run without row counts in ``files`` is not checked.
    """
    for name in SHARDS:
        rows = [entry.rows for file, entry in (summary.files or {}).items() if file.startswith(f"{name}/")]
        counted = summary.counts.rejected_records if name == "rejected" else summary.counts.rows(name)
        if rows and None not in rows and sum(row or 0 for row in rows) != counted:
            return f"it counts {counted} records of {name}, but its shards have {sum(row or 0 for row in rows)}"
    return ""


def check_files(
    run: Path, summary: RunSummary, *, digests: bool = False, sets: Collection[str] = tuple(SHARDS)
) -> None:
    """Raises :class:`InspectError` if the shards of these sets differ from those that ``run.json`` names.

    If ``digests``, their SHA-256 is compared too. A ``run.json`` of an older version, without file names, is not
    checked.
    """
    if summary.files is None:
        return
    try:
        problem = problem_of(run, summary.files, sets, digests=digests)
    except OSError as error:
        raise InspectError(f"cannot read {error.filename or run}: {error.strerror or error}") from error
    if problem:
        raise InspectError(f"{run} has changed since its run ended: {problem}: repeat the run")


def read_config(run: Path) -> Mapping[str, Any]:
    """Returns the values of the run's ``config.toml``; empty if it is missing. Raises :class:`InspectError` if it is
    damaged.
    """
    file = run / "config.toml"
    try:
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InspectError(f"cannot read {file}: {error.strerror or error}") from error
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        wrong = f"no UTF-8 at line {line}"
    except tomllib.TOMLDecodeError as error:
        wrong = " ".join(str(error).split())
    except RecursionError:
        wrong = "nested too deeply"
    raise InspectError(f"{file} is damaged ({wrong}): move it away, and repeat the `beam run` to write it again")


def read_rubrics(run: Path) -> Any:
    """Returns the mined rubrics (:func:`groundtrace.rewards.mined_rubrics.rubrics_json`); None if the run mined no
    rubrics.

    A file of an older version has neither intervals nor reasons.
    """
    file = run / "rubrics.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


def columns_of(run: Path, name: str) -> pa.Schema:
    """Returns the schema of a set, read from its first shard, since all shards of a set have the same columns."""
    file = min((run / name).glob("*.parquet"), default=None)
    return SHARDS[name] if file is None else pq.read_schema(file)


def used_columns(run: Path, name: str) -> frozenset[str]:
    """Returns the columns of a set in which some row has a value; for a set without rows, all columns."""
    used, rows = set[str](), 0
    for file in sorted((run / name).glob("*.parquet")):
        with pq.ParquetFile(file) as shard:
            rows += shard.metadata.num_rows
            for leaf in _leaves(shard.metadata):  # the smallest first, so that pixels are read last
                column = leaf.split(".")[0]
                batches = shard.iter_batches(BATCH_ROWS, columns=[leaf]) if column not in used else ()
                if any(_holds(batch.column(0)) for batch in batches):
                    used.add(column)
    return frozenset(used if rows else columns_of(run, name).names)


def _leaves(footer: pq.FileMetaData) -> list[str]:
    """Returns the paths of the leaf columns, the smallest first."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    sizes = Counter[str]()
    for column in (group.column(index) for group in groups for index in range(group.num_columns)):
        sizes[column.path_in_schema] += column.total_compressed_size
    return sorted(sizes, key=lambda path: (sizes[path], path))


def _holds(values: pa.Array) -> bool:
    """Whether an array of one leaf column has any value that is not null."""
    while pa.types.is_list(values.type) or pa.types.is_struct(values.type):
        values = values.flatten() if pa.types.is_list(values.type) else values.flatten()[0]
    return values.null_count < len(values)


@contextmanager
def open_tables(run: Path, summary: RunSummary) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields a database with the views sft, rl, rejected and runs, which cannot access files or the network.

    Raises :class:`InspectError` for a shard that is not a Parquet file.
    """
    with duckdb.connect(":memory:", config=_CLOSED) as connection:
        for name, schema in SHARDS.items():
            files = [str(file) for file in sorted((run / name).glob("*.parquet"))]
            try:
                rows = pads.dataset(files, format="parquet") if files else schema.empty_table()
            except (OSError, pa.ArrowException) as error:
                raise InspectError(f"cannot read {run / name}: {one_line(error)}") from error
            connection.register(name, rows)
        connection.register("runs", _runs_table(summary))
        connection.execute("SET lock_configuration = true")
        yield connection


def shown_flows(summary: RunSummary) -> list[StageFlow]:
    """Returns the funnel; if the run has no target number of rows, the stages that act only for such a target are
    omitted.
    """
    return [flow for flow in funnel(summary) if summary.target is not None or not flow.for_target]


def funnel(summary: RunSummary) -> list[StageFlow]:
    """Returns the stages in the recipe's order; for a run of an older version, which does not record this order, the
    stages are sorted by records read.
    """
    counts, stages = summary.counts.rejected, summary.stages
    flows = []
    for name in dict.fromkeys([*stages, *counts]):
        figures, rejected = stages.get(name, StageFigures(0, 0)), sum(counts.get(name, {}).values())
        flows.append(
            StageFlow(name, figures.does, figures.read, figures.kept, rejected, figures.is_sample, figures.for_target)
        )
    return flows if any(flow.does for flow in flows) else sorted(flows, key=lambda flow: (-flow.read, flow.name))


def rejections(summary: RunSummary) -> list[Rejection]:
    """Returns the rejections by stage, in the order of the funnel, and by reason, the most frequent first."""
    found = [
        Rejection(
            stage,
            reason,
            rows,
            summary.stages.get(stage, StageFigures(0, 0)).reasons.get(reason, ""),
            summary.details.get(stage, {}).get(reason, ""),
        )
        for stage, reasons in summary.counts.rejected.items()
        for reason, rows in reasons.items()
    ]
    order = [flow.name for flow in funnel(summary)]
    return sorted(found, key=lambda entry: (order.index(entry.stage), -entry.rows, entry.reason))


def pass_rates(connection: duckdb.DuckDBPyConnection, summary: RunSummary) -> list[PassRateBar]:
    """Returns the histogram of pass rates over the shards.

    Each rate has its own bar; if there are more than eleven rates, there is one bar for each tenth. The first bar
    counts the records that were rejected as too hard, and the last bar those rejected as too easy. The result is empty
    if all bars would be empty.
    """
    query = f"""
        WITH rates AS (SELECT 'sft' AS side, pass_rate FROM sft UNION ALL SELECT 'rl', pass_rate FROM rl),
             tenths AS (SELECT *, least(floor(pass_rate * 10 + 1e-9), 9) / 10 AS tenth FROM rates),
             few AS (SELECT count(DISTINCT pass_rate) <= {_MAX_RATES} AS yes FROM rates)
        SELECT if(yes, printf('%.2f', pass_rate), printf('%.1f–%.1f', tenth, tenth + 0.1)) AS label,
               count(*) FILTER (side = 'sft'), count(*) FILTER (side = 'rl')
        FROM tenths, few WHERE pass_rate IS NOT NULL GROUP BY label ORDER BY label"""
    bars = [PassRateBar(label, sft, rl, 0) for label, sft, rl in connection.execute(query).fetchall()]
    rejected = summary.counts.by_reason
    too_hard, too_easy = rejected["too_hard"], rejected["too_easy"]
    if not bars and not too_hard and not too_easy:
        return []
    return [PassRateBar("too hard", 0, 0, too_hard), *bars, PassRateBar("too easy", 0, 0, too_easy)]


def role_costs(summary: RunSummary) -> list[RoleCost]:
    """Returns the calls and costs by role; a role with a model but without calls is listed with zeros."""
    ledger, models = summary.ledger, summary.roles
    names = [role for role in ROLES if role in {*ledger, *models}]
    names += sorted(set(ledger) - set(names))
    return [RoleCost(role, models.get(role, ""), ledger.get(role, RoleLedger({})).usage) for role in names]


def truncations(summary: RunSummary) -> list[str]:
    """Returns a line for each role and stage with truncated replies: their number, and the settings that raise the
    limit.
    """
    return [
        f"truncated: {cut.truncated} of {counted(cut.replies, 'reply', 'replies')} of the {role} in {stage}, asked for "
        f"with up to {cut.max_tokens} tokens: raise {' or '.join(cut.settings)}, or the server's own limit if lower"
        for role, stages in summary.truncated.items()
        for stage, cut in stages.items()
    ]


def _runs_table(summary: RunSummary) -> pa.Table:
    """Returns a table of one row with the values of ``run.json`` about the whole run."""
    counts = summary.counts
    row = {name: value for name, value in vars(summary).items() if isinstance(value, str | int | float)} | {
        "records": counts.input,
        "sft": counts.sft,
        "rl": counts.rl,
        "rejected": counts.rejected_records,
        "cost_usd": float(summary.usage.cost_usd),
    }
    return pa.Table.from_pylist([row])


def one_line(error: Exception) -> str:
    """Returns the error's message on one line, without the query that DuckDB appends."""
    return " ".join(str(error).split("\nLINE ", 1)[0].split())
