"""The figures of a finished run, as the report, the data card and ``beam inspect`` all show them.

Rows are counted in the shards through DuckDB; calls and costs stand in ``run.json``.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from inference.settings import ROLES
from schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA
from schemas.errors import UserError
from schemas.usage import Usage

SHARDS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}
_MAX_RATES = 11
# Rows come in through Arrow, so a query needs no file and no network, and is given neither.
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}

Summary = Mapping[str, Any]
"""The content of ``run.json``."""


class InspectError(UserError):
    """The folder or the query cannot be used; the message is one line and says what to do."""


@dataclass(frozen=True)
class StageFlow:
    """Records that entered a stage, left it, and were rejected, and what it ``does`` in the stage's own words.

    A ``side`` stage only looks at a sample; one ``for_target`` matters only where a number of rows was asked for.
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
    """What one role's model was asked; the cost is at the prices of the config."""

    role: str
    model: str
    usage: Usage


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
                raise InspectError(f"cannot read {run / name}: {one_line(error)}") from error
            connection.register(name, rows)
        connection.register("runs", _runs_table(summary))
        connection.execute("SET lock_configuration = true")
        yield connection


def funnel(summary: Summary) -> list[StageFlow]:
    """The stages in the recipe's order; a run of earlier code does not tell it, and has them by size."""
    counts: Mapping[str, Mapping[str, int]] = summary["counts"]["rejected"]
    stages: Mapping[str, Mapping[str, Any]] = summary["stages"]
    flows = []
    for name in dict.fromkeys([*stages, *counts]):
        told, rejected = stages.get(name, {}), sum(counts.get(name, {}).values())
        read, kept = told.get("in", 0), told.get("kept", 0)
        side, for_target = told.get("is_sample", False), told.get("for_target", False)
        flows.append(StageFlow(name, told.get("does", ""), read, kept, rejected, side, for_target))
    return flows if any(flow.does for flow in flows) else sorted(flows, key=lambda flow: (-flow.read, flow.name))


def rejections(summary: Summary) -> list[Rejection]:
    """Rejections by stage, in the order of the funnel, and by reason, the most frequent first."""
    found = [
        Rejection(stage, reason, rows, summary["stages"].get(stage, {}).get("reasons", {}).get(reason, ""))
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
    ledger, models = summary["ledger"], summary["roles"]
    return [RoleCost(role, models.get(role, ""), Usage.of(ledger.get(role, {}))) for role in names]


def _runs_table(summary: Summary) -> pa.Table:
    """One row: what ``run.json`` says of the run as a whole."""
    counts = summary["counts"]
    row = {name: value for name, value in summary.items() if isinstance(value, str | int | float)} | {
        "records": counts["input"],
        "sft": counts["sft"],
        "rl": counts["rl"],
        "rejected": sum(sum(reasons.values()) for reasons in counts["rejected"].values()),
        "cost_usd": float(sum(cost.usage.cost_usd for cost in role_costs(summary))),
    }
    return pa.Table.from_pylist([row])


def one_line(error: Exception) -> str:
    """The error's message in one line, without the query that DuckDB repeats."""
    return " ".join(str(error).split("\nLINE ", 1)[0].split())
