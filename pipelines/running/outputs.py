"""Writing a run's ends: from what a DAG returns to the shards and artifacts in the staging folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from pipelines.running.forecast import NAMESPACE
from schemas.arrow import REJECTED_SCHEMA, rl_schema, sft_schema
from schemas.records import Draft, Rejected
from stages.ingest_records import MediaRoots
from stages.plumbing.recipe import Ends
from stages.plumbing.rows import Row, RowContext, rejected_row, rl_row, sft_row
from stages.write_shards import ShardSettings, ShardTarget, SizedRow, WriteShards, size_row


def write_ends(
    ends: Ends,
    shared: RowContext,
    staging: Path,
    roots: MediaRoots,
    write: ShardSettings,
    run_prompts: frozenset[str] | None,
) -> None:
    """Write the sets of shards that the recipe has, and its artifacts.

    ``run_prompts`` not None counts what each record's calls took (a preview); those with these prompts are the run's.
    """
    rejected: Any = ends.rejected | "AllRejected" >> beam.Flatten()
    sides: list[tuple[str, PCollection, Callable[..., Row], Any]] = [
        (name, drafts, as_row, schema)
        for name, drafts, as_row, schema in (
            ("sft", ends.sft, sft_row, sft_schema(shared.extra_scores, shared.other_traces)),
            ("rl", ends.rl, rl_row, rl_schema(shared.extra_scores)),
        )
        if drafts is not None
    ]
    if run_prompts is not None:
        for name, found in (*((name, drafts) for name, drafts, _, _ in sides), ("rejected", rejected)):
            _ = found | f"Measure{name.capitalize()}" >> beam.Map(_measure, run_prompts)
    for name, drafts, as_row, schema in sides:
        rows: Any = drafts | f"{name.capitalize()}Rows" >> beam.Map(_sized, as_row, shared)
        _write(rows, name, schema, staging, roots, write)
    rejected_rows: Any = rejected | "RejectedRows" >> beam.Map(_rejected_row, shared)
    _write(rejected_rows, "rejected", REJECTED_SCHEMA, staging, roots, write)
    for name, text in ends.artifacts.items():
        _ = text | f"Write:{name}" >> beam.Map(_write_text, str(staging / name))


def _write(rows: PCollection, name: str, schema: Any, staging: Path, roots: MediaRoots, write: ShardSettings) -> None:
    (staging / name).mkdir()
    _ = rows | f"Write{name.capitalize()}" >> WriteShards(ShardTarget(str(staging / name), schema, roots), write)


def _write_text(text: str, path: str) -> None:
    Path(path).write_text(text, "utf-8")


def _sized(draft: Draft, as_row: Callable[[Draft, RowContext], Row], shared: RowContext) -> SizedRow:
    return size_row(as_row(draft, shared), _media_bytes(draft))


def _measure(end: Draft | Rejected, run_prompts: frozenset[str]) -> None:
    """Count the record's calls and their worth, and the squares of both; calls made for the run are no record's.

    A counter holds 64 bits: enough for the squares of a preview, not of a large run.
    """
    if isinstance(end, Rejected):
        calls, worth_usd = end.calls, end.worth_usd
    else:
        own = [call for call in end.calls if call.prompt.split("+")[0] not in run_prompts]
        calls, worth_usd = len(own), sum(call.usage.worth_usd for call in own)
    microusd = round(worth_usd * 1_000_000)
    values = {"calls": calls, "calls_squared": calls**2, "worth_usd": microusd, "worth_usd_squared": microusd**2}
    for name, value in ({"records": 1} | values).items():
        Metrics.counter(NAMESPACE, name).inc(value)


def _rejected_row(rejected: Rejected, shared: RowContext) -> SizedRow:
    draft = rejected.draft if shared.rejected_images else None
    return size_row(rejected_row(rejected, shared), 0 if draft is None else _media_bytes(draft))


def _media_bytes(draft: Draft) -> int:
    """What a row's media take: the originals' files and what was drawn over them."""
    images = [image for medium in draft.question.media for image in medium.frames or (medium,)]
    return sum(image.size_bytes for image in (*images, *draft.overlays))
