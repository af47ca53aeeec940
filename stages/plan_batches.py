"""Makes the batch plan: the share of a batch's prompts that come from RL rows with two streams (iVGR App. B).

A stream is a way to answer a question: grounded (reasoning with boxes) or textual (in words alone). The inputs are
drafts (questions with their data) that become RL rows. The output is the text of ``batch_plan.json``, which the
trainer's sampler reads:

    {"parts": [{"streams": ["grounded", "textual"], "share": 0.9, "rows": 37000},
               {"streams": ["textual"], "share": 0.1, "rows": 14000}]}

A part consists of the RL rows with the same streams. ``share`` is the share of a batch's prompts that come from this
part. A row gives one prompt for each of its streams. For example, the first part of a batch of 100 prompts has 90
prompts. They come from 45 rows, each with two prompts. If a part has no rows, its share goes to the other part, so that
a batch is always full. ``rows`` is the number of rows to draw from; the shares do not depend on it.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from pydantic import Field

from groundtrace.config.settings import settings
from groundtrace.rewards.streams import STREAMS
from groundtrace.schemas.records import Draft
from groundtrace.stages.route_by_boxes import BOTH, TEXTUAL_ONLY

Streams = tuple[str, ...]


@settings
class BatchPlanSettings:
    """Holds the share of a batch's prompts that belong to questions with two streams. The other prompts belong to
    questions with one stream. A stream is a way of answering: with boxes, or in words alone.
    """

    dual_share: Annotated[
        float,
        Field(gt=0, lt=1),
        "the share of a batch's prompts that belong to questions with two streams; both prompts count",
    ] = 0.9


def batch_plan(rows: Mapping[Streams, int], settings: BatchPlanSettings) -> str:
    """Return the batch plan as JSON text: which share of a batch's prompts comes from which RL rows.

    A stream is a way of answering: with boxes (grounded) or in words alone (textual). ``rows`` maps each set of
    streams, such as ("grounded", "textual"), to the number of RL rows with these streams. The result is a JSON object
    with the list ``parts``. Each part is an object with ``streams``, ``share`` (its share of a batch's prompts) and
    ``rows`` (its number of RL rows).
    """
    wanted = {BOTH: settings.dual_share, TEXTUAL_ONLY: 1 - settings.dual_share}
    there = {streams: share for streams, share in wanted.items() if rows.get(streams)}
    total = sum(there.values())
    parts = [
        {"streams": list(streams), "share": round(share / total, 6), "rows": rows[streams]}
        for streams, share in there.items()
    ]
    return json.dumps({"parts": parts}, indent=1) + "\n"


def _count(streams: Any) -> Counter[Streams]:
    """Return the number of rows for each combination of streams. A stream is a way to answer a question.

    An element of ``streams`` is a tuple with the names of the streams of one row. It can also be an earlier result of
    this function, because Beam's CombineGlobally counts parts of the rows first and then adds up the results.
    """
    total = Counter[Streams]()
    for each in streams:
        total.update(each if isinstance(each, Counter) else {each: 1})
    return total


def _streams(draft: Draft) -> Streams:
    return draft.added(STREAMS) or ()


@dataclass
class PlanBatches(beam.PTransform):
    """Beam transform that makes the batch plan, as one text, from all drafts (questions with their data) that become RL
    rows. The plan states which share of a training batch comes from which rows.

    The transform makes this text even if there are no drafts.
    """

    settings: BatchPlanSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """Return a collection whose only element is the text of the batch plan: which share of a training batch comes
        from which RL rows.

        ``drafts`` is the collection of the drafts (questions with their data) that become RL rows.
        """
        counted = drafts | "Streams" >> beam.Map(_streams) | "Count" >> beam.CombineGlobally(_count)
        chosen = self.settings
        return counted | "Plan" >> beam.Map(lambda rows: batch_plan(rows, chosen))
