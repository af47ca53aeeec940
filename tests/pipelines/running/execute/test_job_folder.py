"""A job's folder and its manifest: what counts of it, also of one in a store that is brought here."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.running.endings import JobIncomplete
from groundtrace.pipelines.running.execute.job_folder import JobFolder, job_folder, read_job
from groundtrace.pipelines.running.plan.local_run import LocalRun
from groundtrace.schemas.run_files import FileEntry
from groundtrace.stages.plumbing.shard_files import ENDS, MANIFEST, ids_sha256
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
    with pytest.raises(JobIncomplete, match="is missing or incomplete"):
        folder.read()


def test_a_job_that_wrote_no_manifest(folder: JobFolder) -> None:
    assert folder.remote is not None
    for path in folder.remote.glob("manifest-*"):
        path.unlink()
    with pytest.raises(JobIncomplete, match="it did not write its manifest"):
        folder.read()


def test_a_job_on_this_machine(tmp_path: Path) -> None:
    here = JobFolder(write_job(tmp_path / "job", [(1, "a")], {"rl": [end("a")]}))
    job = here.read()
    assert here.name == str(tmp_path / "job") and here.shards(job) == {}


def test_a_job_has_a_folder_of_its_own_that_is_gone_behind_it(tmp_path: Path) -> None:
    folder = LocalRun(tmp_path / "run")
    folder.staging.mkdir(parents=True)
    with job_folder(folder) as job:
        first = job.here
        assert first.parent == folder.staging
        assert sorted(path.name for path in first.iterdir()) == ["ends", "records", "rejected", "rl", "sft", "spool"]
        (first / "spool/crossing").write_bytes(b"data")
    with pytest.raises(KeyError), job_folder(folder) as second:
        assert second.here != first
        raise KeyError
    assert not list(folder.staging.iterdir())


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write_job(
        tmp_path / "job", [(1, "a"), (2, "b")], {"sft": [end("a"), end("b")]}, artifacts={"note.json": '{"é": 1}'}
    )


def manifest_of(written: Path) -> Path:
    [path] = written.glob(f"{MANIFEST}*")
    return path


def test_shards_and_artifacts_get_their_names(written: Path, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    job = read_job(written)
    assert [len(job.files(name)) for name in ("sft", "rl", "rejected")] == [1, 1, 1]
    told = job.take_over(staging)
    shard = staging / "sft/train-00000-of-00001.parquet"
    ids = [ids_sha256(["a", "b"]), ids_sha256(["b", "a"])]
    entry = told["sft/train-00000-of-00001.parquet"]
    assert (entry.rows, entry.size_bytes) == (2, shard.stat().st_size)
    assert entry.sha256 == hashlib.sha256(shard.read_bytes()).hexdigest()
    assert entry.ids_sha256 in ids
    text = '{"é": 1}'.encode()
    assert told["note.json"] == FileEntry.of(text)
    assert (staging / "note.json").read_bytes() == text


def remove(pattern: str) -> Callable[[Path], object]:
    return lambda written: [path.unlink() for path in written.glob(pattern)]


def cut(pattern: str) -> Callable[[Path], object]:
    def work(written: Path) -> None:
        for path in written.glob(pattern):
            path.write_bytes(path.read_bytes()[:-9])

    return work


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (remove(f"{MANIFEST}*"), "it did not write its manifest"),
        (cut(f"{MANIFEST}*"), "is incomplete"),
        (remove("sft/*"), "the shard train-00000-of-00001"),
        (cut("sft/*"), "is missing or incomplete"),
        (remove(f"{ENDS}/sft-*"), "which lists the records of a shard, is missing or incomplete"),
        (cut(f"{ENDS}/sft-*"), "which lists the records of a shard, is missing or incomplete"),
    ],
)
def test_a_job_that_is_not_whole(written: Path, damage: Callable[[Path], object], said: str) -> None:
    damage(written)
    with pytest.raises(JobIncomplete, match="reports that the job is done, but") as raised:
        read_job(written)
    assert said in str(raised.value)


def test_of_several_manifests_a_whole_one_counts(written: Path) -> None:
    """The last step ran twice, and the second time was cut short."""
    whole = manifest_of(written)
    (written / f"{MANIFEST}0.jsonl").write_bytes(whole.read_bytes()[:-5])
    (written / f"{MANIFEST}1.jsonl").write_text(json.dumps({"lines": 3}), "utf-8")
    assert len(read_job(written).shards) == 3
