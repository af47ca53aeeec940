"""Computes the counts of a run (records and rows) and its usage (calls, tokens, cost) from files that the run wrote.

Each record ends as a row of one of three output sets (SFT, RL, rejected): this row is its final outcome. For each file
of rows, the job writes a table of final outcomes ("table of ends"). The table lists, for each row, the stages that the
record passed and the calls that were made for the record. Tokens and cost are computed from notes. Notes are files in
which each process of the run writes one line for each request that it sends. The metrics of the Beam runner are not
used, since they count repeated work twice.
"""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from groundtrace.inference.flow.notes import PAID_FIELDS, Paid
from groundtrace.pipelines.running.execute.job_folder import Job
from groundtrace.rewards.agreement import agreement
from groundtrace.rewards.second_judge import UNSCORED
from groundtrace.schemas.run_summary import Counts, RoleLedger
from groundtrace.schemas.usage import NOTHING, Usage
from groundtrace.stages.plumbing.ends import ENDS_SCHEMA, READ_SCHEMA
from groundtrace.stages.plumbing.stage import BUDGET
from groundtrace.storage.views import add_table, add_view

MEMORY = "2GB"
"""The memory limit of the database that computes the sums. It writes data beyond this limit to disk."""
MAX_NAMED = 5
"""The maximum number of lost or unknown records that a message names."""
_IDS = pa.schema([("id", pa.string())])
_REASONS = pa.schema([("id", pa.string()), ("stage", pa.string()), ("reason", pa.string())])

RoleStage = tuple[str, str]


@dataclass(frozen=True)
class RunCounts:
    """Holds the counts and the usage (calls, tokens, cost) of one pass over the input.

    A run needs several passes only if it has a target number of SFT rows.

    Attributes:
        counts: The number of records that were read, the numbers of rows, and the rejections.
        kept: For each stage (step of the pipeline), the number of records that passed it, according to their final
            outcomes.
        side: Two numbers for each stage that reads only a sample of the records: first the number of elements (such as
            traces) that the stage read, then the number of these elements for which it has a result.
        asked: For each role (such as teacher) and stage, the usage of the calls. Only four fields are set. ``calls`` is
            the number of calls. ``repairs`` is the number of calls that requested another reply after a bad one.
            ``worth_usd`` is the cost that the calls would have had without the cache. ``cached`` is here the number of
            all replies that the calls got, whether a reply came from the cache or from a new request. In all other
            :class:`Usage` objects, ``cached`` counts only the replies that needed no request of their own;
            :func:`ledger` computes this smaller number.
        answered: The replies in which the server named another model than the requested one. For each role, the dict
            holds the number of these replies, by the name of the other model.
        taken_over: For each other run folder from whose cache this run took replies, the number of these replies.
        labels: The decisions of two judges on the same reasoning. A judge's label is ``yes``, ``no`` or ``unscored``.
            For each scorer (code that makes one verdict), a dict maps each pair of labels to the number of its
            occurrences. The first label of a pair is that of the first judge, and the second that of the second judge.
        refused: Whether the run's budget was exhausted, and at least one record or sampled element was rejected for
            this reason.
        forecast: Values that are summed over all records, such as the number of calls. From the sums of a preview (a
            run on the first records), a run on the whole input is forecast
            (:func:`groundtrace.pipelines.running.plan.forecast.forecast_text`).
        truncated: For each role and stage with truncated replies, three numbers: all replies, truncated replies, and
            the largest ``max_tokens`` of a truncated reply.
        unbalanced: A message that names lost records, records that were never read, and records with several outcomes;
            "" if every record has exactly one final outcome.
    """

    counts: Counts
    kept: Mapping[str, int] = field(default_factory=dict)
    side: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    asked: Mapping[RoleStage, Usage] = field(default_factory=dict)
    answered: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    taken_over: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    refused: bool = False
    forecast: Mapping[str, float] = field(default_factory=dict)
    unbalanced: str = ""
    truncated: Mapping[RoleStage, tuple[int, int, int]] = field(default_factory=dict)

    def entered(self, stage: str) -> int:
        """Return how many records entered the stage (step of the pipeline) with the name ``stage``; 0 for a stage that
        no record reached.

        For a stage that reads only a sample of the records, this is the number of sampled elements.
        """
        if stage in self.side:
            return self.side[stage][0]
        return self.kept.get(stage, 0) + sum(self.counts.rejected.get(stage, {}).values())

    def passed(self, stage: str) -> int:
        """Return how many records the stage (step of the pipeline) with the name ``stage`` passed on; 0 for a stage
        that no record reached.

        For a stage that reads only a sample of the records, this is the number of sampled elements for which it has a
        result.
        """
        return self.side[stage][1] if stage in self.side else self.kept.get(stage, 0)


def figures_of(job: Job, samples: frozenset[str]) -> RunCounts:
    """Read the files of a finished Beam job, and return its counts of records and its usage (calls, tokens, cost).

    ``job`` is the outcome of the job: its folder and a description of its files. ``samples`` are the names of the
    stages that read only a sample of the records.
    """
    with (
        tempfile.TemporaryDirectory(prefix="sums-", dir=job.folder) as scratch,
        duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": scratch}) as db,
    ):
        shards = [path for entry in ("sft", "rl", "rejected") for path in job.files(entry)]
        for name, files, schema in (
            ("ends", job.ends, ENDS_SCHEMA),
            ("records", job.records, READ_SCHEMA),
            ("rejections", job.files("rejected"), _REASONS),
            ("ids", shards, _IDS),
        ):
            add_view(db, name, files, schema, Path(scratch))
        add_table(db, "side", _side_table(job), Path(scratch))
        db.execute("CREATE TABLE samples (stage VARCHAR)")
        if samples:
            db.executemany("INSERT INTO samples VALUES (?)", [(name,) for name in sorted(samples)])
        db.execute(_CALLS)
        rejected: dict[str, dict[str, int]] = {}
        for stage, reason, rows in db.execute(_REJECTED).fetchall():
            rejected.setdefault(stage, {})[reason] = rows
        read = _number(db, "SELECT count(DISTINCT number) FROM records")
        sft, rl = (sum(entry.rows for entry in job.shards if entry.set == name) for name in ("sft", "rl"))
        side = _side_counts(job)
        labels: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        for scorer, first, second, number in db.execute(_LABELS).fetchall():
            labels[scorer][first, second] = number
        answered: dict[str, dict[str, int]] = defaultdict(dict)
        for role, model, replies in db.execute(_ANSWERED).fetchall():
            answered[role][model] = replies
        refused = any(BUDGET in reasons for reasons in rejected.values())
        return RunCounts(
            Counts(read, sft, rl, rejected),
            dict(db.execute(_KEPT).fetchall()),
            side,
            _asked(db),
            dict(answered),
            dict(db.execute(_TAKEN_OVER).fetchall()),
            dict(labels),
            refused or any(each["reason"] == BUDGET for each in job.side),
            _forecast(db),
            _unbalanced(db, read),
            {(role, stage): tuple(numbers) for role, stage, *numbers in db.execute(_TRUNCATED).fetchall()},
        )


# A final outcome has the record's id, or, if several records have the same id, id and number; see _unbalanced.
_KEPT = "SELECT stage, count(*) FROM (SELECT unnest(passed) AS stage FROM ends) GROUP BY 1 ORDER BY 1"
_REJECTED = "SELECT stage, reason, count(*) FROM rejections GROUP BY 1, 2 ORDER BY 1, 2"
_LABELS = """
SELECT l.scorer, l.first, l.second, count(*) FROM (SELECT unnest(labels) AS l FROM ends)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
# Drafts carry the calls of sample stages too; these count once, from the table ``side``.
_CALLS = """
CREATE TEMP VIEW calls AS
SELECT c.* FROM (SELECT unnest(calls) AS c FROM ends) WHERE c.stage NOT IN (SELECT stage FROM samples)
UNION ALL SELECT c.* FROM (SELECT unnest(calls) AS c FROM side)
"""
_ASKED = "SELECT role, stage, count(*), sum(repairs), sum(len(keys)) FROM calls GROUP BY 1, 2 ORDER BY 1, 2"
# Exact sums: floating-point ones would differ with the order in which threads add.
_WORTH = """
WITH replies AS (
    SELECT role, stage, unnest(keys) AS key, unnest(worth_usd) AS usd FROM calls WHERE len(worth_usd) > 0
), distinct_replies AS (
    SELECT min({'role': role, 'stage': stage}) AS caller, max(usd) AS usd FROM replies GROUP BY key
)
SELECT caller.role, caller.stage, sum(usd::DECIMAL(38, 12))::DOUBLE FROM distinct_replies GROUP BY 1, 2
"""
_ANSWERED = """
WITH replies AS (
    SELECT role, unnest(keys) AS key, unnest(answered_by) AS model FROM calls WHERE len(answered_by) > 0
), named AS (SELECT min(role) AS role, min(model) AS model FROM replies WHERE model != '' GROUP BY key)
SELECT role, model, count(*) FROM named GROUP BY 1, 2 ORDER BY 3 DESC, 2
"""
_TAKEN_OVER = """
WITH replies AS (SELECT unnest(keys) AS key, unnest(taken_from) AS run FROM calls WHERE len(taken_from) > 0),
named AS (SELECT min(run) AS run FROM replies WHERE run != '' GROUP BY key)
SELECT run, count(*) FROM named GROUP BY 1 ORDER BY 2 DESC, 1
"""
# A truncated reply that was requested again with more tokens is complete: another call with the same key has it.
_TRUNCATED = """
WITH found AS (
    SELECT role, stage, key, bool_and(list_contains(truncated, key)) AS is_truncated, max(max_tokens) AS max_tokens
    FROM (SELECT role, stage, unnest(keys) AS key, truncated, max_tokens FROM calls)
    WHERE (role, stage) IN (SELECT (role, stage) FROM calls WHERE len(truncated) > 0) GROUP BY ALL
)
SELECT role, stage, count(*), count(*) FILTER (is_truncated), max(max_tokens) FILTER (is_truncated)
FROM found GROUP BY 1, 2 HAVING bool_or(is_truncated) ORDER BY 1, 2
"""
_FORECAST = """
WITH own AS (
    SELECT id, count(c.role) AS calls, coalesce(sum(list_sum(c.worth_usd)::DECIMAL(38, 12)), 0)::DOUBLE AS usd
    FROM (SELECT id, unnest(calls) AS c FROM ends) WHERE c.stage NOT IN (SELECT stage FROM samples) GROUP BY id
)
SELECT (SELECT count(*) FROM ends), coalesce(sum(calls), 0), coalesce(sum(calls * calls), 0),
    coalesce(sum(usd::DECIMAL(38, 12)), 0)::DOUBLE, coalesce(sum((usd * usd)::DECIMAL(38, 12)), 0)::DOUBLE FROM own
"""
_READ = "CREATE TEMP TABLE read AS SELECT DISTINCT number, id FROM records"
_NAMES = """
CREATE TEMP TABLE names AS
SELECT id, id AS name FROM read UNION SELECT id, id || '#' || number FROM read
WHERE id IN (SELECT id FROM read GROUP BY id HAVING count(*) > 1)
"""
_LOST = """
SELECT r.id FROM (SELECT id, count(*) AS records FROM read GROUP BY id) r
LEFT JOIN (SELECT n.id, count(*) AS ends FROM names n JOIN ids e ON e.id = n.name GROUP BY n.id) f ON f.id = r.id
WHERE coalesce(f.ends, 0) < r.records ORDER BY 1
"""
_UNKNOWN = "SELECT id FROM ids WHERE id NOT IN (SELECT name FROM names) ORDER BY 1"
_TWICE = "SELECT id FROM ids GROUP BY id HAVING count(*) > 1 ORDER BY 1"


def _number(db: duckdb.DuckDBPyConnection, query: str) -> int:
    found = db.execute(query).fetchone()
    assert found is not None
    return int(found[0] or 0)


def _side_table(job: Job) -> pa.Table:
    rows = [{"id": each["id"], "passed": [], "calls": each["calls"], "labels": []} for each in job.side]
    return pa.Table.from_pylist(rows, ENDS_SCHEMA)


def _side_counts(job: Job) -> dict[str, tuple[int, int]]:
    seen, failed = Counter(each["stage"] for each in job.side), Counter[str]()
    failed.update(each["stage"] for each in job.side if each["reason"])
    return {stage: (number, number - failed[stage]) for stage, number in sorted(seen.items())}


def _asked(db: duckdb.DuckDBPyConnection) -> dict[RoleStage, Usage]:
    asked = {
        (role, stage): Usage(calls=calls, repairs=int(repairs), cached=int(samples))
        for role, stage, calls, repairs, samples in db.execute(_ASKED).fetchall()
    }
    for role, stage, usd in db.execute(_WORTH).fetchall():
        asked[role, stage] += Usage(worth_usd=usd)
    return asked


def _forecast(db: duckdb.DuckDBPyConnection) -> dict[str, float]:
    names = ("records", "calls", "calls_squared", "worth_usd", "worth_usd_squared")
    found = db.execute(_FORECAST).fetchone()
    assert found is not None
    return {name: float(value) if "usd" in name else int(value) for name, value in zip(names, found, strict=True)}


def _unbalanced(db: duckdb.DuckDBPyConnection, read: int) -> str:
    """Return a text on the differences between the ids that were read and those in the outputs; "" if there are none.

    ``read`` is the number of records that were read. The outputs are shards (Parquet files of rows). A row has the
    record's id. If several records have the same id, only one of their rows has this id. The other rows have the id,
    followed by ``#`` and the record's number.
    """
    db.execute(_READ)
    db.execute(_NAMES)
    ends = _number(db, "SELECT count(*) FROM ids")
    lost, unknown, twice = (_ids(db, query) for query in (_LOST, _UNKNOWN, _TWICE))
    if read == ends and not (lost or unknown or twice):
        return ""
    problems = (("lost", lost), ("never read", unknown), ("written twice", twice))
    message = "; ".join(f"{what}: {', '.join(ids)}" for what, ids in problems if ids)
    return f"{read} records were read, but {ends} were written{f' ({message})' if message else ''}"


def _ids(db: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    """Return the first ids in the result of the SQL query ``query``, and "…" if there are more."""
    found = [row[0] for row in db.execute(f"{query} LIMIT {MAX_NAMED + 1}").fetchall()]
    return [*map(repr, found[:MAX_NAMED]), *(["…"] if len(found) > MAX_NAMED else [])]


def ledger(asked: Mapping[RoleStage, Usage], paid: Iterable[Paid]) -> dict[str, RoleLedger]:
    """Return the usage of a run's calls (requests, tokens, cost), by role (such as teacher) and stage (pipeline step).

    ``asked`` is :attr:`RunCounts.asked`: the number of calls, and their cost without the cache. ``paid`` are the notes
    that the run's processes wrote on their requests and payments, one note for each request. A reply is counted as
    cached if no request of this run returned it.
    """
    sent: dict[RoleStage, Usage] = defaultdict(lambda: NOTHING)
    replies: Counter[RoleStage] = Counter()
    for each in paid:
        key = each.role, each.stage
        sent[key] += Usage(**{name: getattr(each, name) for name in PAID_FIELDS})
        replies[key] += each.replies
    stages: dict[str, dict[str, Usage]] = {}
    for role, stage in sorted({*asked, *sent}):
        recorded = asked.get((role, stage), NOTHING)
        cached = max(0, recorded.cached - replies[role, stage])
        stages.setdefault(role, {})[stage] = replace(recorded, cached=cached) + sent[role, stage]
    return {role: RoleLedger(found) for role, found in stages.items()}


def agreements(labels: Mapping[str, Mapping[tuple[str, str], int]]) -> dict[str, dict[str, Any]]:
    """Return how well two judges agree, for each scorer (code that makes one verdict). The result is empty if the run
    had only one judge.

    ``labels`` is :attr:`RunCounts.labels`. For each scorer, it maps a pair of labels to the number of its occurrences.
    A pair holds the labels that the two judges gave to the same reasoning: ``yes``, ``no`` or ``unscored``. Each value
    of the result holds the fields of :class:`groundtrace.rewards.agreement.Agreement` (such as Cohen's κ) as a dict.
    """
    found: dict[str, dict[str, Any]] = {}
    for scorer, pairs in sorted(labels.items()):
        both: Sequence[tuple[str | None, ...]] = [
            tuple(None if label == UNSCORED else label for label in pair)
            for pair, number in sorted(pairs.items())
            for _ in range(number)
        ]
        found[scorer] = asdict(agreement([first for first, _ in both], [second for _, second in both]))
    return found
