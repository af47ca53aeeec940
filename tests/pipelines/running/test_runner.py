"""Beam's options: unknown ones are refused, and Beam's own default runner is never taken."""

import subprocess
import sys

import pytest
from apache_beam.options.pipeline_options import DirectOptions, SetupOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from groundtrace.pipelines.running.runner import OptionError, choose_runner, pipeline_options
from groundtrace.stages.ingest_records import CheckedMedium


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
        (["--direct_num_worker=2"], "unknown Beam option '--direct_num_worker=2'; did you mean --direct_num_workers?"),
        (["--xyzzy"], "unknown Beam option '--xyzzy'"),
        (["stray"], "unknown Beam option 'stray'"),
        (["--direct_num_workers=-3"], "--direct_num_workers must be at least 0 (one for each core), got -3"),
        (["--direct_num_workers=two"], "Beam option argument --direct_num_workers: invalid int value: 'two'"),
        (["--direct_running_mode=fast"], "Beam option argument --direct_running_mode: invalid choice"),
        (["--direct_num_workers"], "Beam option argument --direct_num_workers: expected one argument"),
        (["--direct_num_workers=2", "--xyzzy=1"], "unknown Beam option '--xyzzy=1'"),
    ],
)
def test_options_that_beam_would_ignore(flags: list[str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        pipeline_options(flags)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("flags", "own"),
    [
        ([], True),
        (["--direct_num_workers=2"], True),
        (["--runner=SparkRunner"], False),
        (["--runner", "FlinkRunner"], False),
        (["--job_name=--runner"], True),
    ],
)
def test_the_runner(flags: list[str], own: bool) -> None:
    chosen = choose_runner(pipeline_options(flags))
    assert isinstance(chosen, FnApiRunner) if own else chosen is None


def test_workers_import_the_modules_that_declare_records() -> None:
    plugins = pipeline_options([]).view_as(SetupOptions).beam_plugins
    assert {"groundtrace.schemas.records", "groundtrace.schemas.geometry", CheckedMedium.__module__} <= set(plugins)


TOLD = """
import os

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import S3Options

import groundtrace.pipelines.grounded_cot
from groundtrace.pipelines.running.runner import choose_runner, pipeline_options

def seen(parent):
    options = FileSystems._pipeline_options
    print(options.view_as(S3Options).s3_region_name, os.getpid() != parent, flush=True)

flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing", "--s3_region_name=eu-north-1"]
options = pipeline_options(flags)
with beam.Pipeline(runner=choose_runner(options), options=options) as pipeline:
    pipeline | beam.Create([os.getpid()]) | beam.Map(seen)
"""


def test_worker_processes_know_the_options() -> None:
    done = subprocess.run([sys.executable, "-c", TOLD], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "eu-north-1 True\n"
