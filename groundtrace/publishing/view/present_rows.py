"""Reads the present rows of marked records, to compare them with the rows on which the marks were set."""

from collections.abc import Iterable

import duckdb

from groundtrace.publishing.reading import BATCH_ROWS, SHARDS
from groundtrace.publishing.view.reviews import seen_trace
from groundtrace.storage.views import quoted_name

_SHOWN = {"messages": "messages", "traces": "list_transform(traces, lambda t: {'score': t.score, 'text': t.text})"}
"""The columns with traces, each with the SQL of the parts that :func:`seen_trace` needs."""


def present_rows(tables: duckdb.DuckDBPyConnection, ids: Iterable[str], within: str = "") -> dict[str, tuple[str, str]]:
    """Return for each id of a record the output set of its row (sft, rl or rejected), and the SHA-256 of the trace
    (reasoning with answer) that the page of the record shows first.

    These are the values that :meth:`groundtrace.publishing.view.reviews.Mark.is_about` compares. The SHA-256 is "" for
    a row without a trace. Ids that the run does not have are left out. ``tables`` is a database with the run's rows
    (:func:`groundtrace.publishing.reading.open_tables`), and ``within`` is the database schema that holds their views;
    "" if they are outside any schema. Raises duckdb.Error if a shard cannot be read.
    """
    wanted, found = list(ids), dict[str, tuple[str, str]]()
    place = f"{quoted_name(within)}." if within else ""
    for name in SHARDS if wanted else ():
        held = {column for column, *_ in tables.execute(f"DESCRIBE {place}{name}").fetchall()}
        shown = {column: sql for column, sql in _SHOWN.items() if column in held}
        columns = ", ".join(["id", *(f"{sql} AS {column}" for column, sql in shown.items())])
        result = tables.execute(f"SELECT {columns} FROM {place}{name} WHERE id IN (SELECT unnest(?))", [wanted])
        while batch := result.fetchmany(BATCH_ROWS):
            for row_id, *traces in batch:
                digest = seen_trace(dict(zip(shown, traces, strict=True)))
                found.setdefault(row_id, (name, digest))
    return found
