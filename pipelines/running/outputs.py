"""Writing a run's outcome: from a DAG's ends to the shards and rubrics.json in the staging folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics

from pipelines.running.context import Outcome
from pipelines.running.forecast import NAMESPACE
from schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA
from schemas.records import Draft, Rejected
from stages.ingest_records import MediaRoots
from stages.mine_rubrics import CANDIDATES_PROMPT, MinedRubrics
from stages.plumbing.rows import Row, RowContext, rejected_row, rl_row, sft_row
from stages.write_shards import ShardSettings, ShardTarget, SizedRow, WriteShards, size_row


def write_outcome(
    outcome: Outcome, shared: RowContext, staging: Path, roots: MediaRoots, write: ShardSettings, measure: bool
) -> None:
    """Write the three sets of shards and the rubrics; ``measure`` counts what each record's calls took (a preview)."""

    def target(name: str, schema: Any) -> ShardTarget:
        (staging / name).mkdir()
        return ShardTarget(str(staging / name), schema, roots)

    if measure:
        for name, ends in (("Sft", outcome.sft), ("Rl", outcome.rl), ("Rejected", outcome.rejected)):
            _ = ends | f"Measure{name}" >> beam.Map(_measure)
    sft = outcome.sft | "SftRows" >> beam.Map(_sized, sft_row, shared)
    _ = sft | "WriteSft" >> WriteShards(target("sft", SFT_SCHEMA), write)
    rl = outcome.rl | "RlRows" >> beam.Map(_sized, rl_row, shared)
    _ = rl | "WriteRl" >> WriteShards(target("rl", RL_SCHEMA), write)
    rejected = outcome.rejected | "RejectedRows" >> beam.Map(_rejected_row)
    _ = rejected | "WriteRejected" >> WriteShards(target("rejected", REJECTED_SCHEMA), write)
    path = str(staging / "rubrics.json")
    _ = outcome.rubrics | "WriteRubrics" >> beam.Map(lambda mined: Path(path).write_text(_rubrics_json(mined), "utf-8"))


def _sized(draft: Draft, as_row: Callable[[Draft, RowContext], Row], shared: RowContext) -> SizedRow:
    return size_row(as_row(draft, shared), _media_bytes(draft))


def _measure(end: Draft | Rejected) -> None:
    """Count the record's calls and their worth, and the squares of both; calls for the run's rubrics are no record's.

    A counter holds 64 bits: enough for the squares of a preview, not of a large run.
    """
    if isinstance(end, Rejected):
        calls, worth_usd = end.calls, end.worth_usd
    else:
        own = [call for call in end.calls if not call.prompt.startswith(CANDIDATES_PROMPT)]
        calls, worth_usd = len(own), sum(call.usage.worth_usd for call in own)
    microusd = round(worth_usd * 1_000_000)
    values = {"calls": calls, "calls_squared": calls**2, "worth_usd": microusd, "worth_usd_squared": microusd**2}
    for name, value in ({"records": 1} | values).items():
        Metrics.counter(NAMESPACE, name).inc(value)


def _rejected_row(rejected: Rejected) -> SizedRow:
    return size_row(rejected_row(rejected), 0)


def _media_bytes(draft: Draft) -> int:
    """What a row's media take: the originals' files and what was drawn over them."""
    pictures = [picture for medium in draft.question.media for picture in medium.frames or (medium,)]
    return sum(picture.size_bytes for picture in (*pictures, *draft.overlays))


def _rubrics_json(mined: MinedRubrics) -> str:
    kept = {rubric.id: rubric.stratum for rubric in mined.kept}
    rows = [
        {
            "id": rubric.id,
            "description": rubric.description,
            "criteria": rubric.criteria,
            "applicability": rubric.applicability,
            "pass_rate": rubric.pass_rate,
            "kept": rubric.id in kept,
            "stratum": kept.get(rubric.id),
        }
        for rubric in mined.candidates
    ]
    return json.dumps(
        {"judged": mined.judged, "rubrics": rows, "problems": mined.problems}, indent=1, ensure_ascii=False
    )
