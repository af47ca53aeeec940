"""Writes the outputs of a recipe (a pipeline of steps, called stages) into the files of its Beam job. The main process
then checks and moves these files.

JOB is the folder of the job:
JOB/<set>/ holds the shards (files of rows) of the set ``sft``, ``rl`` or ``rejected``, each under a unique name.
JOB/ends/ holds one table for each shard: a list of the shard's records (:mod:`groundtrace.stages.plumbing.ends`).
JOB/records/ holds the number (line or row in the input) and the id of each record that was read.
JOB/manifest-* is written when all of these are complete. It holds an entry for each shard, the artifacts (further files
of the run), and the model calls of sample stages. A sample stage reads some of the records and passes none on, so its
calls belong to no row.
"""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from groundtrace.pipelines.running.plan.wiring import WiredPipeline
from groundtrace.schemas.arrow import rejected_schema, rl_schema, sft_schema
from groundtrace.schemas.records import Draft, Rejected
from groundtrace.stages.plumbing.ends import READ_SCHEMA, SideCalls, end_data
from groundtrace.stages.plumbing.rows import Row, RowContext, rejected_row, rl_row, sft_row
from groundtrace.stages.plumbing.shard_files import (
    RECORDS,
    artifact_line,
    attempt_name,
    side_line,
    write_manifest,
    write_table,
)
from groundtrace.stages.plumbing.sized_rows import SizedRow, size_row
from groundtrace.stages.write_shards import ShardSettings, ShardTarget, WriteShards
from groundtrace.storage.places import Place, place
from groundtrace.vision.media import MediaRoots

RECORDS_AT_ONCE = 50_000


def write_ends(
    wired: WiredPipeline,
    shared: RowContext,
    job: str,
    roots: MediaRoots,
    write: ShardSettings,
) -> None:
    """Add the transforms to a Beam pipeline that write all outputs of a recipe into the folder of a job.

    A list of the written files (the manifest) is written last.

    Args:
        wired: The recipe's stages (steps) on the Beam pipeline, with their outputs: SFT rows, RL rows, rejected
            records.
        shared: The data that all rows share, such as the recipe's name.
        job: The path or URL of the folder.
        roots: The folders of the images and clips, and the settings of an object store.
        write: The settings of the files of rows.
    """
    ends, folder = wired.ends, place(job, roots.storage)
    rejected: Any = wired.rejected | "AllRejected" >> beam.Flatten()
    for number, read in enumerate(wired.read):
        _ = read | f"NoteRecords{number or ''}" >> beam.ParDo(_NoteRecords(folder / RECORDS))
    sides: list[tuple[str, PCollection, Callable[..., Row], Any]] = [
        (name, drafts, as_row, schema)
        for name, drafts, as_row, schema in (
            ("sft", ends.sft, sft_row, sft_schema(shared.added.get("sft", ()), shared.other_traces)),
            ("rl", ends.rl, rl_row, rl_schema(shared.added.get("rl", ()))),
        )
        if drafts is not None
    ]
    rows: dict[str, Any] = {
        name: drafts | f"{name.capitalize()}Rows" >> beam.Map(_sized, as_row, shared)
        for name, drafts, as_row, _ in sides
    }
    rows["rejected"] = rejected | "RejectedRows" >> beam.Map(_rejected_row, shared)
    schemas = {name: schema for name, _, _, schema in sides}
    schemas["rejected"] = rejected_schema(shared.added.get("rejected", ()))
    targets = {name: ShardTarget(job, schema, roots) for name, schema in schemas.items()}
    lines: list[Any] = [rows | "WriteShards" >> WriteShards(targets, write)]
    for name, text in ends.artifacts.items():
        lines.append(text | f"Artifact:{name}" >> beam.Map(_artifact, name).with_output_types(str))
    for number, calls in enumerate(wired.side_calls):
        lines.append(calls | f"SideLines{number}" >> beam.Map(_side).with_output_types(str))
    keyed: Any = lines | "Lines" >> beam.Flatten() | "Keyed" >> beam.Map(_keyed).with_output_types(tuple[str, str])
    _ = keyed | "AllLines" >> beam.GroupByKey() | "WriteManifest" >> beam.Map(_manifest, folder)


class _NoteRecords(beam.DoFn):
    """Writes the number (line or row in the input) and the id of each record that was read.

    If a runner reads a record twice, the record is written twice.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder

    def start_bundle(self) -> None:
        self._read: list[tuple[int, str]] = []

    def process(self, record: tuple[int, str]) -> None:
        """Store the number (line or row in the input) and the id of a record that was read.

        They are collected in a list, which is written to a Parquet file when it is long enough, and at the end of the
        bundle (Beam's unit of work).
        """
        self._read.append(record)
        if len(self._read) >= RECORDS_AT_ONCE:
            self._write()

    def finish_bundle(self) -> None:
        self._write()

    def _write(self) -> None:
        if self._read:
            numbers, ids = zip(*self._read, strict=True)
            table = pa.Table.from_arrays([pa.array(numbers), pa.array(ids)], schema=READ_SCHEMA)
            write_table(self._folder / attempt_name("read.parquet"), table)
        self._read = []


def _artifact(text: str, name: str) -> str:
    return artifact_line(name, text)


def _side(calls: SideCalls) -> str:
    return side_line(calls)


def _keyed(line: str) -> tuple[str, str]:
    return "manifest", line


def _manifest(keyed: tuple[str, Iterable[str]], job: Place) -> str:
    return write_manifest(job, list(keyed[1]))


def _sized(draft: Draft, as_row: Callable[[Draft, RowContext], Row], shared: RowContext) -> SizedRow:
    return size_row(as_row(draft, shared), _media_bytes(draft), end_data(draft))


def _rejected_row(rejected: Rejected, shared: RowContext) -> SizedRow:
    draft = rejected.draft if shared.rejected_images else None
    media_bytes = 0 if draft is None else _media_bytes(draft)
    return size_row(rejected_row(rejected, shared), media_bytes, end_data(rejected))


def _media_bytes(draft: Draft) -> int:
    """Return the size in bytes of the images of a row: the question's images or frames, and the overlays.

    Overlays are images that stages made from the originals, for example by drawing points on them.
    """
    images = [image for medium in draft.question.media for image in medium.frames or (medium,)]
    return sum(image.size_bytes for image in (*images, *draft.overlays))
