"""What a job has left in a store, brought here: only what a manifest names, and only where it is what that says."""

from pathlib import Path

import pytest

from groundtrace.pipelines.running.errors import JobIncomplete
from groundtrace.pipelines.running.job_folder import JobFolder
from groundtrace.storage.remote_path import RemotePath
from tests.pipelines.running.jobs import end, write_job


@pytest.fixture
def folder(bucket: RemotePath, tmp_path: Path) -> JobFolder:
    """A job in a store, with what attempts have left that do not count."""
    written = write_job(tmp_path / "written", [(1, "a"), (2, "b")], {"sft": [end("a"), end("b")]})
    (written / "sft/train-00000-of-00001.lost.parquet").write_bytes(b"half")
    for path in (path for path in written.rglob("*") if path.is_file()):
        (bucket / "job" / path.relative_to(written).as_posix()).write_bytes(path.read_bytes())
    return JobFolder(tmp_path / "here", bucket / "job")


def shard_of(folder: JobFolder) -> RemotePath:
    assert folder.remote is not None
    [path] = (path for path in (folder.remote / "sft").iterdir() if "lost" not in path.name)
    return path


def test_what_counts_is_brought(folder: JobFolder) -> None:
    job = folder.read()
    assert [entry.rows for entry in job.shards if entry.set == "sft"] == [2]
    assert job.files("sft")[0].read_bytes() == shard_of(folder).read_bytes()
    assert len(job.records) == 1
    assert not list((folder.here / "sft").glob("*lost*"))
    assert folder.shards(job)["sft/train-00000-of-00001.parquet"] == shard_of(folder)
    assert folder.name == str(folder.remote)


def test_a_shard_of_other_bytes_is_missing(folder: JobFolder) -> None:
    shard = shard_of(folder)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(bytes(data))
    with pytest.raises(JobIncomplete, match="is missing or cut short"):
        folder.read()


def test_a_job_that_wrote_no_manifest(folder: JobFolder) -> None:
    assert folder.remote is not None
    for path in folder.remote.glob("manifest-*"):
        path.unlink()
    with pytest.raises(JobIncomplete, match="it left no manifest"):
        folder.read()


def test_a_job_on_this_machine(tmp_path: Path) -> None:
    here = JobFolder(write_job(tmp_path / "job", [(1, "a")], {"rl": [end("a")]}))
    job = here.read()
    assert here.name == str(tmp_path / "job") and here.shards(job) == {}
