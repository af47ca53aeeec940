"""Job folders as a DAG leaves them, made with the real writers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from groundtrace.schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA
from groundtrace.schemas.records import Call
from groundtrace.stages.plumbing.ends import READ_SCHEMA, EndData, SideCalls, call_row
from groundtrace.stages.plumbing.shard_files import (
    ENDS,
    RECORDS,
    ShardEntry,
    artifact_line,
    attempt_name,
    entry_line,
    side_line,
    write_manifest,
    write_table,
)
from groundtrace.stages.plumbing.sized_rows import size_row
from groundtrace.stages.write_shards import ShardSettings, write_shard
from groundtrace.vision.media import MediaStore

SCHEMAS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}
EndRow = tuple[Mapping[str, Any], EndData]


def end(
    row_id: str,
    passed: Sequence[str] = (),
    calls: Sequence[Call] = (),
    labels: Sequence[tuple[str, str, str]] = (),
    **row: Any,
) -> EndRow:
    """A row of a shard and what its end tells."""
    said = [{"scorer": scorer, "first": first, "second": second} for scorer, first, second in labels]
    return {"id": row_id, **row}, EndData(passed=list(passed), calls=[call_row(call) for call in calls], labels=said)


def rejection(row_id: str, stage: str, reason: str, passed: Sequence[str] = (), calls: Sequence[Call] = ()) -> EndRow:
    """The same of a rejection."""
    return end(row_id, passed, calls, stage=stage, reason=reason)


def write_job(
    folder: Path,
    read: Sequence[tuple[int, str]],
    ends: Mapping[str, Sequence[EndRow]],
    side: Sequence[SideCalls] = (),
    artifacts: Mapping[str, str] | None = None,
) -> Path:
    """Write a job: the numbers and ids of what was read, a shard for each set, and the manifest."""
    for name in (*SCHEMAS, ENDS, RECORDS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    numbers, ids = [number for number, _ in read], [row_id for _, row_id in read]
    table = pa.Table.from_arrays([pa.array(numbers, pa.int64()), pa.array(ids, pa.string())], schema=READ_SCHEMA)
    write_table(folder / RECORDS / attempt_name("read.parquet"), table)
    lines = [write_set(folder, name, ends.get(name, ())) for name in SCHEMAS]
    lines += [side_line(each) for each in side]
    lines += [artifact_line(name, text) for name, text in (artifacts or {}).items()]
    write_manifest(folder, lines)
    return folder


def write_set(folder: Path, name: str, ends: Sequence[EndRow]) -> str:
    """Write one shard with its ends; returns the line of its entry."""
    final = "train-00000-of-00001.parquet"
    file = attempt_name(final)
    rows = [size_row({**dict.fromkeys(SCHEMAS[name].names), **row}, 0, told) for row, told in ends]
    told = f"{name}-{file}"
    count, written, ids = write_shard(
        rows, folder / name / file, SCHEMAS[name], ShardSettings(), MediaStore("", ""), folder / ENDS / told
    )
    return entry_line(ShardEntry(name, final, file, told, count, written.size_bytes, written.sha256, ids))
