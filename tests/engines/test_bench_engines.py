"""benchmarks/bench_engines.py: its sums, and a small run of it."""

import json
import subprocess
import sys

import pytest

from ..spark.cluster import ROOT

from bench_engines import EngineCost, Took, cost, ratios, set_up  # isort: skip  (cluster.py names the folder)


def test_the_line_through_two_sizes_tells_records_from_jobs():
    assert EngineCost.of(500, 12.0, 1500, 32.0) == EngineCost(record_ms=20.0, job_s=2.0)


def test_each_size_counts_with_the_least_of_its_turns():
    turns = [{10: Took(5.0, 2.0), 20: Took(9.0, 3.0)}, {10: Took(4.0, 9.0), 20: Took(6.0, 9.0)}]
    assert cost(turns, (10, 20), "wall_s") == EngineCost(200.0, 2.0)
    assert cost(turns, (10, 20), "cpu_s") == EngineCost(100.0, 1.0)
    runs = {"local": turns, "other": [{10: Took(1.0, 0.0), 20: Took(5.0, 0.0)}]}
    assert ratios(runs, (10, 20), "wall_s") == {"local": 1.0, "other": 2.0}


def test_without_parts_the_engines_that_need_none_are_compared(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINE_PARTS", str(tmp_path))
    assert set_up() == ["local", "processes", "portable"]
    (tmp_path / "flink").mkdir()
    assert set_up() == ["local", "processes", "portable", "flink", "flink-cluster"]


@pytest.mark.prism
@pytest.mark.full
def test_a_small_run_ends_with_its_figures():
    command = [sys.executable, ROOT / "benchmarks/bench_engines.py", "--engines=prism", "--records", "8", "16"]
    done = subprocess.run([*command, "--turns=1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["name"] == "engines"
    assert {"local_ratio", "prism_ratio", "prism_cpu_ratio", "prism_job_s"} <= set(line)


@pytest.mark.parametrize("arguments", [["--engines=nosuch"], ["--records", "20", "10"]])
def test_what_cannot_be_compared_is_refused(arguments):
    command = [sys.executable, ROOT / "benchmarks/bench_engines.py", *arguments]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
