"""The folder of a job's files: on this machine, or in a store if remote workers write them."""

import contextlib
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from groundtrace.pipelines.running.manifest import Job, jobs_in, read_job
from groundtrace.stages.plumbing.shard_files import ENDS, MANIFEST, RECORDS
from groundtrace.storage.mirror import fetch
from groundtrace.storage.remote_path import RemotePath, Stat

BROUGHT_AT_ONCE = 8
"""How many files are downloaded at a time."""


@dataclass(frozen=True)
class JobFolder:
    """A job's local folder, and, for remote workers, the folder in a store that they write into."""

    here: Path
    remote: RemotePath | None = None

    @property
    def name(self) -> str:
        """The path of the folder for the workers."""
        return str(self.remote or self.here)

    def read(self) -> Job:
        """The job's outcome; its files are first downloaded if they are in a store.

        Raises :class:`groundtrace.pipelines.running.errors.JobIncomplete`, and
        :class:`groundtrace.storage.places.StorageError` and OSError for a store that cannot be read.
        """
        if self.remote is not None:
            self._bring(self.remote)
        return read_job(self.here)

    def shards(self, job: Job) -> dict[str, RemotePath]:
        """The job's shards in the store, by their final names; empty for a job on this machine."""
        if self.remote is None:
            return {}
        return {f"{entry.set}/{entry.name}": self.remote / entry.set / entry.file for entry in job.shards}

    def _bring(self, remote: RemotePath) -> None:
        """Download the lists of records read, the manifests, and the files that the manifests name."""
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


def _drop_unless(path: Path, sha256: str) -> None:
    """Remove a file whose checksum differs from its manifest's: it then counts as missing."""
    with contextlib.suppress(FileNotFoundError):
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() == sha256:
                return
        path.unlink()
