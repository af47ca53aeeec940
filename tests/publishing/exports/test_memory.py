"""Memory does not grow with the set: rows stream from the shards into the files."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.schemas.arrow import sft_schema
from tests.publishing.exports.made_runs import ROOT, make_run, picture, sft

pytestmark = pytest.mark.faults

MEASURED = """
import resource, sys
from groundtrace.pipelines.commands import cli
run, form, output = sys.argv[1:]
assert cli.main(["export", run, "--format", form, "--family", "qwen3-vl", "--output", output]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
GROUP = 16
MAX_GROWTH_MIB = 100


def run_of(folder: Path, groups: int) -> Path:
    """A run of one shard with row groups of 16 images of 2.4 MB, no two alike."""
    data, number = picture(900, 900), 0
    run = make_run(folder, [sft()] * (groups * GROUP))
    file = next((run / "sft").glob("*.parquet"))
    with pq.ParquetWriter(file, sft_schema()) as writer:
        for _ in range(groups):
            rows = [sft(f"q{number + n}", images=(data + (number + n).to_bytes(8, "big"),)) for n in range(GROUP)]
            writer.write_table(pa.Table.from_pylist(rows, sft_schema()))
            number += GROUP
    return run


def peak_mib(run: Path, form: str, output: Path) -> int:
    """The most memory that a process took that exports the run."""
    words = [sys.executable, "-c", MEASURED, str(run), form, str(output)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    return int(ended.stdout.split()[-1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Runs of 78 and of 310 MB."""
    folder = tmp_path_factory.mktemp("runs")
    return run_of(folder / "small", 2), run_of(folder / "large", 8)


@pytest.mark.parametrize("form", ["trl", "jsonl", "webdataset"])
def test_memory_does_not_grow_with_the_set(form: str, runs: tuple[Path, Path], tmp_path: Path) -> None:
    peaks = [peak_mib(run, form, tmp_path / f"{form}-{run.name}") for run in runs]
    assert peaks[1] - peaks[0] < MAX_GROWTH_MIB, peaks
