"""Defines the table of final outcomes (``ends``), which has one row for each record of the run.

A row holds the names of the stages that the record passed, and the calls made for the record. Each shard (Parquet file
of rows) has its own table, which is written once. Three results of the run are sums over the rows of these tables: the
funnel (records left after each stage), the ledger (calls and costs) and the agreement of judges. The live counts of
stages (:mod:`groundtrace.stages.plumbing.metrics`) are not used for these results. The live counts may be too large or
too small, because runners may repeat work and lose workers.
"""

from typing import Any, TypedDict

import pyarrow as pa

from groundtrace.rewards.second_judge import labels_of
from groundtrace.schemas.coding import record
from groundtrace.schemas.records import Call, Draft, Rejected

KEY_CHARS = 32
"""The number of hexadecimal digits of a reply's cache key that the table holds; the rest of the key is cut off.

32 digits (128 bits) are enough to distinguish the replies of any run.
"""

_CALL = pa.struct(
    [
        ("role", pa.string()),
        ("stage", pa.string()),
        ("repairs", pa.int32()),
        ("keys", pa.list_(pa.string())),
        ("worth_usd", pa.list_(pa.float64())),
        ("answered_by", pa.list_(pa.string())),
        ("taken_from", pa.list_(pa.string())),
        ("truncated", pa.list_(pa.string())),
        ("max_tokens", pa.int32()),
    ]
)
_LABELS = pa.struct([("scorer", pa.string()), ("first", pa.string()), ("second", pa.string())])
ENDS_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("passed", pa.list_(pa.string())),
        ("calls", pa.list_(_CALL)),
        ("labels", pa.list_(_LABELS)),
    ]
)
"""The columns of the table of final outcomes, which has one row for each record.

``passed`` lists the stages that the record passed. ``calls`` lists its model calls, whose fields have the meaning that
:class:`groundtrace.schemas.records.Call` describes. ``keys`` holds the cache keys of a call's replies, one for each
reply. ``worth_usd``, ``answered_by`` and ``taken_from`` also have one value for each reply. ``worth_usd`` is empty if
all its values are 0, and the other two are empty if all their values are "". ``labels`` are the labels that two judges
gave to the same trace.
"""
READ_SCHEMA = pa.schema([("number", pa.int64()), ("id", pa.string())])
"""The columns of the list of records read: each row has a record's number in the input, and its id."""


class EndData(TypedDict):
    """Holds the row of one record in the table of final outcomes (:data:`ENDS_SCHEMA`), without the column ``id``.

    ``passed`` lists the stages (steps of the pipeline) that the record passed. ``calls`` lists the model calls that
    were made for the record. ``labels`` has an entry for each verdict that two judges gave on the same trace
    (response of the teacher). The entry holds the name of the ``scorer`` (the code that called the judges), and the
    labels of the ``first`` and of the ``second`` judge. A label is "yes", "no" or "unscored".
    """

    passed: list[str]
    calls: list[dict[str, Any]]
    labels: list[dict[str, str]]


@record
class SideCalls:
    """Holds the model calls that a sample stage (a step of the pipeline) made for one element of its sample.

    A sample stage reads some of the records and passes none on. So its calls belong to the run and not to a record.
    ``id`` is the id of the element, and ``stage`` is the name of the stage. ``reason`` is the reason why the element
    failed; it is "" if the element did not fail.
    """

    id: str
    stage: str
    reason: str
    calls: tuple[Call, ...]


def end_data(end: Draft | Rejected) -> EndData:
    """Return the row of a record in the table of final outcomes, without the id.

    ``end`` is the last state of the record: a rejection, or the draft (a question with its data) that is written as an
    SFT or RL row.
    """
    draft = end.draft if isinstance(end, Rejected) else end
    traces = () if draft is None else draft.traces
    labels = ((verdict.name, labels_of(verdict)) for trace in traces for verdict in trace.verdicts)
    return EndData(
        passed=[] if draft is None else list(draft.passed),
        calls=[call_row(call) for call in end.calls],
        labels=[{"scorer": name, "first": pair[0], "second": pair[1]} for name, pair in labels if pair is not None],
    )


def call_row(call: Call) -> dict[str, Any]:
    """Return a model call as an entry of the column ``calls`` in the table of final outcomes, which has one row for
    each record of the input. Cache keys are shortened.
    """
    return {
        "role": call.role,
        "stage": call.stage,
        "repairs": call.usage.repairs,
        "keys": [key[:KEY_CHARS] for key in call.keys],
        "worth_usd": list(call.worth_usd),
        "answered_by": list(call.answered_by),
        "taken_from": list(call.taken_from),
        "truncated": [key[:KEY_CHARS] for key in call.truncated],
        "max_tokens": call.max_tokens,
    }
