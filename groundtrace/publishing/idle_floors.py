"""Finds minimum scores in the config of a run that had no effect. A minimum has no effect if its scorer (a check of one
aspect of a trace) judged no trace of the run. A trace is a teacher's reasoning with its answer.
"""

from collections.abc import Collection

import duckdb

from groundtrace.publishing.verdicts import verdict_figures
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import counted


def idle_floors(db: duckdb.DuckDBPyConnection, summary: RunSummary, named: Collection[str]) -> tuple[str, ...]:
    """Return a warning for each scorer in ``named`` that judged none of the traces of a run, although it has a minimum
    score.

    A scorer is a check of one aspect of a trace (a teacher's reasoning with its answer). All verdicts of such a scorer
    are "not applicable", e.g. because a column that the scorer reads is missing. ``db`` is the database of the run, and
    ``summary`` is the content of its ``run.json``. ``named`` are the names of the scorers whose minimums are set in the
    config.
    """
    return tuple(
        f"{name} judged none of the {counted(absent, 'trace')}, so its minimum {floor:g} rejected none: check the data "
        "that it reads, or remove its minimum from the config"
        for name, scored, absent, failed, _, floor, *_ in verdict_figures(db, summary)
        if name in named and floor and absent and not scored and not failed
    )
