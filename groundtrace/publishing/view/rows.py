"""Loads all rows of a finished run into one DuckDB table, and filters, sorts and counts them for ``beam view``."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from groundtrace.publishing.reading import CLOSED, SHARDS, InspectError, columns_of, one_line
from groundtrace.publishing.view.audit_estimate import KEPT
from groundtrace.publishing.view.filters import FLAG, TAGS, Dimension, Filters
from groundtrace.schemas.arrow import added_columns
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.storage.views import quoted_name, quoted_path

BINS = 20
MAX_CLASSES = 40
"""The maximum number of categories of a column that are counted. The categories with the most rows are counted."""
SCORE = "score "
"""The beginning of the names of columns that hold verdicts, such as ``score final``."""
THERE, CHANGE, DIFFERENCE = "in the other run", "change of set", "change of the final score"
"""The names of the columns on a second run: the record's outcome there, such as ``rejected: too_hard``; its sets there
and in this run, such as ``rejected → sft``; this run's final score minus the other's.
"""
_TRACE_LENGTH = "trace characters"
_CORE_CLASSES = ("stage", "reason", "source", "answer_type", "license")
_CORE_NUMBERS = ("pass_rate", "k")


@dataclass(frozen=True)
class RowPlace:
    """Holds where a row is stored: its set, its shard (Parquet file), and its index in the shard."""

    set: str
    file: Path
    row: int


@dataclass(frozen=True)
class Bins:
    """Holds a histogram of a column of numbers.

    ``rows`` is the number of rows in each of :data:`BINS` bins of equal width from ``low`` to ``high``. ``missing`` is
    the number of rows without a finite value.
    """

    low: float
    high: float
    rows: tuple[int, ...]
    missing: int


class ViewedRows:
    """Holds all rows of a run in memory, without images, and filters, sorts and counts them.

    Several threads may use one instance. ``run`` is the run folder, and ``summary`` is the content of its ``run.json``.
    ``dimensions`` are the columns that rows can be filtered and sorted by, in the order in which a page shows them.
    Each row has a number ``n``, which is its index in the run. The sft rows come first, then the rl rows, then the
    rejected rows; within a set, rows have the order of the shards. Raises
    :class:`groundtrace.publishing.reading.InspectError` if a shard cannot be read.
    """

    def __init__(self, run: Path, summary: RunSummary) -> None:
        self.summary = summary
        self._writing = threading.Lock()
        self._db = duckdb.connect(":memory:", config=CLOSED)
        try:
            found = _selections(run, self._db)
            self._db.execute("CREATE TABLE loaded AS " + (" UNION ALL BY NAME ".join(found) or _NO_ROWS))
            self._db.execute(
                "CREATE TABLE rows AS SELECT row_number() OVER (ORDER BY part, file, file_row) - 1 AS n, *, "
                f'false AS "{FLAG}", \'\' AS "{TAGS}" FROM loaded ORDER BY n'
            )
            self._db.execute("DROP TABLE loaded")
            self._describe()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            self._db.close()
            raise InspectError(f"cannot read the shards of {run}: {one_line(error)}: repeat the run") from error
        self._db.execute("SET enable_external_access = false")

    def _describe(self) -> None:
        """Determine the columns to filter by, and the bounds of their histograms."""
        self.dimensions = tuple(_dimensions(self._db))
        self.bounds = {each.name: self._bounds(each) for each in self.dimensions if each.is_number}

    def outcomes(self) -> list[tuple[str, str, str | None, float | None]]:
        """Return (id, set, reason of the rejection, final score) of each row, in the order of the run."""
        names = {name for name, *_ in self._db.execute("DESCRIBE rows").fetchall()}
        columns = [quoted_name(each) if each in names else "NULL" for each in ("reason", f"{SCORE}final")]
        query = f'SELECT id, "set", {", ".join(columns)} FROM rows ORDER BY n'
        with self._db.cursor() as cursor:
            return cursor.execute(query).fetchall()

    def add_columns(self, values: pa.Table) -> None:
        """Add columns to the rows, so that a page can filter and sort by them.

        ``values`` has the column ``id``, with each record id at most once, and the columns to add. Columns of the rows
        that have the name of a new one are replaced.
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

    def close(self) -> None:
        """Close the database, so that its memory is freed."""
        self._db.close()

    def __len__(self) -> int:
        """Return the number of rows of all sets."""
        with self._db.cursor() as cursor:
            return _count(cursor, "SELECT count(*) FROM rows")

    def page(self, filters: Filters, offset: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of all rows that pass the filters, and the rows of one page as dictionaries.

        ``filters`` defines which rows pass and their order. ``offset`` is the number of rows to skip, and ``limit`` is
        the maximum number of rows on the page.
        """
        names = ["n", "id", "set", "question", "answer", "detail", *(each.name for each in self.dimensions)]
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

        The keys are the names of the columns. A column of categories has (category, number of rows) pairs, and a column
        of numbers has a histogram. The counts of a column ignore the filter on this column, so the user sees how many
        rows its other categories have.
        """
        with self._found(filters) as (cursor, _, _):
            return {each.name: self._count_one(cursor, filters, each) for each in self.dimensions}

    def strata(self) -> list[tuple[str, str]]:
        """Return (id, stratum) of each row whose trace (reasoning with answer) was verified.

        A stratum is a group of rows for an audit, in which a person judges a sample of traces. The stratum is
        :data:`KEPT` for an SFT row. For a rejected record, it is the stage (pipeline step) and the reason of the
        rejection. Two kinds of rows are left out: RL rows, because they have no trace, and records that were rejected
        because of a quota, a budget or the target number of rows, because such a rejection does not depend on the
        trace.
        """
        query = f"""SELECT id, CASE WHEN "set" = 'sft' THEN '{KEPT}' ELSE concat(stage, ': ', reason) END FROM rows
            WHERE {quoted_name(_TRACE_LENGTH)} > 0 AND "set" IN ('sft', 'rejected')
            AND coalesce(reason, '') NOT IN ('over_quota', 'budget', 'not_drawn') ORDER BY n"""
        with self._db.cursor() as cursor:
            return cursor.execute(query).fetchall()

    def number_of(self, record_id: str) -> int | None:
        """Return the index in the run (``n``) of the row with this record id; None if the run has no such record."""
        with self._db.cursor() as cursor:
            found = cursor.execute("SELECT n FROM rows WHERE id = ? ORDER BY n LIMIT 1", [record_id]).fetchone()
        return None if found is None else found[0]

    def place_of(self, n: int) -> RowPlace | None:
        """Return where a row is stored: its set, its shard (Parquet file), and its index in the shard.

        ``n`` is the index of the row in the run. The result is None if the run has no such row.
        """
        with self._db.cursor() as cursor:
            found = cursor.execute('SELECT "set", file, file_row FROM rows WHERE n = ?', [n]).fetchone()
        return None if found is None else RowPlace(found[0], Path(found[1]), found[2])

    def mark(self, marks: Mapping[str, tuple[bool, str]]) -> None:
        """Set the flags and tags of records, so that rows can be filtered by them.

        ``marks`` holds for each record id whether the record is flagged, and its tags as one text.
        """
        with self._writing, self._db.cursor() as cursor:
            query = f'UPDATE rows SET "{FLAG}" = ?, "{TAGS}" = ? WHERE id = ?'
            for record_id, (is_flagged, tags) in marks.items():
                cursor.execute(query, [is_flagged, tags, record_id])

    @contextmanager
    def _found(self, filters: Filters) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, list[Any]]]:
        """Yield a database connection, and an SQL condition with the values of its placeholders.

        The user's filters are a text, categories and ranges. The connection has a temporary table ``found`` with the
        rows that contain the text; without a text, ``found`` is a view of all rows. So the text is searched for only
        once for all counts of a page. The condition is for queries of ``found``, and holds the categories and ranges.
        """
        with self._db.cursor() as cursor:
            if filters.text:
                query = "CREATE TEMP TABLE found AS SELECT * EXCLUDE (words) FROM rows WHERE contains(words, lower(?))"
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
        """Return the counts of one column, as (category, number of rows) pairs or as a histogram."""
        where, values = filters.where(without=dimension.name)
        column = quoted_name(dimension.name)
        if not dimension.is_number:
            query = f"SELECT {dimension.sql}, count(*) FROM found WHERE {where} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"
            return cursor.execute(query, [*values, MAX_CLASSES]).fetchall()
        low, high = self.bounds[dimension.name]
        width = (high - low) / BINS or 1.0
        bin_of = f"least(greatest(floor(({column} - ?) / ?), 0), {BINS - 1})::INT"
        query = f"SELECT CASE WHEN isfinite({column}) THEN {bin_of} END, count(*) FROM found WHERE {where} GROUP BY 1"
        rows = dict(cursor.execute(query, [low, width, *values]).fetchall())
        missing = rows.pop(None, 0)
        return Bins(low, high, tuple(rows.get(index, 0) for index in range(BINS)), missing)

    def _bounds(self, dimension: Dimension) -> tuple[float, float]:
        """Return the bounds of a column's histogram.

        They are 0 and 1 for a score or a share, else the lowest and the highest value.
        """
        column = quoted_name(dimension.name)
        found = self._db.execute(f"SELECT min({column}), max({column}) FROM rows WHERE isfinite({column})").fetchone()
        low, high = found or (None, None)
        if low is None or high is None or (low < high and low >= 0 and high <= 1):
            return 0.0, 1.0  # a score or a share
        return float(low), float(high)


_NO_ROWS = """SELECT 0 AS part, '' AS "set", '' AS file, 0 AS file_row, '' AS id, '' AS question, '' AS answer,
    '' AS detail, '' AS words WHERE false"""


def _selections(run: Path, db: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the SQL query for the rows of each set that has shards."""
    queries = []
    for part, name in enumerate(SHARDS):
        files = sorted((run / name).glob("*.parquet"))
        if files:
            listed = ", ".join(map(quoted_path, files))
            source = f"read_parquet([{listed}], union_by_name = true, filename = true, file_row_number = true)"
            queries.append(_selection(part, name, columns_of(run, name), source, db))
    return queries


def _selection(part: int, name: str, schema: pa.Schema, source: str, db: duckdb.DuckDBPyConnection) -> str:
    """Return the SQL query for the rows of a set.

    ``part`` is the position of the set in the run, and ``source`` is the SQL that reads its shards.
    """
    has = set(schema.names)
    trace = ""
    if "messages" in has:
        trace = "messages[-1].content"
    elif "traces" in has:
        trace = f"{_BEST_TRACE}.text"
    columns = {
        "part": str(part),
        "set": _literal(name),
        "file": "filename",
        "file_row": "file_row_number",
        "id": "id",
        "question": "question" if "question" in has else "''",
        "answer": "answer" if "answer" in has else "''",
        "detail": "detail" if "detail" in has else "NULL::VARCHAR",
    }
    columns |= {each: each if each in has else "NULL::VARCHAR" for each in _CORE_CLASSES}
    columns |= {each: f"{each}::DOUBLE" if each in has else "NULL::DOUBLE" for each in _CORE_NUMBERS}
    columns |= _scores_of(schema, source, db)
    columns[_TRACE_LENGTH] = f"length({trace})::DOUBLE" if trace else "NULL::DOUBLE"
    all_traces = "array_to_string(list_transform(traces, lambda t: t.text), ' ')" if "traces" in has else trace
    texts = ["id", columns["question"], columns["answer"], columns["detail"], *([all_traces] if all_traces else [])]
    columns["words"] = f"lower(concat_ws(chr(10), {', '.join(texts)}))"
    for each in added_columns(schema):
        if cast := _cast(each.name, each.type):
            columns[_free_name(each.name, columns)] = cast
    return f"SELECT {', '.join(f'{sql} AS {quoted_name(column)}' for column, sql in columns.items())} FROM {source}"


def _free_name(name: str, columns: Iterable[str]) -> str:
    """Return the name under which a page shows an added column: the column's own, unless the view needs it.

    ``columns`` are the names that are in use. Names that differ only in upper and lower case are equal for DuckDB.
    """
    taken = {each.lower() for each in (*columns, *_RESERVED)}
    while name.lower() in taken or name.lower().startswith(SCORE):
        name = f"column {name}"
    return name


_RESERVED = ("n", FLAG, TAGS, THERE, CHANGE, DIFFERENCE)
_SCORES = "list_transform(traces, lambda t: coalesce(t.score, -1))"
_BEST_TRACE = f"traces[list_position({_SCORES}, list_max({_SCORES}))]"
"""The trace with the highest score; the first one if several traces have it; null without traces."""


def _scores_of(schema: pa.Schema, source: str, db: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the SQL of each score of a set's rows, by the name of its column, such as ``score final``."""
    if "traces" in schema.names:
        held, found = f"{_BEST_TRACE}.verdicts", {f"{SCORE}final": f"{_BEST_TRACE}.score"}
        of_one = "list_transform(t.verdicts, lambda v: v.name)"
        names = f"SELECT DISTINCT unnest(flatten(list_transform(traces, lambda t: {of_one})))"
    else:
        found = {f"{SCORE}{field.name}": f"scores.{quoted_name(field.name)}" for field in schema.field("scores").type}
        held = "verdicts" if "verdicts" in schema.names else ""
        names = "SELECT DISTINCT unnest(list_transform(verdicts, lambda v: v.name))"
    if not held:
        return found
    for (name,) in db.execute(f"{names} FROM {source} ORDER BY 1").fetchall():
        if name and f"{SCORE}{name}" not in found:
            found[f"{SCORE}{name}"] = f"list_filter({held}, lambda v: v.name = {_literal(name)})[1].value"
    return found


def _cast(name: str, kind: pa.DataType) -> str:
    """Return the SQL expression that reads a column as a text (a category) or as a number, for the filters of a page.

    ``name`` is the name of a column that a stage of the pipeline added to the rows, and ``kind`` is its type. A list of
    texts is read as one text. The result is "" for other types, such as structs and other lists, because the page
    cannot filter by them.
    """
    if pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return f"{quoted_name(name)}::VARCHAR"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return f"{quoted_name(name)}::DOUBLE"
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        return f"array_to_string(list_sort({quoted_name(name)}), ', ')"
    return ""


def _dimensions(db: duckdb.DuckDBPyConnection) -> Iterator[Dimension]:
    """Yield the columns that rows can be filtered and sorted by.

    A column without any value is left out. A column of texts with too many different values, such as a question's
    author, is left out too. The flag and the tags of reviewers are always included.
    """
    hidden = {"n", "part", "file", "file_row", "id", "question", "answer", "detail", "words"}
    described = db.execute("DESCRIBE rows").fetchall()
    for name, kind, *_ in described:
        if name in hidden:
            continue
        is_number = kind == "DOUBLE"
        if name not in (FLAG, TAGS):
            column = quoted_name(name)
            (distinct, filled) = db.execute(
                f"SELECT count(DISTINCT {column}), count({column}) FROM rows"
            ).fetchone() or (0, 0)
            if not filled or (not is_number and distinct > MAX_CLASSES * 25):
                continue
        yield Dimension(name, is_number)


def _count(cursor: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any] = ()) -> int:
    """Return the number that a query counts."""
    found = cursor.execute(query, list(values)).fetchone()
    return 0 if found is None else found[0]


def _literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
