"""What a job has left counts only where a manifest names it and all of it is whole."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.running.errors import JobIncomplete
from groundtrace.pipelines.running.manifest import read_job
from groundtrace.schemas.run_summary import FileEntry
from groundtrace.stages.plumbing.shard_files import ENDS, MANIFEST, ids_sha256
from tests.pipelines.running.jobs import end, write_job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_job(
        tmp_path / "job", [(1, "a"), (2, "b")], {"sft": [end("a"), end("b")]}, artifacts={"note.json": '{"é": 1}'}
    )


def manifest_of(folder: Path) -> Path:
    [path] = folder.glob(f"{MANIFEST}*")
    return path


def test_shards_and_artifacts_get_their_names(folder: Path, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    job = read_job(folder)
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
    return lambda folder: [path.unlink() for path in folder.glob(pattern)]


def cut(pattern: str) -> Callable[[Path], object]:
    def work(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.write_bytes(path.read_bytes()[:-9])

    return work


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (remove(f"{MANIFEST}*"), "it left no manifest"),
        (cut(f"{MANIFEST}*"), "is cut short"),
        (remove("sft/*"), "the shard train-00000-of-00001"),
        (cut("sft/*"), "is missing or cut short"),
        (remove(f"{ENDS}/sft-*"), "which lists the records of a shard, is missing or cut short"),
        (cut(f"{ENDS}/sft-*"), "which lists the records of a shard, is missing or cut short"),
    ],
)
def test_a_job_that_is_not_whole(folder: Path, damage: Callable[[Path], object], said: str) -> None:
    damage(folder)
    with pytest.raises(JobIncomplete, match="reports that the job is done, but") as raised:
        read_job(folder)
    assert said in str(raised.value)


def test_of_several_manifests_a_whole_one_counts(folder: Path) -> None:
    """The last step ran twice, and the second time was cut short."""
    whole = manifest_of(folder)
    (folder / f"{MANIFEST}0.jsonl").write_bytes(whole.read_bytes()[:-5])
    (folder / f"{MANIFEST}1.jsonl").write_text(json.dumps({"lines": 3}), "utf-8")
    assert len(read_job(folder).shards) == 3
