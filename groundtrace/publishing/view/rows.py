"""Loads all rows of a finished run into one DuckDB table, and filters, sorts and counts them for ``beam view``."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from groundtrace.publishing.columns import columns_added
from groundtrace.publishing.reading import CLOSED, SHARDS, InspectError, one_line, read_summary
from groundtrace.publishing.view.audit_estimate import KEPT
from groundtrace.publishing.view.filters import FLAG, MARK_WORDS, NOTED, OUTDATED, TAGS, Dimension, Filters
from groundtrace.publishing.view.opened_run import OpenedRun
from groundtrace.publishing.view.reviews import Mark
from groundtrace.publishing.view.row_columns import (
    HAS_IMAGE,
    MAX_CLASSES,
    NO_ROWS,
    SCORE,
    TRACE_HASH,
    TRACE_LENGTH,
    dimensions_of,
    selections,
)
from groundtrace.publishing.view.row_traces import seen_traces
from groundtrace.storage.views import quoted_name

BINS = 20
MEMORY = "50%"
"""The maximum share of this machine's RAM that the table with the rows of a run may use."""


@dataclass(frozen=True)
class RowPlace:
    """Holds where a row is stored: its output set (sft, rl or rejected), its shard (Parquet file), and its index in the
    shard.
    """

    set: str
    file: Path
    row: int


class Outcome(NamedTuple):
    """Holds the outcome of a run for one record: the output set that holds the record, its score, or why it was
    rejected.

    Attributes:
        id: the id of the record.
        set: the output set with the record's row: sft, rl or rejected.
        score: the final score; None if the row has none.
        stage, reason, scorer: the stage (pipeline step) that rejected the record, the reason, and the scorer (check)
            whose result led to the rejection; None if the row does not have it.
        trace: a number that differs if the shown trace (reasoning with answer) differs; None if the row has no trace.
    """

    id: str
    set: str
    score: float | None
    stage: str | None
    reason: str | None
    scorer: str | None
    trace: int | None


@dataclass(frozen=True)
class Bins:
    """Holds a histogram of a column of numbers.

    ``rows`` is the number of rows in each of :data:`BINS` bins of equal width from ``low`` to ``high``. ``missing`` is
    the number of rows without a finite value. ``spans`` has for each bin the lowest and the highest value that
    rows of the run have in this bin; None if no row of the run is in it. A range with these bounds passes exactly the
    rows of the bin. A range with the edges of the bin would also pass rows of the next bin, which begins at its edge.
    """

    low: float
    high: float
    rows: tuple[int, ...]
    missing: int
    spans: tuple[tuple[float, float] | None, ...]


class ViewedRows:
    """Holds all rows of a run in memory, without images, and filters, sorts and counts them.

    Several threads may use one instance. ``run`` is the run folder. ``summary`` is the content of its ``run.json``.
    ``dimensions`` are the columns that rows can be filtered and sorted by, in the order in which a page shows them.
    ``meanings`` maps the name of each column that stages have added, or that the user kept, to its description. Each
    row has a number ``n``, which is its index in the run. The sft rows come first, then the rl rows, then the rejected
    rows; within each of these output sets, rows have the order of the shards (Parquet files). Raises
    :class:`groundtrace.publishing.reading.InspectError` if the folder holds no finished run, or if a shard cannot be
    read. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if one of these files is a pipe, a device, or a link
    to a file outside the run folder.
    """

    def __init__(self, run: Path) -> None:
        self._opened = OpenedRun(run)  # before the files are read: a run that is replaced meanwhile is noticed
        self.summary = read_summary(run)
        self._writing = threading.Lock()
        self._seen = dict[str, tuple[str, str]]()
        self._db = duckdb.connect(":memory:", config=CLOSED | {"memory_limit": MEMORY, "temp_directory": ""})
        try:
            found = selections(run, self._db)
            self._db.execute("CREATE TABLE loaded AS " + (" UNION ALL BY NAME ".join(found) or NO_ROWS))
            self._db.execute(
                "CREATE TABLE rows AS SELECT row_number() OVER (ORDER BY part, file, file_row) - 1 AS n, *, "
                f'false AS "{FLAG}", \'\' AS "{TAGS}", false AS "{NOTED}", false AS "{OUTDATED}", '
                f"'' AS \"{MARK_WORDS}\" "
                "FROM loaded ORDER BY n"
            )
            self._db.execute("DROP TABLE loaded")
            self._describe()
            self.meanings = {each.name: each.meaning for each in columns_added(run, tuple(SHARDS))}
        except duckdb.OutOfMemoryException as error:
            self._db.close()
            raise InspectError(
                f"the rows of {run} need more memory than `beam view` may use ({MEMORY} of this machine's memory): "
                "query the rows with `beam inspect --sql`, or view them on a machine with more memory"
            ) from error
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            self._db.close()
            raise InspectError(f"cannot read the shards of {run}: {one_line(error)}: repeat the run") from error
        self._db.execute("SET enable_external_access = false")

    def _describe(self) -> None:
        """Determine the columns to filter by, the bounds of their histograms, and the spans of the histograms' bins."""
        self.dimensions = tuple(dimensions_of(self._db))
        numbers = [each for each in self.dimensions if each.is_number]
        self.bounds = {each.name: self._bounds(each) for each in numbers}
        self.spans = {each.name: self._spans(each) for each in numbers}

    def outcomes(self) -> list[Outcome]:
        """Return the outcome of each record, such as its output set (sft, rl or rejected), in the order of the run's
        rows.
        """
        names = {name for name, *_ in self._db.execute("DESCRIBE rows").fetchall()}
        wanted = (f"{SCORE}final", "stage", "reason", "rejected_by", TRACE_HASH)
        columns = [quoted_name(each) if each in names else "NULL" for each in wanted]
        query = f'SELECT id, "set", {", ".join(columns)} FROM rows ORDER BY n'
        with self._db.cursor() as cursor:
            return [Outcome(*each) for each in cursor.execute(query).fetchall()]

    def add_columns(self, values: pa.Table) -> None:
        """Add columns to the rows, so that a page can filter and sort by them.

        ``values`` has the column ``id``, with each record id at most once, and the columns to add. If the rows already
        have a column with the name of an added one, the added column replaces it.
        """
        names = ", ".join(f"added.{quoted_name(each)}" for each in values.column_names if each != "id")
        held = {name for name, *_ in self._db.execute("DESCRIBE rows").fetchall()}
        replaced = ", ".join(quoted_name(each) for each in values.column_names if each in held and each != "id")
        kept = f"rows.* EXCLUDE ({replaced})" if replaced else "rows.*"
        self._db.register("added", values)
        self._db.execute(f"CREATE TABLE joined AS SELECT {kept}, {names} FROM rows LEFT JOIN added USING (id)")
        self._db.execute("DROP TABLE rows")
        self._db.execute("ALTER TABLE joined RENAME TO rows")
        self._db.unregister("added")
        self._describe()

    def check_run(self) -> None:
        """Raise RunChanged if the run folder no longer holds the files whose rows were read."""
        self._opened.check()

    def close(self) -> None:
        """Close the database, so that its memory is freed."""
        self._db.close()

    def __len__(self) -> int:
        """Return the number of rows of all output sets (sft, rl and rejected) together."""
        with self._db.cursor() as cursor:
            return _count(cursor, "SELECT count(*) FROM rows")

    def page(self, filters: Filters, offset: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of all rows that pass the filters, and the rows of one page as dictionaries.

        ``filters`` defines which rows pass and their order. ``offset`` is the number of rows to skip, and ``limit`` is
        the maximum number of rows on the page.
        """
        names = [
            "n",
            "id",
            "set",
            "question",
            "answer",
            "detail",
            "input row",
            HAS_IMAGE,
            *(each.name for each in self.dimensions),
        ]
        columns = ", ".join(map(quoted_name, dict.fromkeys(names)))
        with self._found(filters) as (cursor, where, values):
            total = _count(cursor, f"SELECT count(*) FROM found WHERE {where}", values)
            query = f"SELECT {columns} FROM found WHERE {where} ORDER BY {filters.order_sql} LIMIT ? OFFSET ?"
            rows = cursor.execute(query, [*values, limit, offset]).fetchall()
        return total, [dict(zip(dict.fromkeys(names), row, strict=True)) for row in rows]

    def ids(self, filters: Filters) -> list[str]:
        """Return the ids of all rows that pass the filters, in the order that ``filters.sort`` defines."""
        with self._found(filters) as (cursor, where, values):
            query = f"SELECT id FROM found WHERE {where} ORDER BY {filters.order_sql}"
            return [each for (each,) in cursor.execute(query, values).fetchall()]

    def neighbours(self, filters: Filters, n: int) -> tuple[int | None, int, str | None, str | None]:
        """Return where a row is among the rows that pass the filters, so that a user can go to the next row.

        ``n`` is the index of the row in the run. The result is the row's position (from 1), the number of rows that
        pass the filters, the id of the row before it, and the id of the row after it. For the first row, the id of the
        row before is None; for the last row, the id of the row after is None. If the row itself does not pass the
        filters, the position and both ids are None.
        """
        with self._found(filters) as (cursor, where, values):
            query = f"""SELECT position, total, before, after FROM (
                SELECT n, row_number() OVER turn AS position, count(*) OVER () AS total,
                    lag(id) OVER turn AS before, lead(id) OVER turn AS after
                FROM found WHERE {where} WINDOW turn AS (ORDER BY {filters.order_sql})
            ) WHERE n = ?"""
            found = cursor.execute(query, [*values, n]).fetchone()
            total = _count(cursor, f"SELECT count(*) FROM found WHERE {where}", values)
        return (None, total, None, None) if found is None else found

    def counts(self, filters: Filters) -> dict[str, list[tuple[str, int]] | Bins]:
        """Return for each column how many of the rows that pass the filters are in each of its categories or bins.

        The keys are the names of the columns. A column of categories has (category, number of rows) pairs, with the
        :data:`MAX_CLASSES` most frequent categories. A column of numbers has a histogram. The counts of a column ignore
        the filter on this column, so the user sees how many rows its other categories have.
        """
        with self._found(filters) as (cursor, _, _):
            return {each.name: self._count_one(cursor, filters, each) for each in self.dimensions}

    def values_of(self, dimension: Dimension) -> list[str]:
        """Return the values of a column of categories, the most frequent first; "" for the rows without a value.

        A column of marks with the values "true" and "false" has both, because a reviewer may set or remove marks later.
        """
        query = f"SELECT {dimension.sql} FROM rows GROUP BY 1 ORDER BY count(*) DESC, 1"
        with self._db.cursor() as cursor:
            found = [value for (value,) in cursor.execute(query).fetchall()]
        later = ("true", "false") if dimension.name in (FLAG, NOTED, OUTDATED) else ()
        return list(dict.fromkeys([*found, *later]))

    def strata(self) -> list[tuple[str, str]]:
        """Return (id, stratum) of each row whose trace (reasoning with answer) was verified.

        A stratum is a group of rows for an audit, in which a person judges a sample of traces. The stratum is
        :data:`KEPT` for an SFT row. For a rejected record, it is the stage (pipeline step) and the reason of the
        rejection. Two kinds of rows are left out: RL rows, because they have no trace, and records that were rejected
        because of a quota, a budget or the target number of rows, because such a rejection does not depend on the
        trace.
        """
        query = f"""SELECT id, CASE WHEN "set" = 'sft' THEN '{KEPT}' ELSE concat(stage, ': ', reason) END FROM rows
            WHERE {quoted_name(TRACE_LENGTH)} > 0 AND "set" IN ('sft', 'rejected')
            AND coalesce(reason, '') NOT IN ('over_quota', 'budget', 'not_drawn') ORDER BY n"""
        with self._db.cursor() as cursor:
            return cursor.execute(query).fetchall()

    def number_of(self, record_id: str) -> int | None:
        """Return the index in the run (``n``) of the row with this record id; None if the run has no such record."""
        with self._db.cursor() as cursor:
            found = cursor.execute("SELECT n FROM rows WHERE id = ? ORDER BY n LIMIT 1", [record_id]).fetchone()
        return None if found is None else found[0]

    def place_of(self, n: int) -> RowPlace | None:
        """Return where a row is stored: its output set (sft, rl or rejected), its shard (Parquet file), and its index
        in the shard.

        ``n`` is the index of the row in the run. The result is None if the run has no such row.
        """
        with self._db.cursor() as cursor:
            found = cursor.execute('SELECT "set", file, file_row FROM rows WHERE n = ?', [n]).fetchone()
        return None if found is None else RowPlace(found[0], Path(found[1]), found[2])

    def seen(self, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return for each id of a record the output set of its row (sft, rl or rejected), and the SHA-256 of the trace
        (reasoning with answer) that the page shows first.

        The SHA-256 is "" for a row without a trace. Ids that the run does not have are left out. Raises InspectError if
        a shard cannot be read. The results are kept, so the trace of a row is read only once.
        """
        wanted = list(dict.fromkeys(ids))
        query = """SELECT id, "set", file, file_row FROM rows WHERE id IN (SELECT unnest(?::VARCHAR[]))
            ORDER BY n DESC"""  # of rows with the same id, the first one is the last item, which the dict keeps
        with self._db.cursor() as cursor:
            found = cursor.execute(query, [[each for each in wanted if each not in self._seen]]).fetchall()
        places = {row_id: (set_name, (Path(file), row)) for row_id, set_name, file, row in found}
        digests = seen_traces(place for _, place in places.values())
        self._seen |= {row_id: (set_name, digests[place]) for row_id, (set_name, place) in places.items()}
        return {each: self._seen[each] for each in wanted if each in self._seen}

    def mark(self, marks: Iterable[Mark]) -> None:
        """Set the marks (flag, tags and note) of records, so that a page can filter by them and search in them.

        Marks of records that the run does not have are left out. Raises InspectError if the trace of a marked row
        cannot be read.
        """
        latest = {mark.id: mark for mark in marks}
        seen = self.seen(latest)
        present = [latest[row_id] for row_id in seen]
        given = pa.table(
            {
                "id": pa.array([each.id for each in present], pa.string()),
                "flagged": pa.array([each.flagged for each in present], pa.bool_()),
                "tags": pa.array([each.tags_text for each in present], pa.string()),
                "note": pa.array([each.note for each in present], pa.string()),
                "outdated": pa.array([bool(each.outdated(*seen[each.id])) for each in present], pa.bool_()),
            }
        )
        query = f"""UPDATE rows SET "{FLAG}" = given.flagged, "{TAGS}" = given.tags, "{NOTED}" = given.note <> '',
            "{OUTDATED}" = given.outdated, "{MARK_WORDS}" = lower(concat(given.tags, chr(10), given.note))
            FROM given WHERE rows.id = given.id"""
        with self._writing, self._db.cursor() as cursor:
            cursor.register("given", given)
            cursor.execute(query)
            cursor.unregister("given")

    def shown_mark(self, mark: Mark) -> dict[str, Any]:
        """Return a mark as the page shows it, ready for JSON.

        ``outdated`` is a sentence if the mark was set on another version of the row; else "".
        """
        seen = self.seen([mark.id])
        return asdict(mark) | {"outdated": mark.outdated(*seen[mark.id]) if mark.id in seen else ""}

    @contextmanager
    def _found(self, filters: Filters) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, list[Any]]]:
        """Yield a database connection, an SQL condition, and the values of the condition's placeholders.

        ``filters`` has a text, categories and ranges. The connection has a temporary table ``found`` with the rows that
        contain the text. All counts of a page use this table, so the text is searched for only once. If ``filters`` has
        the text "", ``found`` is a view of all rows. The condition holds the categories and ranges, and is for queries
        of ``found``.
        """
        with self._db.cursor() as cursor:
            if filters.text:
                query = f'''CREATE TEMP TABLE found AS SELECT * EXCLUDE (words, "{MARK_WORDS}") FROM rows
                    WHERE contains(words, lower($1)) OR contains("{MARK_WORDS}", lower($1))'''
                cursor.execute(query, [filters.text])
            else:
                cursor.execute("CREATE TEMP VIEW found AS FROM rows")
            try:
                where, values = filters.where()
                yield cursor, where, values
            finally:
                cursor.execute(f"DROP {'TABLE' if filters.text else 'VIEW'} found")

    def _count_one(
        self, cursor: duckdb.DuckDBPyConnection, filters: Filters, dimension: Dimension
    ) -> list[tuple[str, int]] | Bins:
        """Return how many of the rows that pass ``filters`` are in each category or bin of the column ``dimension``.

        The result is a list of (category, number of rows) pairs for a column of categories, with the
        :data:`MAX_CLASSES` most frequent categories. For a column of numbers, it is a histogram. The filter on this
        column itself is ignored.
        """
        where, values = filters.where(without=dimension.name)
        if not dimension.is_number:
            query = f"SELECT {dimension.sql}, count(*) FROM found WHERE {where} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"
            return cursor.execute(query, [*values, MAX_CLASSES]).fetchall()
        bin_of, edges = self._bin_of(dimension)
        query = f"SELECT {bin_of}, count(*) FROM found WHERE {where} GROUP BY 1"
        rows = dict(cursor.execute(query, [*edges, *values]).fetchall())
        missing = rows.pop(None, 0)
        counted = tuple(rows.get(index, 0) for index in range(BINS))
        return Bins(*self.bounds[dimension.name], counted, missing, self.spans[dimension.name])

    def _bin_of(self, dimension: Dimension) -> tuple[str, list[float]]:
        """Return the SQL expression for the index of a row's bin in the histogram of a column of numbers.

        The second part of the result is the list of values for the placeholders (``?``) of the expression. The index is
        null if the row has no finite value.
        """
        low, high = self.bounds[dimension.name]
        index = f"least(greatest(floor(({dimension.column} - ?) / ?), 0), {BINS - 1})::INT"
        return f"CASE WHEN isfinite({dimension.column}) THEN {index} END", [low, (high - low) / BINS or 1.0]

    def _spans(self, dimension: Dimension) -> tuple[tuple[float, float] | None, ...]:
        """Return the lowest and the highest value in each bin of a column's histogram; None for a bin without rows."""
        bin_of, edges = self._bin_of(dimension)
        query = f"SELECT {bin_of}, min({dimension.column}), max({dimension.column}) FROM rows GROUP BY 1"
        found = {index: (low, high) for index, low, high in self._db.execute(query, edges).fetchall()}
        return tuple(found.get(index) for index in range(BINS))

    def _bounds(self, dimension: Dimension) -> tuple[float, float]:
        """Return the bounds of a column's histogram.

        The bounds are the lowest and the highest finite value. In two cases, they are 0 and 1: the column has no finite
        value, or its values differ and all are in [0, 1], such as scores and shares.
        """
        column = quoted_name(dimension.name)
        found = self._db.execute(f"SELECT min({column}), max({column}) FROM rows WHERE isfinite({column})").fetchone()
        low, high = found or (None, None)
        if low is None or high is None or (low < high and low >= 0 and high <= 1):
            return 0.0, 1.0  # a score or a share
        return float(low), float(high)


def _count(cursor: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any] = ()) -> int:
    """Return the result of a query of the form ``SELECT count(*) …``; ``values`` are for the query's placeholders."""
    found = cursor.execute(query, list(values)).fetchone()
    return 0 if found is None else found[0]
