"""Compares the scores of two runs, A and B.

A trace is a teacher's reasoning with its answer. A verdict is a trace's score for one aspect, such as grounding. A pass
rate is the share of a policy's attempts at a question that were correct. The compared scores are the verdicts, the
lengths of traces, the total scores of the best traces, and the pass rates.

Means and medians are over all records of a run that have the score. Differences are paired by id: for each id that has
the score in both runs, the score in A is subtracted from the score in B. The mean difference has a 95 % interval.
"""

import math
import statistics
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

from groundtrace.publishing.comparison.section import Section, number_text
from groundtrace.schemas.intervals import CONFIDENCE
from groundtrace.storage.views import quoted_name

MAX_RESAMPLED = 2000
RESAMPLES = 2000
MIN_PAIRS = 5
TRACE_CHARS = "trace length, characters"
BEST = "best trace, kept or rejected"
_PASS_RATE = "pass rate of the policy"


def mean_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval (low, high) of the mean of paired differences; None for fewer than 5 pairs.

    ``differences`` holds for each pair the value in run B minus the value in run A. For up to 2,000 pairs, the result
    is the percentile interval of a bootstrap over the pairs, always with the same seed. For more pairs, it is the
    interval of the normal approximation. At such sizes, both intervals are nearly the same.
    """
    n = len(differences)
    if n < MIN_PAIRS:
        return None
    values = np.asarray(differences, dtype=np.float64)
    if n <= MAX_RESAMPLED:
        drawn = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
        tail = 100 * (1 - CONFIDENCE) / 2
        low, high = np.percentile(values[drawn].mean(axis=1), [tail, 100 - tail])
        return float(low), float(high)
    half = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * float(values.std(ddof=1)) / math.sqrt(n)
    return float(values.mean()) - half, float(values.mean()) + half


def add_scores(tables: duckdb.DuckDBPyConnection) -> None:
    """Add the scores of both runs to the database, as the tables ``scores_a`` and ``scores_b``.

    Each row holds one score of one record: ``set_`` (sft, rl, or "any" for scores of all records, such as the pass
    rate), ``name`` (of the score), ``id`` (of the record) and ``value``. A score that is null or not finite has no row.
    ``tables`` is the database with the rows of both runs, to which
    :func:`groundtrace.publishing.comparison.sides.add_ends` has added its tables.
    """
    for run in ("a", "b"):
        parts = [f"SELECT 'any' AS set_, '{_PASS_RATE}' AS name, id, pass_rate AS value FROM ends_{run}"]
        for name in ("sft", "rl"):
            columns = _types(tables, f"{run}.{name}")
            parts += _scores_in(run, name, columns)
        parts += _lengths_in(run, _types(tables, f"{run}.sft"))
        parts += _best_in(run, _types(tables, f"{run}.sft"), _types(tables, f"{run}.rejected"))
        union = " UNION ALL ".join(parts)
        tables.execute(f"""CREATE TEMP TABLE scores_{run} AS SELECT set_, name, id, avg(value) AS value FROM ({union})
            WHERE value IS NOT NULL AND isfinite(value) GROUP BY ALL""")


def _types(tables: duckdb.DuckDBPyConnection, view: str) -> dict[str, pa.DataType]:
    """Return the Arrow type of each column of a database view, by the column's name. ``view`` is the view's name."""
    schema = tables.sql(f"SELECT * FROM {view} LIMIT 0").to_arrow_table().schema
    return {field.name: field.type for field in schema}


def _scores_in(run: str, name: str, columns: dict[str, pa.DataType]) -> list[str]:
    """Return the SQL queries that select the scores of the rows of one training set.

    ``run`` is the run, a or b, and ``name`` is the training set, sft or rl. ``columns`` are the types of the columns of
    this set, by name. The scores are in the columns ``scores``, ``verdicts`` and ``extra_scores``.
    """
    parts, known = list[str](), list[str]()
    if pa.types.is_struct(columns.get("scores", pa.null())):
        known = [columns["scores"].field(index).name for index in range(columns["scores"].num_fields)]
        parts += [
            f"SELECT '{name}' AS set_, {_text(each)} AS name, id, scores.{quoted_name(each)}::DOUBLE AS value "
            f"FROM {run}.{name}"
            for each in known
        ]
    others = ", ".join(map(_text, known)) or "''"
    for column in ("verdicts", "extra_scores"):
        if column in columns:
            parts.append(f"""SELECT '{name}' AS set_, each.name AS name, id, each.value::DOUBLE AS value
                FROM (SELECT id, unnest({column}) AS each FROM {run}.{name}) WHERE each.name NOT IN ({others})""")
    return parts


def _text(name: str) -> str:
    """Return the text ``name`` as a string literal of SQL, with quotes."""
    return "'" + name.replace("'", "''") + "'"


def _lengths_in(run: str, columns: dict[str, pa.DataType]) -> list[str]:
    """Return a list with one SQL query, which selects the number of characters that the model wrote in each SFT row.

    ``run`` is the run, a or b. ``columns`` are the types of the columns of the run's SFT rows, by name. The list is
    empty if ``messages`` is not one of these columns.
    """
    if "messages" not in columns:
        return []
    chars = "list_sum([length(turn.content) for turn in messages if turn.role = 'assistant'])"
    return [f"SELECT 'sft' AS set_, '{TRACE_CHARS}' AS name, id, {chars}::DOUBLE AS value FROM {run}.sft"]


def _best_in(run: str, sft: dict[str, pa.DataType], rejected: dict[str, pa.DataType]) -> list[str]:
    """Return two SQL queries that select the score of each question's best trace.

    A trace is a teacher's reasoning with its answer. The first query selects ``scores.final`` of each SFT row. The
    second query selects the highest score of the traces in each rejected row. ``run`` is the run, a or b. ``sft`` and
    ``rejected`` are the types of the columns of the two sets, by name. The result is empty if the SFT rows lack the
    column ``scores``, or if the rejected rows lack the column ``traces``.
    """
    if "scores" not in sft or "traces" not in rejected:
        return []
    best = "list_max([trace.score for trace in traces])"
    return [
        f"SELECT 'any' AS set_, '{BEST}' AS name, id, scores.final::DOUBLE AS value FROM {run}.sft",
        f"SELECT 'any' AS set_, '{BEST}' AS name, id, {best}::DOUBLE AS value FROM {run}.rejected",
    ]


def scores_differ(tables: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a record has another score in run B than in run A, or a score in only one of the runs.

    ``tables`` is the database to which :func:`add_scores` has added the scores of both runs.
    """
    query = """SELECT exists(FROM (FROM scores_a EXCEPT FROM scores_b))
        OR exists(FROM (FROM scores_b EXCEPT FROM scores_a))"""
    return bool(tables.execute(query).fetchall()[0][0])


def score_section(tables: duckdb.DuckDBPyConnection) -> Section:
    """Return a table with the mean and median of each score in both runs, and the mean of the paired differences B − A.

    Scores are, for example, the verdicts on traces (a teacher's reasoning with its answer) and the traces' lengths.
    ``tables`` is the database to which :func:`add_scores` has added the scores of both runs.
    """
    query = """WITH of_a AS (SELECT set_, name, count(*) AS n, avg(value) AS mean, median(value) AS middle
                FROM scores_a GROUP BY ALL),
            of_b AS (SELECT set_, name, count(*) AS n, avg(value) AS mean, median(value) AS middle
                FROM scores_b GROUP BY ALL),
            of_both AS (SELECT a.set_, a.name, list(b.value - a.value ORDER BY a.id) AS differences
                FROM scores_a a JOIN scores_b b ON a.set_ = b.set_ AND a.name = b.name AND a.id = b.id GROUP BY ALL)
        SELECT coalesce(a.set_, b.set_) AS s, coalesce(a.name, b.name) AS of, a.n, b.n, a.mean, b.mean, a.middle,
               b.middle, differences
        FROM of_a a FULL JOIN of_b b ON a.set_ = b.set_ AND a.name = b.name
        LEFT JOIN of_both p ON p.set_ = coalesce(a.set_, b.set_) AND p.name = coalesce(a.name, b.name)
        ORDER BY s = 'any' DESC, s = 'sft' DESC, of = 'final' DESC, of"""
    rows = []
    for side, name, n_a, n_b, *means, differences in tables.execute(query).fetchall():
        cells = [number_text(value) for value in means]
        label = name if side == "any" else f"{side}: {name}"
        rows.append((label, n_a or 0, n_b or 0, *cells, len(differences or ()), _difference_text(differences or ())))
    columns = ("score", "n A", "n B", "mean A", "mean B", "median A", "median B", "pairs", "B − A, paired")
    note = (
        "Verdicts and lengths are of the kept traces. B − A is the mean difference over the ids that have the score in "
        f"both runs, with a 95 % interval from {MIN_PAIRS} pairs on (bootstrap; normal beyond 2,000 pairs)."
    )
    return Section("scores", "scores", note, columns, rows)


def _difference_text(differences: Sequence[float]) -> str:
    """Return the mean of paired differences and its interval as text; a dash if there are no pairs."""
    if not differences:
        return "–"
    if not any(differences):
        return "0, all equal"
    mean = number_text(sum(differences) / len(differences), signed=True)
    interval = mean_interval(differences)
    bounds = [] if interval is None else [number_text(bound, signed=True) for bound in interval]
    return f"{mean} [{', '.join(bounds)}]" if bounds else mean


def other_traces(tables: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Return how many ids are SFT rows in both runs, and how many of these ids have different traces in the two runs.

    A trace is a teacher's reasoning with its answer. Both numbers are 0 if the shards of a run have no traces.
    ``tables`` is the database of both runs.
    """
    if not all("messages" in _types(tables, f"{run}.sft") for run in ("a", "b")):
        return 0, 0
    query = """SELECT count(*), count(*) FILTER (a.messages IS DISTINCT FROM b.messages)
        FROM a.sft a JOIN b.sft b ON a.id = b.id"""
    both, other = tables.execute(query).fetchall()[0]
    return both, other
