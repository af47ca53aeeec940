"""Adds what reviewers have noted in ``beam view`` to the database of a run: the tables ``marks`` and ``judgements``."""

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from groundtrace.publishing.reading import SHARDS, InspectError, input_folder
from groundtrace.publishing.view.audit import Judgement, judged_digest, read_judgements
from groundtrace.publishing.view.audit_sample import read_sample
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.present_rows import present_rows
from groundtrace.publishing.view.record import record_of
from groundtrace.publishing.view.reviews import Reviews
from groundtrace.publishing.view.rows import RowPlace
from groundtrace.schemas.run_files import shards_of
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.storage.views import quoted_name
from groundtrace.vision.media import MediaStore

MARKS, JUDGEMENTS = "marks", "judgements"
COLUMNS: Mapping[str, Mapping[str, str]] = {
    MARKS: {
        "id": "VARCHAR",
        "set": "VARCHAR",
        "flagged": "BOOLEAN",
        "tags": "VARCHAR[]",
        "note": "VARCHAR",
        "at": "VARCHAR",
        "is_current": "BOOLEAN",
    },
    JUDGEMENTS: {
        "id": "VARCHAR",
        "set": "VARCHAR",
        "about": "VARCHAR",
        "choice": "VARCHAR",
        "reviewer": "VARCHAR",
        "at": "VARCHAR",
        "is_current": "BOOLEAN",
    },
}
"""The columns of each table with their types in DuckDB."""
Row = tuple[Any, ...]


def add_review_tables(
    db: duckdb.DuckDBPyConnection, run: Path, summary: RunSummary, sql: str, names: Sequence[str] = ("",)
) -> None:
    """Add the tables ``marks`` and ``judgements`` to the database of a run. They are empty if nobody reviewed the run.

    ``marks`` has one row for each record with a flag, a tag or a note. ``judgements`` has one row for each valid
    judgement of an audit: the last one of a reviewer about one subject, unless it was undone. In both tables, ``set``
    is the output set (sft, rl or rejected) that holds the record now, or null if the run no longer has the record.
    ``is_current`` is true if the mark or the judgement is about the present row; for a judgement, also its sample must
    be the present one.

    ``summary`` is the content of ``run.json``. ``sql`` is the query that will read the database. ``names`` are the
    database schemas in which queries find the run; ("",) if its tables are outside any schema.

    Raises :class:`groundtrace.publishing.reading.InspectError` if a file of marks or judgements cannot be read, and
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if it is a link. If ``sql`` does not name the table of such a
    file, no error is raised, and the database lacks the table.
    """
    for table, reading in ((MARKS, _marks(db, run, names[0])), (JUDGEMENTS, _judgements(run, summary))):
        try:
            rows = [*reading]
        except (InspectError, UnsafeFile):
            if table in sql.casefold():
                raise
            continue
        place = f"{quoted_name(names[0])}." if names[0] else ""
        columns = COLUMNS[table]
        described = ", ".join(f"{quoted_name(name)} {kind}" for name, kind in columns.items())
        db.execute(f"CREATE {'TABLE' if place else 'TEMP TABLE'} {place}{table} ({described})")
        values = [list(column) for column in zip(*rows, strict=True)]
        if values:
            lists = ", ".join(f"unnest(?::{kind}[])" for kind in columns.values())
            db.execute(f"INSERT INTO {place}{table} SELECT {lists}", values)
        for alias in names[1:]:
            db.execute(f"CREATE VIEW {quoted_name(alias)}.{table} AS SELECT * FROM {place}{table}")


def _marks(db: duckdb.DuckDBPyConnection, run: Path, within: str) -> Iterator[Row]:
    """Yield the rows of the table ``marks``: one for each record with a flag, a tag or a note. ``within`` is the
    database schema that holds the run's views; "" if they are outside any schema.
    """
    marks = [mark for mark in Reviews(run) if mark.flagged or mark.tags or mark.note]
    present = present_rows(db, (mark.id for mark in marks), within)
    for mark in marks:
        there = present.get(mark.id)
        is_current = there is not None and mark.is_about(*there)
        name = None if there is None else there[0]
        yield mark.id, name, mark.flagged, list(mark.tags), mark.note, mark.at, is_current


def _judgements(run: Path, summary: RunSummary) -> Iterator[Row]:
    """Yield the rows of the table ``judgements``: one for each judgement that was neither replaced nor undone."""
    made = {(each.id, each.trace, each.about, each.reviewer, each.sample): each for each in read_judgements(run)}
    valid = [each for each in made.values() if each.choice]
    sample = (read_sample(run) or {}).get("name")
    present = _judged_now(run, summary, valid, sample)
    for each in valid:
        name, trace = present.get(each.id, (None, ""))
        is_current = each.sample == sample and each.trace == trace
        yield each.id, name, each.about, each.choice, each.reviewer, each.at, is_current


def _judged_now(
    run: Path, summary: RunSummary, judgements: Sequence[Judgement], sample: Any
) -> dict[str, tuple[str, str]]:
    """Return for each judged record its output set (e.g. sft), and the SHA-256 of all that a person would judge now.

    ``sample`` is the name of the present sample. The SHA-256 is "" if no judgement with this ``sample`` is about the
    record. Records that the run no longer has are left out.
    """
    drawn = {each.id for each in judgements if each.sample == sample}
    images = RowImages(MediaStore(input_folder(summary.input), str(run), cache_bytes=0))
    try:
        return {
            place_id: (place.set, judged_digest(record_of(place, images)) if place_id in drawn else "")
            for place_id, place in _places(run, {each.id for each in judgements})
        }
    finally:
        images.close()


def _places(run: Path, ids: Set[str]) -> Iterator[tuple[str, RowPlace]]:
    """Yield the id and the place (output set, file and index) of the first row of each record whose id is in ``ids``.
    Ids that the run does not have are left out.
    """
    left = set(ids)
    for name in SHARDS if left else ():
        for file in shards_of(run, name):
            for row, row_id in enumerate(pq.read_table(file, columns=["id"])["id"].to_pylist()):
                if row_id in left:
                    left.remove(row_id)
                    yield row_id, RowPlace(name, file, row)
