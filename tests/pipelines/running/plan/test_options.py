"""Beam's options: unknown ones are refused; where they place the workers, and what those elsewhere need."""

from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import DirectOptions, SetupOptions, StandardOptions

from groundtrace.pipelines.running.plan.options import (
    OptionError,
    check_in_store,
    is_local,
    pipeline_options,
    runner_line,
    see_no_disk,
)
from groundtrace.vision.checked_medium import CheckedMedium


def test_known_options_are_read() -> None:
    options = pipeline_options(["--direct_num_workers=2", "--direct_running_mode", "multi_threading"])
    direct = options.view_as(DirectOptions)
    assert (direct.direct_num_workers, direct.direct_running_mode) == (2, "multi_threading")
    assert options.view_as(SetupOptions).save_main_session is False


def test_no_options() -> None:
    assert pipeline_options([]).view_as(StandardOptions).runner is None


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--direct_num_worker=2"],
            "the Beam option '--direct_num_worker=2' is unknown; did you mean --direct_num_workers?",
        ),
        (["--xyzzy"], "the Beam option '--xyzzy' is unknown; remove it"),
        (["stray"], "the Beam option 'stray' is unknown"),
        (["--direct_num_workers=-3"], "--direct_num_workers is -3: set it to the number of workers, or to 0"),
        (
            ["--direct_num_workers=two"],
            "the options for Beam cannot be read (argument --direct_num_workers: invalid int value: 'two'",
        ),
        (
            ["--direct_running_mode=fast"],
            "the options for Beam cannot be read (argument --direct_running_mode: invalid choice",
        ),
        (
            ["--direct_num_workers"],
            "the options for Beam cannot be read (argument --direct_num_workers: expected one argument",
        ),
        (["--direct_num_workers=2", "--xyzzy=1"], "the Beam option '--xyzzy=1' is unknown"),
    ],
)
def test_options_that_beam_would_ignore(flags: list[str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        pipeline_options(flags)
    assert str(caught.value).startswith(said)


def test_workers_import_the_modules_that_declare_records() -> None:
    plugins = pipeline_options([]).view_as(SetupOptions).beam_plugins
    assert {"groundtrace.schemas.records", "groundtrace.schemas.geometry", CheckedMedium.__module__} <= set(plugins)


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


def test_a_copy_is_changed_alone() -> None:
    options = pipeline_options(["--direct_num_workers=2"])
    copied = options.copied()
    copied.view_as(DirectOptions).direct_num_workers = 3
    copied.view_as(SetupOptions).beam_plugins.append("more")
    assert options.view_as(DirectOptions).direct_num_workers == 2
    assert "more" not in options.view_as(SetupOptions).beam_plugins
    assert copied.get_all_options()["direct_running_mode"] == options.get_all_options()["direct_running_mode"]
