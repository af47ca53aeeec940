"""Computes the numbers about a finished run that the report, the data card and ``beam inspect`` show.

These are the numbers of records that each stage (step of the pipeline) read and kept, the rejections, the pass rates,
and the calls of models with their costs. A pass rate is the share of a policy's attempts at a question that are
correct. Pass rates are counted in the shards with DuckDB. All other numbers come from ``run.json``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from groundtrace.inference.settings import ROLES
from groundtrace.schemas.run_summary import RoleLedger, RunSummary, StageFigures
from groundtrace.schemas.text import counted
from groundtrace.schemas.usage import Usage
from groundtrace.storage.views import quoted_name

_MAX_RATES = 11
CALLS_NOTE = (
    "A call may ask for several replies. Requests were sent to an endpoint, and cached are the replies that came from "
    "the cache."
)
"""Explains the numbers of calls, requests and cached replies of a role, which do not add up."""


@dataclass(frozen=True)
class StageFlow:
    """Holds how many records one stage (step of the pipeline) of a run read, kept and rejected.

    Attributes:
        name: the name of the stage.
        does: a description of the stage; "" in runs of older versions.
        read, kept, rejected: the numbers of records.
        side: True for a sample stage: a stage that reads only a sample of the records, and passes none of them on. In
            this case, ``kept`` is the number of records that were read and not rejected.
        for_target: True if the stage acts only in runs with a target number of rows.
    """

    name: str
    does: str
    read: int
    kept: int
    rejected: int
    side: bool
    for_target: bool


@dataclass(frozen=True)
class Rejection:
    """Holds how many records one stage (step of the pipeline) rejected for one reason.

    ``reason`` is the short name of the reason, such as ``too_hard``, and ``meaning`` explains it ("" if it is unknown).
    ``rows`` is the number of records. Each rejected record may have a detail, a text about why this record was
    rejected. ``detail`` is the most frequent of these texts; "" if there is none.
    """

    stage: str
    reason: str
    rows: int
    meaning: str
    detail: str = ""


@dataclass(frozen=True)
class PassRateBar:
    """Holds one bar of the histogram of pass rates.

    A pass rate is the share of correct attempts among all attempts of the policy (the model to train) at a question.
    ``label`` is a single rate such as "0.25", or an interval such as "0.1–0.2". ``sft`` and ``rl`` are the numbers of
    rows in the training sets sft and rl whose pass rate equals this rate or lies in this interval. For these bars,
    ``rejected`` is 0. The first bar (label "too hard") and the last bar (label "too easy") are different: ``rejected``
    is the number of records that were rejected as too hard or as too easy, and ``sft`` and ``rl`` are 0.
    """

    label: str
    sft: int
    rl: int
    rejected: int


@dataclass(frozen=True)
class ScoreBars:
    """Holds the histogram of one score of the SFT rows, such as ``spatial`` (whether points are on the objects that
    they name).

    ``rows`` holds the number of rows in each of ten bars of equal width from 0 to 1. ``unscored`` is the number of rows
    without a value.
    """

    name: str
    rows: tuple[int, ...]
    unscored: int


@dataclass(frozen=True)
class RoleCost:
    """Holds how often the model of one role was called, and what the calls cost by the prices in the config.

    ``role`` is the job of a model, such as teacher or judge. ``model`` is the name of the model that does this job; ""
    if the name is unknown. ``usage`` holds the numbers of calls and tokens, and the cost.
    """

    role: str
    model: str
    usage: Usage


def shown_flows(summary: RunSummary) -> list[StageFlow]:
    """Return the stages (steps of the pipeline) to show, with their numbers of read, kept and rejected records.

    ``summary`` is the content of ``run.json``. The stages have the order in which the pipeline runs them. Some stages
    act only if the user asked for a target number of rows; they are omitted in a run without such a target.
    """
    return [flow for flow in funnel(summary) if summary.target is not None or not flow.for_target]


def funnel(summary: RunSummary) -> list[StageFlow]:
    """Return each stage of a run with the numbers of records that it read, kept and rejected.

    ``summary`` is the content of ``run.json``. The stages (steps of the pipeline) have the order in which the pipeline
    runs them. ``run.json`` of an older version does not hold this order; the stages are then sorted by the number of
    records that they read, the largest first.
    """
    counts, stages = summary.counts.rejected, summary.stages
    flows = []
    for name in dict.fromkeys([*stages, *counts]):
        figures, rejected = stages.get(name, StageFigures(0, 0)), sum(counts.get(name, {}).values())
        flows.append(
            StageFlow(name, figures.does, figures.read, figures.kept, rejected, figures.is_sample, figures.for_target)
        )
    return flows if any(flow.does for flow in flows) else sorted(flows, key=lambda flow: (-flow.read, flow.name))


def rejections(summary: RunSummary) -> list[Rejection]:
    """Return how many records each stage (step of the pipeline) rejected for each reason.

    ``summary`` is the content of ``run.json``. The stages have the order in which the pipeline runs them. Within a
    stage, the most frequent reason comes first.
    """
    found = [
        Rejection(
            stage,
            reason,
            rows,
            summary.stages.get(stage, StageFigures(0, 0)).reasons.get(reason, ""),
            summary.details.get(stage, {}).get(reason, ""),
        )
        for stage, reasons in summary.counts.rejected.items()
        for reason, rows in reasons.items()
    ]
    order = [flow.name for flow in funnel(summary)]
    return sorted(found, key=lambda entry: (order.index(entry.stage), -entry.rows, entry.reason))


def pass_rates(connection: duckdb.DuckDBPyConnection, summary: RunSummary) -> list[PassRateBar]:
    """Return the histogram of the pass rates of a run's SFT and RL rows.

    A pass rate is the share of the policy's attempts at a question that were correct. ``connection`` is a database with
    the views sft and rl, and ``summary`` is the content of ``run.json``. Each different rate has its own bar. If the
    rows have more than eleven different rates, each interval of width 0.1 has a bar instead. An additional first bar
    counts the records that were rejected as too hard. An additional last bar counts the records that were rejected as
    too easy. The result is empty if no row has a pass rate and no record was rejected for these reasons.
    """
    query = f"""
        WITH rates AS (SELECT 'sft' AS side, pass_rate FROM sft UNION ALL SELECT 'rl', pass_rate FROM rl),
             tenths AS (SELECT *, least(floor(pass_rate * 10 + 1e-9), 9) / 10 AS tenth FROM rates),
             few AS (SELECT count(DISTINCT pass_rate) <= {_MAX_RATES} AS yes FROM rates)
        SELECT if(yes, printf('%.2f', pass_rate), printf('%.1f–%.1f', tenth, tenth + 0.1)) AS label,
               count(*) FILTER (side = 'sft'), count(*) FILTER (side = 'rl')
        FROM tenths, few WHERE pass_rate IS NOT NULL GROUP BY label ORDER BY label"""
    bars = [PassRateBar(label, sft, rl, 0) for label, sft, rl in connection.execute(query).fetchall()]
    rejected = summary.counts.by_reason
    too_hard, too_easy = rejected["too_hard"], rejected["too_easy"]
    if not bars and not too_hard and not too_easy:
        return []
    return [PassRateBar("too hard", 0, 0, too_hard), *bars, PassRateBar("too easy", 0, 0, too_easy)]


def score_bars(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> list[ScoreBars]:
    """Return the histograms of the scores of the SFT rows; scores that no row has are left out.

    ``connection`` is a database with the view sft. ``names`` are the names of the scores, which are fields of the
    column ``scores`` of this view.
    """
    found = []
    for name in names:
        score = f"scores.{quoted_name(name)}"
        tenth = f"least(greatest(floor({score} * 10 + 1e-9), 0), 9)::INT"  # both functions ignore a null
        query = f"SELECT CASE WHEN isfinite({score}) THEN {tenth} END, count(*) FROM sft GROUP BY 1"
        rows = dict(connection.execute(query).fetchall())
        unscored = rows.pop(None, 0)
        if rows:
            found.append(ScoreBars(name, tuple(rows.get(tenth, 0) for tenth in range(10)), unscored))
    return found


def role_costs(summary: RunSummary) -> list[RoleCost]:
    """Return the numbers of calls and the costs of each role. A role is a job of a model, such as teacher.

    ``summary`` is the content of ``run.json``. A role whose model was never called gets zeros.
    """
    ledger, models = summary.ledger, summary.roles
    names = [role for role in ROLES if role in {*ledger, *models}]
    names += sorted(set(ledger) - set(names))
    return [RoleCost(role, models.get(role, ""), ledger.get(role, RoleLedger({})).usage) for role in names]


def truncations(summary: RunSummary) -> list[str]:
    """Return lines of text about replies of models that were truncated at the limit of tokens; empty if there are none.

    ``summary`` is the content of ``run.json``. There is one line for each role (a model's job, such as teacher) in each
    stage (step of the pipeline). Each line states the number of truncated replies, and which settings to raise so that
    replies may be longer.
    """
    return [
        f"truncated: {cut.truncated} of {counted(cut.replies, 'reply', 'replies')} of the {role} in {stage}, asked for "
        f"with up to {cut.max_tokens} tokens: raise {' or '.join(cut.settings)}, or the server's own limit if lower"
        for role, stages in summary.truncated.items()
        for stage, cut in stages.items()
    ]
