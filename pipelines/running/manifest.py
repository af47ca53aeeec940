"""The outcome of a job: its manifest, and the files in its folder that the manifest names.

Runners may run a part of a job twice, lose it in the middle, or report a job as done of which nothing ran. Files that a
manifest does not name are ignored.
"""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.pipelines.running.errors import JobIncomplete
from groundtrace.schemas.run_summary import FileEntry
from groundtrace.stages.plumbing.shard_files import ENDS, MANIFEST, RECORDS, ShardEntry


@dataclass(frozen=True)
class Job:
    """A finished job: its folder, its shards, its artifacts by name, and the calls for elements of samples."""

    folder: Path
    shards: tuple[ShardEntry, ...]
    artifacts: dict[str, str]
    side: tuple[dict[str, Any], ...]

    def files(self, name: str) -> list[Path]:
        """The shards of a set, under the names that they were written with."""
        return [self.folder / name / entry.file for entry in self.shards if entry.set == name]

    @property
    def ends(self) -> list[Path]:
        """The tables of ends, one file for each shard."""
        return [self.folder / ENDS / entry.ends for entry in self.shards]

    @property
    def records(self) -> list[Path]:
        """The lists of records that were read; several files may name the same record."""
        return sorted((self.folder / RECORDS).glob("*.parquet"))

    def take_over(self, staging: Path) -> dict[str, FileEntry]:
        """Move the shards and artifacts to their final names in ``staging``; returns their entries in ``run.json``."""
        told: dict[str, FileEntry] = {}
        for entry in self.shards:
            (staging / entry.set).mkdir(exist_ok=True)
            (self.folder / entry.set / entry.file).rename(staging / entry.set / entry.name)
            told[f"{entry.set}/{entry.name}"] = FileEntry(entry.size_bytes, entry.sha256, entry.rows, entry.ids_sha256)
        for name, text in self.artifacts.items():
            data = text.encode()
            (staging / name).write_bytes(data)
            told[name] = FileEntry.of(data)
        return dict(sorted(told.items()))


def read_job(folder: Path) -> Job:
    """The outcome of the job that wrote into ``folder``.

    A job whose last step ran twice has several manifests with the same content for different files: the first complete
    one counts. Raises :class:`groundtrace.pipelines.running.errors.JobIncomplete` if there is none.
    """
    wrong = "it left no manifest"
    for path in sorted(folder.glob(f"{MANIFEST}*.jsonl")):
        job = _job_of(path)
        wrong = f"{path.name} is cut short" if job is None else _missing(job)
        if job is not None and not wrong:
            return job
    raise JobIncomplete(f"the runner reports that the job is done, but {wrong}: nothing was replaced")


def jobs_in(folder: Path) -> list[Job]:
    """The jobs of all manifests in the folder that are not cut short."""
    found = (_job_of(path) for path in sorted(folder.glob(f"{MANIFEST}*.jsonl")))
    return [job for job in found if job is not None]


def _job_of(path: Path) -> Job | None:
    """The job that a manifest describes; None if it is cut short."""
    with contextlib.suppress(ValueError):
        lines = [json.loads(line) for line in path.read_text("utf-8", "surrogatepass").splitlines()]
        if lines and lines[-1] == {"lines": len(lines) - 1}:
            return Job(
                path.parent,
                tuple(ShardEntry(**line["shard"]) for line in lines if "shard" in line),
                {line["artifact"]: line["text"] for line in lines if "artifact" in line},
                tuple(line["side"] for line in lines if "side" in line),
            )
    return None


def _missing(job: Job) -> str:
    """Which file of a job's manifest is missing or incomplete; "" if all are complete."""
    for entry in job.shards:
        path = job.folder / entry.set / entry.file
        if not path.is_file() or path.stat().st_size != entry.size_bytes:
            return f"the shard {path.name} is missing or cut short"
    for path, rows in zip(job.ends, (entry.rows for entry in job.shards), strict=True):
        try:
            found = pq.read_metadata(path).num_rows
        except (OSError, pa.ArrowException):
            return f"{path.name}, which lists the records of a shard, is missing or cut short"
        if found != rows:
            return f"{path.name} lists {found} records, but its shard has {rows} rows"
    return ""
