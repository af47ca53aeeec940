"""Where a run's workers are, and what those elsewhere need."""

from pathlib import Path

import pytest

from groundtrace.pipelines.running.runner import OptionError, pipeline_options
from groundtrace.pipelines.running.workers import check_in_store, is_local, runner_line, see_no_disk


@pytest.mark.parametrize(
    ("flags", "local", "no_disk"),
    [
        ([], True, False),
        (["--direct_num_workers=4", "--direct_running_mode=multi_processing"], True, False),
        (["--runner=DirectRunner"], True, False),
        (["--runner=FlinkRunner"], False, False),
        (["--runner=PortableRunner"], False, False),
        (["--runner=DataflowRunner"], False, True),
        (["--runner=Dataflow"], False, True),
        (["--runner", "DATAFLOW"], False, True),
        (["--runner=TestDataflowRunner"], False, True),
        (["--runner=apache_beam.runners.DataflowRunner"], False, True),
        (["--runner=spark"], False, False),
        (["--runner=direct"], True, False),
        (["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"], True, False),
    ],
)
def test_where_the_workers_are(flags: list[str], local: bool, no_disk: bool) -> None:
    options = pipeline_options(flags)
    assert (is_local(options), see_no_disk(options)) == (local, no_disk)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ([], "runner: this machine, 1 worker (in_memory)"),
        (["--direct_num_workers=4", "--direct_running_mode=multi_processing"], "this machine, 4 workers (multi_proc"),
        (["--direct_num_workers=0"], "runner: this machine, a worker for each core (in_memory)"),
        (["--runner=DirectRunner"], "runner: DirectRunner, 1 worker (in_memory)"),
        (["--runner=PortableRunner", "--job_endpoint=h:1"], "runner: PortableRunner, job server h:1"),
        (["--runner=SparkRunner", "--spark_master_url=spark://h:7077"], "runner: SparkRunner, spark://h:7077"),
        (["--runner=spark", "--spark_master_url=spark://u:secret@h:7077"], "runner: spark, spark://...@h:7077"),
        (["--runner=SparkRunner", "--job_endpoint=h:1"], "runner: SparkRunner, job server h:1"),
        (["--runner=FlinkRunner", "--flink_master=h:8081"], "runner: FlinkRunner, h:8081"),
        (["--runner=DataflowRunner", "--region=europe-west4"], "runner: DataflowRunner, europe-west4"),
        (["--runner=DataflowRunner"], "runner: DataflowRunner"),
    ],
)
def test_what_a_run_says_of_its_runner(flags: list[str], line: str) -> None:
    told = runner_line(pipeline_options(flags))
    assert line in told and "secret" not in told and "\n" not in told


def test_folders_of_this_machine(tmp_path: Path) -> None:
    check_in_store([("--input", "org/data-set"), ("--input", "hf://org/set"), ("--output", "gs://bucket/run")])
    for option, name in (("--input", str(tmp_path)), ("--output", "runs/a"), ("--cache", str(tmp_path / "none"))):
        with pytest.raises(OptionError, match=f"{option} .* cannot read this machine's disk"):
            check_in_store([("--output", "gs://bucket/run"), (option, name)])
