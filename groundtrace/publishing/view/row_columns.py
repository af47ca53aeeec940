"""Determines the columns of the table in which ``beam view`` holds a run's rows, and makes SQL to read the rows."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from groundtrace.grading.responses.response import parse_points
from groundtrace.publishing.reading import SHARDS, columns_of
from groundtrace.publishing.view.filters import (
    FLAG,
    MARK_WORDS,
    NOTED,
    OF_ADDRESS,
    OUTDATED,
    SORT,
    TAGS,
    TEXT,
    TOKEN,
    Dimension,
)
from groundtrace.schemas.arrow import added_columns
from groundtrace.schemas.run_files import shards_of
from groundtrace.storage.views import quoted_name, quoted_path

MAX_CLASSES = 40
"""The maximum number of categories of a column that are counted. The categories with the most rows are counted."""
SCORE = "score "
"""The beginning of the names of columns that hold verdicts, such as ``score final``."""
THERE, CHANGE, DIFFERENCE = "in the other run", "change of set", "change of the final score"
"""The names of three columns, which compare a record of the viewed run with the same record of a second run.

They hold, in this order: the outcome in the second run, such as ``rejected: too_hard``; the set in the viewed run and
the set in the second run, such as ``sft → rejected``; and the final score in the second run minus that in the viewed
run. ``beam diff`` with the same arguments has the same direction.
"""
TRACE_LENGTH = "trace characters"
"""The name of the column with the number of characters of the shown trace.

The shown trace is the kept trace of an SFT row, and the trace of a rejected record whose score is shown. An RL row has
none.
"""
TRACE_HASH = "trace hash"
"""The name of the column with DuckDB's hash of the shown trace. It differs if the trace differs, and is not shown."""
TRACE_POINTS = "trace points"
"""The name of the column with the number of points in the shown trace."""
HAS_IMAGE = "has image"
"""The name of the column that is false if a row has no image. It is true for a rejected record whose file is gone."""
_CORE_CLASSES = ("stage", "reason", "rejected_by", "source", "answer_type", "license")
_CORE_NUMBERS = ("pass_rate", "k")
_MARKS = (FLAG, TAGS, NOTED, OUTDATED)
MAX_SHOWN_CHARS = 2_000
"""The maximum number of characters of a question, an answer and a detail in the table of rows.

If the user opens a single record, the page shows these texts in full.
"""
MAX_SEARCHED_CHARS = 30_000
"""The number of characters at the beginning of each text in which a search looks."""
MAX_WORDS_CHARS = 200_000
"""The maximum number of characters of one row in which a search looks."""
NO_ROWS = """SELECT 0 AS part, '' AS "set", '' AS file, 0 AS file_row, '' AS id, '' AS question, '' AS answer,
    '' AS detail, '' AS "input row", '' AS words, true AS "has image", 0::UBIGINT AS "trace hash" WHERE false"""
"""The SQL query of a table without rows, for a run without shards."""


def selections(run: Path, db: duckdb.DuckDBPyConnection) -> list[str]:
    """Return SQL queries that read the rows of a run: one query for each output set of the run, such as ``sft``.

    Output sets without shards (Parquet files) are left out. ``run`` is the run folder. ``db`` is an open database, with
    which the shards are read.
    """
    db.create_function("points_in", _points_in, ["VARCHAR"], "DOUBLE")
    queries = []
    for part, name in enumerate(SHARDS):
        files = shards_of(run, name)
        if files:
            listed = ", ".join(map(quoted_path, files))
            options = f"union_by_name = true, filename = {_literal(_FILE)}, file_row_number = true"
            source = f"read_parquet([{listed}], {options})"
            queries.append(_selection(part, name, columns_of(run, name), source, db))
    return queries


def _selection(part: int, name: str, schema: pa.Schema, source: str, db: duckdb.DuckDBPyConnection) -> str:
    """Return the SQL query for the rows of an output set (sft, rl or rejected).

    ``name`` is the name of the output set, and ``schema`` has the columns of its shards. ``part`` is a number by which
    the sets are ordered. ``source`` is the SQL that reads the shards.
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
        "file": quoted_name(_FILE),
        "file_row": "file_row_number",
        "id": "id",
    }
    texts = {each: each if each in has else "''" for each in ("question", "answer")}
    texts["detail"] = "detail" if "detail" in has else "NULL::VARCHAR"
    columns |= {each: f"left({sql}, {MAX_SHOWN_CHARS})" for each, sql in texts.items()}
    columns["input row"] = f"left(input_row, {MAX_SHOWN_CHARS})" if "input_row" in has else "NULL::VARCHAR"
    columns[HAS_IMAGE] = "coalesce(len(media), 0) > 0" if "media" in has else "true"
    columns |= {each: each if each in has else "NULL::VARCHAR" for each in _CORE_CLASSES}
    columns |= {each: f"{each}::DOUBLE" if each in has else "NULL::DOUBLE" for each in _CORE_NUMBERS}
    columns |= _scores_of(schema, source, db)
    columns[TRACE_HASH] = f"hash({trace})" if trace else "NULL::UBIGINT"
    columns[TRACE_LENGTH] = f"length({trace})::DOUBLE" if trace else "NULL::DOUBLE"
    searched = [*texts.values(), *([trace] if trace and "traces" not in has else [])]
    searched += ["array_to_string(media_names, ' ')"] if "media_names" in has else []
    searched += ["input_row"] if "input_row" in has else []
    columns[TRACE_POINTS] = _points_sql(has)
    columns["words"] = _words(searched, "traces" in has)
    for each in added_columns(schema):
        if cast := _cast(each.name, each.type):
            columns[_free_name(each.name, columns)] = cast
    return f"SELECT {', '.join(f'{sql} AS {quoted_name(column)}' for column, sql in columns.items())} FROM {source}"


def _points_sql(has: Collection[str]) -> str:
    """Return the SQL expression for the number of points in the shown trace (reasoning with answer) of a row; null if
    the row has no trace.

    ``has`` are the names of the columns in the shards. The points of the kept trace have a column. Those of other
    traces are read from the text, as the page does when it draws them.
    """
    if "messages" in has and "points" in has:
        return "coalesce(len(points), 0)::DOUBLE"
    return f"points_in({_BEST_TRACE}.text)" if "traces" in has else "NULL::DOUBLE"


def _points_in(trace: str) -> float:
    """Return the number of points in the text of a trace (a teacher's reasoning with its answer)."""
    return float(len(parse_points(trace)))


def _words(texts: Iterable[str], has_traces: bool) -> str:
    """Return the SQL expression of a row's text for searches: its id, ``texts`` and all traces, in lower case.

    ``texts`` are SQL expressions. ``has_traces`` is True if the rows have the column ``traces``. Each text is shortened
    before the texts are joined, to limit the use of RAM. The reason is that shards are compressed, so even a small
    shard may hold many very long texts.
    """
    searched = [f"left({each}, {MAX_SEARCHED_CHARS})" for each in ("id", *texts)]
    if has_traces:
        of_one = f"left(t.text, {MAX_SEARCHED_CHARS})"
        searched.append(f"array_to_string(list_transform(traces, lambda t: {of_one}), ' ')")
    return f"lower(left(concat_ws(chr(10), {', '.join(searched)}), {MAX_WORDS_CHARS}))"


def _free_name(name: str, columns: Iterable[str]) -> str:
    """Return the name under which a page shows a column that a stage of the pipeline added to the rows.

    The result is the column's own ``name``. In three cases, "column " is put before the name, several times if
    necessary: another column or a parameter of the page has this name; the name begins with :data:`SCORE`; or the name
    begins with a minus. (In the parameter ``sort``, a minus means descending order.) ``columns`` are the names that are
    in use. Names that differ only in upper and lower case are equal for DuckDB.
    """
    taken = {each.lower() for each in (*columns, *_RESERVED)}
    while name.lower() in taken or name.lower().startswith((SCORE, "-")):
        name = f"column {name}"
    return name


_FILE = "path of the shard"
"""The name of the column in which DuckDB writes the path of each row's shard. DuckDB's own name for it is ``filename``,
which a column of the user may have.
"""
_RESERVED = (
    *("n", *OF_ADDRESS, TEXT, SORT, TOKEN),
    *(*_MARKS, MARK_WORDS, THERE, CHANGE, DIFFERENCE),
)
_SCORES = "list_transform(traces, lambda t: coalesce(t.score, -1))"
_BEST_TRACE = f"traces[list_position({_SCORES}, list_max({_SCORES}))]"
"""The trace with the highest score; the first one if several traces have it; null without traces."""


def _scores_of(schema: pa.Schema, source: str, db: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return an SQL expression for each score that the rows of an output set (e.g. sft) have, by its column name, e.g.
    ``score final``. ``schema`` has the columns of the rows, ``source`` is the SQL that reads them, and ``db`` is the
    database.
    """
    if "traces" in schema.names:
        held, found = f"{_BEST_TRACE}.verdicts", {f"{SCORE}final": f"{_BEST_TRACE}.score"}
        of_one = "list_transform(t.verdicts, lambda v: v.name)"
        names = f"SELECT DISTINCT unnest(flatten(list_transform(traces, lambda t: {of_one})))"
    else:
        scores = schema.field("scores").type if "scores" in schema.names else ()
        found = {f"{SCORE}{field.name}": f"scores.{quoted_name(field.name)}" for field in scores}
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


def dimensions_of(db: duckdb.DuckDBPyConnection) -> Iterator[Dimension]:
    """Yield the columns of the table ``rows`` in the database ``db`` that rows can be filtered and sorted by: first the
    set, then those of a reviewer's marks, then all others in the order of the table.

    A column without any value is left out. A column of texts is also left out if it has too many different values, for
    example a column with the authors of the questions. The columns of reviewers' marks are always included.
    """
    hidden = {"n", "part", "file", "file_row", "id", "question", "answer", "detail", "input row", "words"}
    hidden |= {MARK_WORDS, HAS_IMAGE, TRACE_HASH}
    described = db.execute("DESCRIBE rows").fetchall()
    first = ("set", *_MARKS)
    for name, kind, *_ in sorted(described, key=lambda each: first.index(each[0]) if each[0] in first else len(first)):
        if name in hidden:
            continue
        is_number = kind == "DOUBLE"
        if name not in _MARKS:
            column = quoted_name(name)
            (distinct, filled) = db.execute(
                f"SELECT count(DISTINCT {column}), count({column}) FROM rows"
            ).fetchone() or (0, 0)
            if not filled or (not is_number and distinct > MAX_CLASSES * 25):
                continue
        yield Dimension(name, is_number)


def _literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
