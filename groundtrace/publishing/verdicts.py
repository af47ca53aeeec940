"""Reads the verdicts of a run's traces: as a table for queries, and as statistics of each scorer.

A trace is a teacher's reasoning with its answer. A verdict is the result of one scorer, which checks one property of a
trace. The traces are those that the shards hold: the kept trace of each SFT row, its other traces if the run kept them
(``write.other_traces``), and all traces of rejected records.
"""

from collections.abc import Mapping
from typing import Any

import duckdb

from groundtrace.schemas.run_summary import RunSummary
from groundtrace.storage.views import quoted_name

VERDICTS = "verdicts"
"""The name of the table of verdicts in the database of a run."""
_KEPT = """SELECT id, 'sft' AS "set", 1 AS trace, v.name AS scorer, v.value AS value, {state} AS state,
    v.reason AS reason, v.evidence AS evidence
    FROM (SELECT id, unnest(verdicts) AS v FROM {table})"""
_OTHERS = """SELECT id, '{name}' AS "set", trace, v.name AS scorer, v.value AS value, {state} AS state,
    v.reason AS reason, {evidence} AS evidence
    FROM (SELECT id, trace, unnest(t.verdicts) AS v FROM
        (SELECT id, unnest({column}) AS t, {first} + generate_subscripts({column}, 1) AS trace FROM {table}))"""
_HAS_EVIDENCE = "evidence VARCHAR[]"
"""A part of the type of a column of traces whose verdicts have evidence."""
_STATE = "CASE WHEN v.failed THEN 'failed' WHEN v.value IS NULL THEN 'not applicable' ELSE 'scored' END"
_NOTHING = """SELECT '' AS id, '' AS "set", 1 AS trace, '' AS scorer, 0.0::DOUBLE AS value, '' AS state,
    '' AS reason, NULL::VARCHAR[] AS evidence WHERE false"""
_FIGURES = """SELECT scorer, count(*) FILTER (state = 'scored'), count(*) FILTER (state = 'not applicable'),
    count(*) FILTER (state = 'failed'), avg(value), any_value(floor), avg((value < floor)::INT)
    FROM verdicts LEFT JOIN (SELECT unnest($names::VARCHAR[]) AS scorer, unnest($floors::DOUBLE[]) AS floor)
    USING (scorer) GROUP BY scorer ORDER BY 2 DESC, scorer"""


def add_verdicts(db: duckdb.DuckDBPyConnection, within: str = "") -> None:
    """Add the view ``verdicts`` to the database of a run: one row for each verdict of each trace.

    A verdict is the result of one scorer (check) on a trace (reasoning with answer). The columns are ``id`` and ``set``
    of the record, ``trace`` (the number of the trace, from 1), ``scorer``, ``value``, ``state`` (``scored``, ``not
    applicable`` or ``failed``), ``reason`` and ``evidence``. ``evidence`` is a list of JSON texts. It is null for other
    traces than the kept ones in runs of earlier code, which did not store it.

    The new view reads the views ``sft`` and ``rejected`` of the run. ``within`` is the database schema that holds all
    three views. If ``within`` is "", all three are temporary views outside any schema.
    """
    place = f"{quoted_name(within)}." if within else ""
    parts, sft = [], _columns(db, f"{place}sft")
    if "verdicts" in sft:
        parts.append(_KEPT.format(state=_STATE, table=f"{place}sft"))
    for name, column, first in (("sft", "other_traces", 1), ("rejected", "traces", 0)):
        if held := (sft if name == "sft" else _columns(db, f"{place}rejected")).get(column):
            evidence = "v.evidence" if _HAS_EVIDENCE in held else "NULL::VARCHAR[]"
            filled = {"state": _STATE, "evidence": evidence, "column": column, "first": first}
            parts.append(_OTHERS.format(name=name, table=f"{place}{name}", **filled))
    kind = "VIEW" if within else "TEMP VIEW"
    found = " UNION ALL BY NAME ".join(parts) or _NOTHING
    db.execute(f"CREATE {kind} {place}{VERDICTS} AS SELECT * FROM ({found}) WHERE scorer IS NOT NULL")


def verdict_figures(db: duckdb.DuckDBPyConnection, summary: RunSummary) -> list[tuple[Any, ...]]:
    """Return one row for each scorer that gave a verdict. The scorers with the most scored verdicts come first.

    A scorer is a check of one property of a trace (reasoning with answer), and a verdict is its result. ``db`` is the
    database of the run, and ``summary`` is the content of its ``run.json``. A row holds, in this order:

    - the scorer's name;
    - the numbers of its scored, not applicable and failed verdicts (three values);
    - the mean value of its scored verdicts;
    - its floor, which is the minimum value at which a trace is kept; None if it has no floor;
    - the share of its scored verdicts with a value below the floor;
    - the number of records that the scorer rejected; None if the run was made by an old version of Groundtrace, which
      did not store the name of the rejecting scorer.
    """
    floors = summary.floors
    found = db.execute(_FIGURES, {"names": list(floors), "floors": list(floors.values())}).fetchall()
    is_known = "rejected_by" in _columns(db, "rejected")
    query = "SELECT rejected_by, count(*) FROM rejected GROUP BY 1"
    rejected = dict(db.execute(query).fetchall()) if is_known else {}
    return [
        (*counts, _rounded(mean), floor, _rounded(below), rejected.get(counts[0], 0) if is_known else None)
        for *counts, mean, floor, below in found
    ]


def _columns(db: duckdb.DuckDBPyConnection, table: str) -> Mapping[str, str]:
    """Return the type of each column of a table, by the column's name."""
    return {name: kind for name, kind, *_ in db.execute(f"DESCRIBE {table}").fetchall()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
