"""Finds minimums of a config that decided nothing, because their scorers judged no trace."""

from collections.abc import Collection

import duckdb

from groundtrace.publishing.verdicts import verdict_figures
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import counted


def idle_floors(db: duckdb.DuckDBPyConnection, summary: RunSummary, named: Collection[str]) -> tuple[str, ...]:
    """Return a warning for each scorer of ``named`` that has a minimum and judged none of the traces of a run.

    Its verdicts are all "not applicable", e.g. because a column that it reads is missing. ``db`` is the database of the
    run, and ``summary`` is the content of its ``run.json``. ``named`` are the scorers whose minimums the config sets.
    """
    return tuple(
        f"{name} judged none of the {counted(absent, 'trace')}, so its minimum {floor:g} rejected none: check the data "
        "that it reads, or remove its minimum from the config"
        for name, scored, absent, failed, _, floor, *_ in verdict_figures(db, summary)
        if name in named and floor and absent and not scored and not failed
    )
