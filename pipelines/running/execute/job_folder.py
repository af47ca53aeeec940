"""Creates the folder into which one Beam job writes its files, and reads the outcome of the job from it.

The folder is on this machine, or in a store (remote storage such as S3) if workers on other machines write the files. A
manifest is a list of the job's files; the job writes this list after the files. The outcome consists of the files that
a manifest names; all other files are ignored. This is necessary because runners may run a part of a job twice, stop in
the middle of it, or report a job as done although nothing ran.
"""

import contextlib
import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.pipelines.running.endings import JobIncomplete
from groundtrace.pipelines.running.plan.local_run import SETS, LocalRun
from groundtrace.schemas.run_files import FileEntry
from groundtrace.stages.plumbing.shard_files import ENDS, MANIFEST, RECORDS, ShardEntry
from groundtrace.storage.listing import Stat
from groundtrace.storage.mirror import fetch
from groundtrace.storage.remote_path import RemotePath

SPOOL = "spool"
"""The name of the subfolder for data that a job moves between its steps (shuffles)."""
BROUGHT_AT_ONCE = 8
"""The number of files that are downloaded at the same time."""


@dataclass(frozen=True)
class Job:
    """Holds the outcome of a finished Beam job, which ran all stages (steps) of a pipeline.

    ``folder`` is the folder with its files. ``shards`` describes each shard (Parquet file of rows). ``artifacts`` maps
    the name of each further output, such as ``rubrics.json``, to its text. ``side`` describes the work of the stages
    that read only a sample of the records. ``side`` has one dict for each element that such a stage read, e.g. for each
    trace (response of the teacher model). The dict holds the element's id, the stage, the model calls for the element,
    and the reason if the stage failed on the element ("" if it did not fail).
    """

    folder: Path
    shards: tuple[ShardEntry, ...]
    artifacts: dict[str, str]
    side: tuple[dict[str, Any], ...]

    def files(self, name: str) -> list[Path]:
        """Return the paths of the files of rows of one set. ``name`` is the set: ``sft``, ``rl`` or ``rejected``.

        The files have the names that the workers gave them, and not yet their final names.
        """
        return [self.folder / name / entry.file for entry in self.shards if entry.set == name]

    @property
    def ends(self) -> list[Path]:
        """Return the paths of the tables of final outcomes (``ends``), one table for each file of rows.

        A file of rows belongs to a set: ``sft``, ``rl`` or ``rejected``. The final outcome of a record is its row in a
        set. The table of a file has one line for each row of the file. The line holds the record's id, the stages
        (steps of the pipeline) that the record passed, its model calls, and the labels that two judges gave its trace
        (response of the teacher).
        """
        return [self.folder / ENDS / entry.ends for entry in self.shards]

    @property
    def records(self) -> list[Path]:
        """Return the paths of the files that list the input records which the job has read.

        A record is listed by its number (its line or row in the input) and its id.
        Several files may list the same record, because Beam may repeat a part of a job.
        """
        return sorted((self.folder / RECORDS).glob("*.parquet"))

    def take_over(self, staging: Path) -> dict[str, FileEntry]:
        """Move the job's files of rows to their final names, write its further outputs as files, and describe all
        files.

        A further output is e.g. ``rubrics.json``. ``staging`` is the folder that gets all these files.

        The result maps the final path of a file, relative to ``staging``, to its entry for ``run.json`` (size, digest
        and, for a file of rows, the number of rows), in the order of the paths.
        """
        entries: dict[str, FileEntry] = {}
        for entry in self.shards:
            (staging / entry.set).mkdir(exist_ok=True)
            (self.folder / entry.set / entry.file).rename(staging / entry.set / entry.name)
            entries[f"{entry.set}/{entry.name}"] = FileEntry(
                entry.size_bytes, entry.sha256, entry.rows, entry.ids_sha256
            )
        for name, text in self.artifacts.items():
            data = text.encode()
            (staging / name).write_bytes(data)
            entries[name] = FileEntry.of(data)
        return dict(sorted(entries.items()))


@dataclass(frozen=True)
class JobFolder:
    """Represents the folder into which one Beam job writes its files.

    ``here`` is the folder on this machine. If workers on other machines write the files, ``remote`` is their folder in
    a store, from which the files are downloaded into ``here``; otherwise it is None.
    """

    here: Path
    remote: RemotePath | None = None

    @property
    def name(self) -> str:
        """Return the path or URL of the folder into which the workers write."""
        return str(self.remote or self.here)

    def read(self) -> Job:
        """Return the outcome of the finished job: its files of rows and further outputs. Files in a store are
        downloaded.

        Raises :class:`groundtrace.pipelines.running.endings.JobIncomplete` if files are missing or damaged, and
        :class:`groundtrace.storage.places.StorageError` or OSError for a store that cannot be read.
        """
        if self.remote is not None:
            self._bring(self.remote)
        return read_job(self.here)

    def take_over(self, job: Job, run: LocalRun) -> dict[str, FileEntry]:
        """Move the outputs of a Beam job to their final names in the staging folder of the run.

        The staging folder collects the new outputs of a run. Later they replace the outputs of an earlier run in the
        same run folder. ``job`` names the job's files. ``run`` manages the run folder. The result maps the final path
        of each file to its entry for ``run.json`` (size, digest and, for a file of rows, the number of rows).
        """
        run.register_made(self.shards(job))
        return job.take_over(run.staging)

    def shards(self, job: Job) -> dict[str, RemotePath]:
        """Return where each file of rows of a Beam job is now in the store (remote storage such as S3).

        The keys of the result are the final paths of the files, relative to the run folder, such as ``sft/a.parquet``.
        The values are the paths in the store at which the workers have written the files.

        The result is empty if the workers are on this machine. ``job`` describes the files of the job.
        """
        if self.remote is None:
            return {}
        return {f"{entry.set}/{entry.name}": self.remote / entry.set / entry.file for entry in job.shards}

    def _bring(self, remote: RemotePath) -> None:
        """Download the files of a Beam job from the folder ``remote`` in a store into the job's folder on this machine.

        These are the lists of the records that were read, the manifests (lists of the job's files), and the files that
        the manifests name.
        """
        found = {str(path.relative_to(remote)): stat for path, stat in remote.walked().items()}
        begun = (f"{RECORDS}/", MANIFEST)
        self._bring_all(remote, {name: stat for name, stat in found.items() if name.startswith(begun)})
        for job in jobs_in(self.here):
            named = {f"{entry.set}/{entry.file}" for entry in job.shards}
            named |= {f"{ENDS}/{entry.ends}" for entry in job.shards}
            self._bring_all(remote, {name: found[name] for name in named & found.keys()})
            for entry in job.shards:
                _drop_unless(self.here / entry.set / entry.file, entry.sha256)

    def _bring_all(self, remote: RemotePath, files: dict[str, Stat]) -> None:
        def bring(name: str) -> None:
            fetch(remote / name, files[name].st_size, self.here / name)

        with ThreadPoolExecutor(BROUGHT_AT_ONCE) as pool:
            list(pool.map(bring, files))


@contextlib.contextmanager
def job_folder(run: LocalRun, elsewhere: bool = False) -> Iterator[JobFolder]:
    """Create a folder for the files of one Beam job, yield it, and remove it after the body of the ``with`` statement.

    The job's folder is in the run's staging folder, which holds outputs that do not yet replace the old ones. The
    staging folder is emptied first, so that files of earlier or abandoned jobs are ignored. The job's folder has a
    subfolder :data:`SPOOL` for data that Beam moves between the steps of the pipeline. A job on this machine keeps
    these data in the subfolder instead of in memory.

    ``run`` manages the run folder. ``elsewhere`` is True if the workers are on other machines. If, in addition, the run
    folder is in a store (remote storage such as S3), the job also gets a folder in the store, until the run ends.
    """
    run.clear_staging()
    folder = run.staging / f"job-{uuid.uuid4().hex}"
    for name in (*SETS, ENDS, RECORDS, SPOOL):
        (folder / name).mkdir(parents=True)
    try:
        yield JobFolder(folder, run.remote_job(folder.name) if elsewhere else None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _drop_unless(path: Path, sha256: str) -> None:
    """Remove the downloaded file ``path`` if its SHA-256 is not ``sha256``, the value in the manifest (list of files).

    :func:`read_job` then treats the file as missing, and ignores the manifest that names the file.
    """
    with contextlib.suppress(FileNotFoundError):
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() == sha256:
                return
        path.unlink()


def read_job(folder: Path) -> Job:
    """Return the outcome (the files and further outputs) of the finished Beam job that wrote into ``folder``.

    A manifest is a list of the job's complete files. The last step of the job writes the manifest. Beam may run steps
    of the job twice. Then the folder may have several manifests. They may name different files, but these files have
    the same content. The manifests are tried in the order of their names. The result is read from the first one that is
    complete and whose files are complete. Raises :class:`groundtrace.pipelines.running.endings.JobIncomplete` if there
    is no such manifest.
    """
    wrong = "it did not write its manifest, the list of its output files"
    for path in sorted(folder.glob(f"{MANIFEST}*.jsonl")):
        job = _job_of(path)
        wrong = f"{path.name} is incomplete" if job is None else _missing(job)
        if job is not None and not wrong:
            return job
    raise JobIncomplete(
        f"the runner reports that the job is done, but {wrong}: look for the cause in the runner's log, and run the "
        "same command again (no earlier output was replaced)"
    )


def jobs_in(folder: Path) -> list[Job]:
    """Return the outcomes of the Beam job that wrote into a folder, one for each complete manifest.

    A manifest is a list of the job's files; the job writes this list after the files. If the job wrote the list twice,
    the folder has two manifests. The files that a manifest names may still be missing, e.g. because they were not yet
    downloaded.
    """
    found = (_job_of(path) for path in sorted(folder.glob(f"{MANIFEST}*.jsonl")))
    return [job for job in found if job is not None]


def _job_of(path: Path) -> Job | None:
    """Return the job that the manifest ``path`` (a list of the job's files) describes; None if the manifest is
    incomplete.
    """
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
    """Return a message on the first file of the job that is missing or incomplete; "" if all files are complete.

    The files are those in the manifest of the job (the list of its files).
    """
    for entry in job.shards:
        path = job.folder / entry.set / entry.file
        if not path.is_file() or path.stat().st_size != entry.size_bytes:
            return f"the shard {path.name} is missing or incomplete"
    for path, rows in zip(job.ends, (entry.rows for entry in job.shards), strict=True):
        try:
            found = pq.read_metadata(path).num_rows
        except (OSError, pa.ArrowException):
            return f"{path.name}, which lists the records of a shard, is missing or incomplete"
        if found != rows:
            return f"{path.name} lists {found} records, but its shard has {rows} rows"
    return ""
