"""Compares the output sets into which two runs put their records, and lists the records that ended differently.

A run puts each record that it reads into one output set: sft, rl or rejected. This set is called the record's *side*.
For a rejected record, the side also includes the stage (the pipeline's step) that rejected it, the reason, and the
scorer (check) whose result led to it. The records of two runs are matched by their ids. The sizes of the sets are also
compared for each source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from groundtrace.publishing.comparison.section import Section, points_text, share_text
from groundtrace.publishing.reading import SHARDS
from groundtrace.schemas.intervals import difference, paired_difference
from groundtrace.schemas.text import counted

MAX_SOURCES = 12
ABSENT = "not in this run"
NO_SOURCE = "(no source)"
_FIELDS = {"source": "VARCHAR", "question": "VARCHAR", "pass_rate": "DOUBLE"}
_REJECTED = {"stage": "VARCHAR", "reason": "VARCHAR", "detail": "VARCHAR"}
_SCORER = {"rejected_by": "VARCHAR"}


@dataclass(frozen=True)
class Side:
    """Holds the set into which one run put a record, and the reason if the record was rejected.

    ``set`` is sft, rl or rejected. For a rejected record, ``stage`` is the step of the pipeline that rejected it,
    ``reason`` is the short name of the reason, and ``detail`` is a text about why this record was rejected. All three
    are None if the record was not rejected. ``rejected_by`` is the name of the scorer (check) that led to the
    rejection; None if no scorer led to it, or if a run of an earlier version does not name the scorers.
    """

    set: str
    stage: str | None = None
    reason: str | None = None
    detail: str | None = None
    rejected_by: str | None = None

    @property
    def text(self) -> str:
        """Return the output set of the record as a short text, with the stage (pipeline step), the reason and the
        scorer (check) of a rejection.

        For example, ``sft``, ``rejected: difficulty/too_hard`` or ``rejected: verify/low_score (spatial)``.
        """
        scorer = f" ({self.rejected_by})" if self.rejected_by else ""
        return f"rejected: {self.stage}/{self.reason}{scorer}" if self.set == "rejected" else self.set

    def to_fields(self) -> dict[str, str]:
        """Return where the record ended, as fields of a JSON object.

        The field ``set`` is ``sft``, ``rl`` or ``rejected``. A rejected record also has the stage, the reason, the
        detail and the scorer (check of a response) of its rejection. Fields that are None are left out, e.g.
        ``{"set": "sft"}`` for a record that was not rejected.
        """
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class MovedRecord:
    """Holds a record that two runs put into different sets, or rejected differently.

    ``before`` is the output set (sft, rl or rejected) of the record in the first run, with the reason of a rejection.
    It is None if the first run did not read the record. ``after`` is the same for the second run. ``question`` is the
    record's question; "" if it has none.
    """

    id: str
    question: str
    before: Side | None
    after: Side | None

    @property
    def why(self) -> str:
        """Return the detail of the record's rejection: a text about why this record was rejected.

        The detail comes from the second run, or from the first run if the second run has none. It is "" if neither run
        has a detail.
        """
        sides = [side for side in (self.after, self.before) if side is not None and side.detail]
        return sides[0].detail or "" if sides else ""

    def to_fields(self) -> dict[str, Any]:
        """Return the record as fields of a JSON object: its ``id``, and where it ended in the two runs.

        ``from`` holds the output set (sft, rl or rejected), and the fields of a rejection, in the first run. ``to``
        holds the same for the second run. If a run did not read the record, its field is None.
        """
        sides = {"from": self.before, "to": self.after}
        return {"id": self.id} | {name: side and side.to_fields() for name, side in sides.items()}


def add_ends(tables: duckdb.DuckDBPyConnection) -> None:
    """Add three tables to the database: they hold the set (sft, rl, rejected) in which each record of both runs ended.

    ``tables`` is the database with the rows of both runs. The table ``ends_a`` has one row for each record of the first
    run, and ``ends_b`` one for each record of the second run. The columns of both tables are id, set_, source,
    question, pass_rate, and the stage (pipeline step), reason, detail and scorer (check) of a rejection. Runs of
    earlier versions do not name the scorers. If one of the two runs names no scorer, all scorers are null in both
    tables. The table ``pairs`` joins both tables by id. A record that only one run has read has a row in ``pairs``,
    with null for the other run.
    """
    rejected = _REJECTED | (_SCORER if all(_names_scorers(tables, f"{run}.rejected") for run in "ab") else {})
    for run in ("a", "b"):
        parts = []
        for name in SHARDS:
            there = _columns(tables, f"{run}.{name}")
            wanted = _FIELDS | (rejected if name == "rejected" else {})
            columns = [
                column if column in there and column in wanted else f"NULL::{kind} AS {column}"
                for column, kind in (_FIELDS | _REJECTED | _SCORER).items()
            ]
            parts.append(f"SELECT id, '{name}' AS set_, {', '.join(columns)} FROM {run}.{name}")
        tables.execute(f"CREATE TEMP TABLE ends_{run} AS {' UNION ALL '.join(parts)}")
    tables.execute("""CREATE TEMP TABLE pairs AS
        SELECT coalesce(a.id, b.id) AS id, coalesce(b.question, a.question, '') AS question,
               a.set_ AS set_a, a.stage AS stage_a, a.reason AS reason_a, a.detail AS detail_a, a.rejected_by AS by_a,
               b.set_ AS set_b, b.stage AS stage_b, b.reason AS reason_b, b.detail AS detail_b, b.rejected_by AS by_b,
               a.id IS NOT NULL AND b.id IS NOT NULL AS is_both,
               a.set_ <> b.set_ AND is_both AS is_moved,
               (a.set_, a.stage, a.reason, a.rejected_by)
                   IS DISTINCT FROM (b.set_, b.stage, b.reason, b.rejected_by) AS is_changed
        FROM ends_a a FULL JOIN ends_b b ON a.id = b.id""")


def _names_scorers(tables: duckdb.DuckDBPyConnection, view: str) -> bool:
    """Return whether any rejected row of a run names the scorer (the check) that rejected it.

    ``view`` is the view of the run's rejected rows, such as ``a.rejected``.
    """
    if "rejected_by" not in _columns(tables, view):
        return False
    return bool(tables.execute(f"SELECT exists(SELECT 1 FROM {view} WHERE rejected_by IS NOT NULL)").fetchall()[0][0])


def _columns(tables: duckdb.DuckDBPyConnection, view: str) -> set[str]:
    return {row[0] for row in tables.execute(f"DESCRIBE {view}").fetchall()}


@dataclass(frozen=True)
class Overlap:
    """Holds how many record ids are in both runs, and how many are only in run A or only in run B."""

    both: int
    only_a: int
    only_b: int

    @property
    def text(self) -> str:
        """Return a sentence on how many ids the runs share, such as ``Both runs read the same 12 ids.``

        If the ids differ, the sentence also states how many ids are only in A and only in B.
        """
        if not self.only_a and not self.only_b:
            return f"Both runs read the same {counted(self.both, 'id')}."
        ids = counted(self.both, "id")
        return (
            f"{ids} {'is' if self.both == 1 else 'are'} in both runs, {self.only_a} only in A, {self.only_b} only in B."
        )


def overlap(tables: duckdb.DuckDBPyConnection) -> Overlap:
    """Return how many record ids are in both runs, only in the first run, and only in the second run.

    ``tables`` is the database to which :func:`add_ends` has added the table ``pairs``. For each record id, this table
    holds the set (sft, rl or rejected) in which the record ended in the first run, and the set in the second run. A set
    is null if the run does not have the record.
    """
    query = """SELECT count(*) FILTER (set_a IS NOT NULL AND set_b IS NOT NULL),
        count(*) FILTER (set_b IS NULL), count(*) FILTER (set_a IS NULL) FROM pairs"""
    return Overlap(*(tables.execute(query).fetchall()[0]))


def yields(tables: duckdb.DuckDBPyConnection, sets: Sequence[str], ids: Overlap) -> Section:
    """Return a table with the size of each output set in both runs: the number of its records, and their share of all
    records.

    The last column is the difference between the shares of the two runs. It has a 95 % interval in two cases: if both
    runs read the same ids (paired interval), and if no id is in both runs (interval for independent samples).
    ``tables`` is the database to which :func:`add_ends` has added the output set of each record. ``sets`` are the names
    of the training sets (sft, rl); the output set "rejected" is always added. ``ids`` holds how many record ids are in
    both runs and in only one of them.
    """
    counts = {run: dict(tables.execute(f"SELECT set_, count(*) FROM ends_{run} GROUP BY 1").fetchall()) for run in "ab"}
    total_a, total_b = ids.both + ids.only_a, ids.both + ids.only_b
    rows: list[tuple[object, ...]] = [("records read", total_a, total_b, "", "", "")]
    for name in (*sets, "rejected"):
        n_a, n_b = counts["a"].get(name, 0), counts["b"].get(name, 0)
        middle = n_b / total_b - n_a / total_a if total_a and total_b else None
        interval = None
        if ids.both and not ids.only_a and not ids.only_b:
            interval = paired_difference(*_fourfold(tables, name))
        elif not ids.both and total_a and total_b:
            interval = difference(n_a, total_a, n_b, total_b)
        shares = share_text(n_a, total_a), share_text(n_b, total_b)
        rows.append((name, n_a, n_b, *shares, points_text(middle, interval)))
    within = ", with the 95 % interval of Newcombe" if not ids.both or not (ids.only_a or ids.only_b) else ""
    note = f"Shares are of the records read. {ids.text} B − A is in percentage points{within}."
    return Section("yields", "yields", note, ("set", "A", "B", "share A", "share B", "B − A"), rows)


def _fourfold(tables: duckdb.DuckDBPyConnection, name: str) -> tuple[int, int, int, int]:
    """Return how many ids the output set ``name`` (e.g. sft) contains in both runs, only in run A, only in run B, and
    in neither run.

    Ids that only one run has read are not counted. ``tables`` is the database to which :func:`add_ends` has added its
    tables.
    """
    query = """SELECT count(*) FILTER (set_a = $1 AND set_b = $1), count(*) FILTER (set_a = $1 AND set_b <> $1),
        count(*) FILTER (set_a <> $1 AND set_b = $1), count(*) FILTER (set_a <> $1 AND set_b <> $1) FROM pairs"""
    both, first, second, neither = tables.execute(query, [name]).fetchall()[0]
    return both, first, second, neither


def yields_by_source(tables: duckdb.DuckDBPyConnection, sets: Sequence[str]) -> Section | None:
    """Return a table with the sizes of the output sets for each source of records; None if there is only one source.

    A source is a data set from which records come. A size is given as a number, and as a share of the records that the
    run read from this source. ``tables`` is the database to which :func:`add_ends` has added the output set of each
    record. ``sets`` are the names of the training sets (sft, rl); the output set "rejected" is always added.
    """
    query = f"""SELECT coalesce(source, '{NO_SOURCE}') AS source_,
            {", ".join(f"count(*) FILTER (run = '{run}' AND set_ = '{name}')" for name in SHARDS for run in "ab")}
        FROM (SELECT 'a' AS run, source, set_ FROM ends_a UNION ALL SELECT 'b', source, set_ FROM ends_b)
        GROUP BY 1 ORDER BY count(*) DESC, 1"""
    found = tables.execute(query).fetchall()
    if len(found) < 2:
        return None
    names = [name for name in SHARDS if name in sets or name == "rejected"]
    rows = []
    for source, *counts in found[:MAX_SOURCES]:
        by_set = {name: (counts[2 * index], counts[2 * index + 1]) for index, name in enumerate(SHARDS)}
        totals = [sum(pair[side] for pair in by_set.values()) for side in (0, 1)]
        cells: list[object] = []
        for name in names:
            cells += [f"{n} ({share_text(n, of)})" for n, of in zip(by_set[name], totals, strict=True)]
        rows.append((source, *totals, *cells))
    columns = ("source", "read A", "read B", *(f"{name} {run}" for name in names for run in "AB"))
    left = len(found) - len(rows)
    more = f"and {counted(left, 'further source')}" if left else ""
    return Section("sources", "yields by source", "The sources with the most records first.", columns, rows, more)


def transitions(tables: duckdb.DuckDBPyConnection) -> Section:
    """Return a table with the number of record ids for each change of the output set, such as from ``sft`` in run A to
    ``rl`` in run B.

    ``tables`` is the database to which :func:`add_ends` has added the output set of each record. The most frequent
    change comes first. Ids that are in only one run come last.
    """
    rows = [
        (n, _of(_side(*a_and_b[:5])), _of(_side(*a_and_b[5:]))) for n, *a_and_b in tables.execute(_BY_SIDES).fetchall()
    ]
    query = """SELECT count(*) FILTER (is_moved), count(*) FILTER (is_changed AND is_both AND NOT is_moved),
        count(*) FILTER (NOT is_both) FROM pairs"""
    moved, only_reason, alone = tables.execute(query).fetchall()[0]
    note = (
        f"{counted(moved, 'id')} changed side, and {counted(only_reason, 'rejected id')} changed only the reason or "
        "the scorer."
    )
    note += f" {counted(alone, 'id')} {'is' if alone == 1 else 'are'} in one run only." if alone else ""
    return Section("transitions", "ids that changed side", note, ("ids", "in A", "in B"), rows)


_SIDES = "set_a, stage_a, reason_a, by_a, set_b, stage_b, reason_b, by_b"
_BY_SIDES = f"""SELECT count(*) AS n, set_a, stage_a, reason_a, NULL, by_a, set_b, stage_b, reason_b, NULL, by_b
    FROM pairs WHERE is_changed
    GROUP BY ALL ORDER BY bool_and(is_both) DESC, n DESC, {_SIDES}"""
_MOVED = f"""WITH sorted AS (
        SELECT *, count(*) OVER (PARTITION BY {_SIDES}) AS alike,
               row_number() OVER (PARTITION BY {_SIDES} ORDER BY sha256(id), id) AS place
        FROM pairs WHERE is_changed AND (is_both OR $alone)),
    chosen AS (SELECT * FROM sorted ORDER BY place, alike DESC, {_SIDES}, id LIMIT $most)
    SELECT id, question, set_a, stage_a, reason_a, detail_a, by_a, set_b, stage_b, reason_b, detail_b, by_b
    FROM chosen ORDER BY is_both DESC, alike DESC, {_SIDES}, place"""


def moved_records(
    tables: duckdb.DuckDBPyConnection, limit: int | None = None, alone: bool = False
) -> list[MovedRecord]:
    """Return the records that ended differently in the two runs.

    A record ended differently in two cases: the runs put it into different sets (sft, rl or rejected), or they rejected
    it at different stages (pipeline steps), for different reasons or by different scorers (checks). ``tables`` is the
    database to which :func:`add_ends` has added the output set of each record. ``limit`` is the maximum number of
    returned records; None returns all. If more records than ``limit`` differ, the returned records show as many
    different changes as possible, such as from sft to rl. The same runs always give the same records. If ``alone`` is
    True, records that only one run has read are included.
    """
    bounds = {"most": 2**62 if limit is None else limit, "alone": alone}
    return [
        MovedRecord(row_id, question, _side(*sides[:5]), _side(*sides[5:]))
        for row_id, question, *sides in tables.execute(_MOVED, bounds).fetchall()
    ]


def count_moved(tables: duckdb.DuckDBPyConnection) -> int:
    """Return the number of records that are in both runs and ended differently.

    A record ended differently in two cases. The runs put it into different output sets (sft, rl or rejected). Or they
    rejected it at different stages (pipeline steps), for different reasons or by different scorers (checks). ``tables``
    is the database to which :func:`add_ends` has added the output set of each record.
    """
    return int(tables.execute("SELECT count(*) FROM pairs WHERE is_changed AND is_both").fetchall()[0][0])


def moved_section(moved: Sequence[MovedRecord], total: int) -> Section:
    """Return a table of records that ended differently in the two runs.

    A record ended differently in two cases: the runs put it into different output sets (sft, rl or rejected), or they
    rejected it at different stages (pipeline steps), for different reasons or by different scorers (checks). ``moved``
    are the records in the table. ``total`` is the number of all records that ended differently, including those that
    are not in ``moved``.
    """
    rows = [(each.id, _of(each.before), _of(each.after), each.why) for each in moved]
    left = total - len(rows)
    advice = "beam diff --all lists them, and --ids FILE writes them; in Python, gt.diff(…, limit=None) lists them"
    more = f"and {counted(left, 'further id')}: {advice}" if left else ""
    note = "Why is the detail of the rejection in B, or else in A."
    return Section("ids", "the ids", note, ("id", "in A", "in B", "why"), rows, more)


def _of(side: Side | None) -> str:
    """Return a short text with the set (sft, rl or rejected) into which a run put a record.

    For a rejected record, the text also has the stage (pipeline step), the reason and the scorer (check) of the
    rejection. If ``side`` is None, the text states that the run did not read the record.
    """
    return ABSENT if side is None else side.text


def _side(name: str | None, *rejection: str | None) -> Side | None:
    """Return the side of a record: the output set (sft, rl or rejected) into which a run put it, and what is known of a
    rejection.

    ``name`` is the name of the output set. It is None if the run did not read the record; the result is then None, too.
    ``rejection`` holds the stage (pipeline step), reason, detail and scorer (check) of a rejection.
    """
    return None if name is None else Side(name, *rejection)


def sets_of(*sets: Sequence[str]) -> list[str]:
    """Return the names of the training sets (sft, rl) that at least one run has, each name once.

    Each argument holds the names of the training sets of one run. The names are in the order of their first occurrence.
    """
    return list(dict.fromkeys(name for each in sets for name in each))
