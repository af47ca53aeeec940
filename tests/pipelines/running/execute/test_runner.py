"""Beam's own default runner is never taken, and worker processes know the options."""

import subprocess
import sys
import time

import apache_beam as beam
import pytest
from apache_beam.coders import Coder
from apache_beam.coders.typecoders import registry
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from groundtrace.pipelines.running.execute.runner import choose_runner
from groundtrace.pipelines.running.plan.options import pipeline_options


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


class Number(int):
    """An element whose encoding takes long."""


class SlowCoder(Coder):
    """Encodes numbers, and lets other threads run meanwhile, as one does that writes a file."""

    def encode(self, value: int) -> bytes:
        time.sleep(0.3)
        return b"%d" % value

    def decode(self, encoded: bytes) -> Number:
        return Number(encoded)

    def is_deterministic(self) -> bool:
        return True


@pytest.mark.slow
def test_an_element_that_is_being_encoded_is_not_cut_in_two() -> None:
    """Beam sends what it has buffered every second, in the middle of an element, unless our runner turns this off."""
    registry.register_coder(Number, SlowCoder)
    options = pipeline_options(["--direct_num_workers=2", "--direct_running_mode=multi_threading"])
    with beam.Pipeline(choose_runner(options), options) as pipeline:
        numbers = pipeline | beam.Create(range(4)) | beam.Map(Number).with_output_types(Number)
        assert_that(numbers | beam.Reshuffle() | beam.Map(int), equal_to(range(4)))


TOLD = """
import os

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import S3Options

import groundtrace.pipelines.grounded_cot
from groundtrace.pipelines.running.execute.runner import choose_runner
from groundtrace.pipelines.running.plan.options import pipeline_options

def seen(parent):
    options = FileSystems._pipeline_options
    print(options.view_as(S3Options).s3_region_name, os.getpid() != parent, flush=True)

flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing", "--s3_region_name=eu-north-1"]
options = pipeline_options(flags)
with beam.Pipeline(runner=choose_runner(options), options=options) as pipeline:
    pipeline | beam.Create([os.getpid()]) | beam.Map(seen)
"""


@pytest.mark.slow
def test_worker_processes_know_the_options() -> None:
    done = subprocess.run([sys.executable, "-c", TOLD], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "eu-north-1 True\n"
