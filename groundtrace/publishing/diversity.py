"""Computes how a run's rows are distributed over the classes of each property, such as source or length.

The data card and the report show the result. Rows are counted in the shards (Parquet files). A property is shown only
if at least one row has a value for it. The evenness of the distribution is computed for the SFT rows and for the RL
rows. It is the normalised entropy H / ln K, where K is the number of classes in the SFT and RL rows together. The
evenness is 1 if all classes have the same number of rows. It is 0 if all SFT rows (or all RL rows) are in one class. It
is None if K is 1, or if there are no SFT rows (or no RL rows).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.reading import BATCH_ROWS, columns_of
from groundtrace.schemas.arrow import added_columns
from groundtrace.schemas.columns import Column
from groundtrace.storage.views import quoted_name

MAX_CLASSES = 10
NONE = "none"
_NUMBER_WORDS = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    "eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million"
)


@dataclass(frozen=True)
class ClassRows:
    """Holds how many SFT rows and RL rows are in one class. ``label`` is the name of the class, such as a source."""

    label: str
    sft: int
    rl: int


@dataclass(frozen=True)
class Balance:
    """Holds how the rows of a run are distributed over the classes of one property, such as the source.

    Attributes:
        name: the name of the property.
        classes: the classes with their numbers of rows, at most :data:`MAX_CLASSES`. Classes with a natural order (such
            as lengths) are in this order; otherwise the largest class comes first.
        distinct: the number of all classes, including those that ``classes`` omits.
        others: the number of rows in the omitted classes; None if no class is omitted.
        evenness: for each training set (sft, rl), how evenly its rows are distributed, from 0 (one class) to 1 (equal
            classes). It is H / ln K, with the entropy H of the set's rows over the classes, and the number of classes
            K. None if the property has only one class, or if the set has no rows.
    """

    name: str
    classes: tuple[ClassRows, ...]
    distinct: int
    others: ClassRows | None = None
    evenness: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Property:
    """Describes a property of rows, such as the source, and how SQL computes the class of each row.

    Attributes:
        name: the name of the property on the pages, such as "answer type".
        column: the column of the shards (Parquet files) that the property needs.
        label: an SQL expression over the column that computes the class of a row.
        place: an SQL expression over the column, by which the classes are sorted; None to sort the classes by their
            size.
        missing: the name of the class for rows in which ``label`` is null, such as "none".
    """

    name: str
    column: str
    label: str
    place: str | None = None
    missing: str = NONE


def _binned(value: str, bounds: Sequence[int]) -> tuple[str, str]:
    """Return two SQL expressions for the bin of a whole number: its label, such as "6–10", and its position.

    ``value`` is the SQL expression of the number. ``bounds`` are the upper bounds of the bins; the last bin has none.
    """
    names, lows = [], [1, *(bound + 1 for bound in bounds)]
    for low, high in zip(lows, bounds, strict=False):
        names.append(f"WHEN {value} <= {high} THEN '{low if low == high else f'{low}–{high}'}'")
    label = f"CASE WHEN {value} IS NULL THEN NULL {' '.join(names)} ELSE '{lows[-1]} or more' END"
    place = f"CASE {' '.join(f'WHEN {value} <= {high} THEN {at}' for at, high in enumerate(bounds))} ELSE 99 END"
    return label, place


def _words(text: str) -> str:
    """Return the SQL expression for the number of words in a text."""
    return f"len(string_split_regex(trim({text}), '\\s+'))"


def template_sql(text: str) -> str:
    """Return an SQL expression that computes the template of a question.

    Questions that differ only in numbers and names have the same template, so that similar questions can be counted.
    ``text`` is the SQL expression of the question. The template is the question in lower case. Each number is replaced
    by #, and consecutive capitalised words inside a sentence are replaced by one @. For example, "Is Tower Bridge 2 km
    long?" becomes "is @ # km long?".
    """
    names = f"regexp_replace({text}, '([a-z0-9,;:] )[A-Z][\\w''’-]*(?: [A-Z][\\w''’-]*)*', '\\1@', 'g')"
    numbers = f"regexp_replace(lower({names}), '\\d+(?:[.,:/]\\d+)*|\\b(?:{_NUMBER_WORDS})\\b', '#', 'g')"
    return f"trim(regexp_replace({numbers}, '\\s+', ' ', 'g'))"


_RATE = (
    "CASE WHEN pass_rate IS NULL THEN NULL WHEN pass_rate = 0 THEN '0' WHEN pass_rate < 0.5 THEN 'below 0.5' "
    "WHEN pass_rate < 1 THEN '0.5 and above' ELSE '1' END"
)
PROPERTIES = (
    Property("source", "source", "source"),
    Property("answer type", "answer_type", "answer_type"),
    Property("boxes", "boxes_source", "boxes_source"),
    Property("pass rate", "pass_rate", _RATE, "pass_rate", "not attempted"),
    Property("question, words", "question", *_binned(_words("question"), (5, 10, 20, 40, 80))),
    Property("gold answer, words", "answer", *_binned(_words("answer"), (1, 3, 10, 30))),
    Property("trace, words", "messages", *_binned(_words("messages[-1].content"), (20, 50, 100, 200, 400, 800))),
    Property("question template", "question", template_sql("question")),
)
MEDIA = "rows with the same image"


def balances(staging: Path, tables: duckdb.DuckDBPyConnection, sets: Sequence[str]) -> list[Balance]:
    """Return how the rows of the ``sets`` are distributed over the classes of each property, such as source or length.

    ``staging`` is the folder with the shards (Parquet files). ``tables`` is a database with a view for each set
    (:func:`groundtrace.publishing.reading.open_tables`). ``sets`` are names of training sets (sft, rl). Properties
    without a value in any row are left out, so the list is empty if the sets have no rows. A stage (a step of the
    pipeline) can add a column whose values are classes. Such a column is a property, too. In the result, these
    properties come after the source and the answer type.
    """
    schemas = {side: columns_of(staging, side) for side in sets}
    columns = {side: frozenset(schema.names) for side, schema in schemas.items()}
    added = dict.fromkeys(_property(c) for schema in schemas.values() for c in added_columns(schema) if c.is_class)
    described = [
        each for each in (*PROPERTIES[:2], *added, *PROPERTIES[2:]) if any(each.column in c for c in columns.values())
    ]
    found = [*_balances(tables, described, columns), _media_balance(staging, sets)]
    return [each for each in found if each is not None]


def _property(column: Column[Any]) -> Property:
    """Return a property that sorts rows into classes by the values of ``column``, a column that a stage (pipeline step)
    added.

    A property is a feature of rows, such as the source, together with an SQL expression for the class of a row. A value
    of the column is the name of a class. If the value is a list of names, the class is e.g. "a and b".
    """
    name = quoted_name(column.name)
    label = f"nullif(array_to_string({name}, ' and '), '')" if pa.types.is_list(column.type) else name
    return Property(column.name.replace("_", " "), column.name, label)


def _balances(
    tables: duckdb.DuckDBPyConnection, described: Sequence[Property], columns: Mapping[str, frozenset[str]]
) -> list[Balance | None]:
    """Return the distribution of each property in ``described``; None for a property without values.

    A property, such as the source, sorts the rows into classes. The shards are read once, into a table that holds the
    class of each row for each property. ``columns`` holds the names of the columns of each training set (sft, rl).
    """
    if not described:
        return []
    rows = []
    for side, names in columns.items():
        own = [(number, each) for number, each in enumerate(described) if each.column in names]
        labels = [f"{each.label} AS label_{number}, {each.place or 0} AS place_{number}" for number, each in own]
        rows.append(f"SELECT '{side}' AS side, {', '.join(labels)} FROM {side}")
    tables.execute(f"CREATE OR REPLACE TEMP TABLE classes AS {' UNION ALL BY NAME '.join(rows)}")
    return [_balance(tables, each, number) for number, each in enumerate(described)]


def _balance(tables: duckdb.DuckDBPyConnection, described: Property, number: int) -> Balance | None:
    """Return how the rows are distributed over the classes of one property; None if no row has a value.

    ``described`` is the property, and ``number`` is its number n. ``tables`` is a database with the table ``classes``.
    For each row of the run, the column ``label_n`` of this table holds the row's class of property n. A training set
    (sft or rl) is left out in two cases: it lacks the column that the property needs, or no row of the set has a value.
    For example, the RL rows are left out for the length of the trace (a teacher's reasoning with its answer), because
    they have no trace.
    """
    order = "place NULLS LAST, label" if described.place else "sft + rl DESC, label"
    query = f"""
        WITH named AS (SELECT side, label_{number} AS label, place_{number} AS place FROM classes),
             used AS (SELECT DISTINCT side FROM named WHERE label IS NOT NULL),
             grouped AS (
            SELECT label, min(place) AS place,
                   count(*) FILTER (side = 'sft') AS sft, count(*) FILTER (side = 'rl') AS rl
            FROM named WHERE side IN (SELECT side FROM used) GROUP BY label)
        SELECT label, sft, rl, count(*) OVER (), count(label) OVER (), sum(sft) OVER (), sum(rl) OVER (),
               sum(if(sft > 0, sft * ln(sft), 0)) OVER (), sum(if(rl > 0, rl * ln(rl), 0)) OVER ()
        FROM grouped ORDER BY {order} LIMIT {MAX_CLASSES}"""
    fetched = tables.execute(query).fetchall()
    if not fetched or not fetched[0][4]:
        return None
    distinct, _, *sums = fetched[0][3:]
    classes = [ClassRows(described.missing if label is None else str(label), sft, rl) for label, sft, rl, *_ in fetched]
    totals, logs = {"sft": int(sums[0]), "rl": int(sums[1])}, {"sft": sums[2], "rl": sums[3]}
    return _made(described.name, classes, distinct, totals, logs)


def _media_balance(staging: Path, sets: Sequence[str]) -> Balance | None:
    """Return how often the images of rows occur in their training set (sft or rl); None if no row has images.

    For each row with images, the rows of its set that have the same image are counted, including the row itself. The
    class of the row is this number, as "1", "2", "3–5", "6–10" or "11 or more". For example, a row whose image is in no
    other row belongs to "1". If a row has several images, the rows are counted for each image, and the largest of these
    numbers is used. Images are compared by path. ``staging`` is the folder with the shards (Parquet files), and
    ``sets`` are the names of the training sets.
    """
    shared = {side: Counter(map(_reuse, _most_shared(staging, side))) for side in sets}
    labels = [label for label, _ in _REUSE if any(counts[label] for counts in shared.values())]
    if not labels:
        return None
    classes = [ClassRows(name, *(shared.get(side, Counter())[name] for side in ("sft", "rl"))) for name in labels]
    totals = {side: sum(getattr(each, side) for each in classes) for side in ("sft", "rl")}
    logs = {side: sum(n * math.log(n) for each in classes if (n := getattr(each, side))) for side in ("sft", "rl")}
    return _made(MEDIA, classes, len(classes), totals, logs)


_REUSE = (("1", 1), ("2", 2), ("3–5", 5), ("6–10", 10), ("11 or more", math.inf))


def _reuse(rows: int) -> str:
    """Return the label of the class to which a number of rows belongs. E.g. if ``rows`` is 4, the label is "3–5".

    ``rows`` is the number of rows in a training set (sft or rl) that have the same image.
    """
    return next(label for label, most in _REUSE if rows <= most)


def _most_shared(staging: Path, side: str) -> Iterable[int]:
    """Return one number for each row with images: how many rows of the training set have the same image as this row.

    If a row has several images, the rows are counted for each of them, and the largest of these numbers is returned.
    E.g. if a row has an image that is in 2 rows of the set, and another that is in 5 rows, its number is 5. ``side`` is
    the name of the training set, sft or rl. Only the paths of the images are read.
    """
    shown: list[frozenset[str]] = []
    for file in sorted((staging / side).glob("*.parquet")):
        with pq.ParquetFile(file) as shard:
            if "images" not in shard.schema_arrow.names:
                continue
            for batch in shard.iter_batches(BATCH_ROWS, columns=["images.list.element.path"]):
                paths = batch.column(0).to_pylist()
                shown += [frozenset(image["path"] for image in row if image["path"]) for row in paths if row]
    rows = Counter(path for row in shown for path in row)
    return [max(rows[path] for path in row) for row in shown if row]


def _made(
    name: str, classes: Sequence[ClassRows], distinct: int, totals: Mapping[str, int], logs: Mapping[str, float]
) -> Balance:
    """Return the balance of a property: how the rows of each training set (sft, rl) are distributed over its classes.

    ``name`` is the property, such as "source". ``classes`` are the classes to show, and ``distinct`` is the number of
    all classes. ``totals`` maps the name of each set to the number of its rows. ``logs`` maps the name of each set to
    the sum of n ln n over all classes, where n is the number of the set's rows in a class. The evenness is computed
    from this sum (:func:`_evenness`).
    """
    rest = {side: total - sum(getattr(each, side) for each in classes) for side, total in totals.items()}
    others = ClassRows(f"{distinct - len(classes)} more", rest["sft"], rest["rl"]) if distinct > len(classes) else None
    even = {side: _evenness(total, logs[side], distinct) for side, total in totals.items()}
    return Balance(name, tuple(classes), distinct, others, even)


def _evenness(total: int, log_sum: float, distinct: int) -> float | None:
    """Return the normalised entropy H / ln K; None if there is only one class or no row.

    ``total`` is the number of rows, ``log_sum`` is the sum of n ln n over the classes (n: the rows of a class), and
    ``distinct`` is K.
    """
    if distinct < 2 or not total:
        return None
    return max(0.0, (math.log(total) - log_sum / total) / math.log(distinct))
