"""A job that cannot be run is refused before anything is planned, in one line and within seconds."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.extras import MissingExtra
from groundtrace.pipelines.running.plan.job_check import check_job
from groundtrace.pipelines.running.plan.options import OptionError, pipeline_options

DATAFLOW = ["--runner=DataflowRunner", "--project=p", "--region=europe-west4", "--temp_location=gs://bucket/tmp"]


@pytest.fixture
def closed() -> int:
    """A port on which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def silent() -> Iterator[int]:
    """A port on which connections are accepted and nothing is said."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def with_gcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages of the extra gcp count as installed: only the options are looked at."""
    monkeypatch.setattr("groundtrace.pipelines.running.plan.job_check.require_extra", lambda *_: None)
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)


@pytest.mark.parametrize("runner", ["PortableRunner", "SparkRunner", "FlinkRunner"])
def test_a_job_server_that_is_down_is_told_within_a_second(runner: str, closed: int) -> None:
    options = pipeline_options([f"--runner={runner}", f"--job_endpoint=localhost:{closed}"])
    began = time.monotonic()
    with pytest.raises(OptionError) as caught:
        check_job(options)
    assert time.monotonic() - began < 1
    assert str(caught.value).startswith(f"no job server runs at localhost:{closed} (Connection refused): start one")


def test_what_does_not_speak_as_a_job_server_is_told(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundtrace.pipelines.running.plan.job_check.ANSWER_S", 0.5)
    with pytest.raises(OptionError, match=rf"the server at 127\.0\.0\.1:{silent} is not a job server"):
        check_job(pipeline_options(["--runner=PortableRunner", f"--job_endpoint=127.0.0.1:{silent}"]))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--runner=PortableRunner"], "--runner=PortableRunner needs --job_endpoint=HOST:PORT"),
        (["--runner=PortableRunner", "--job_endpoint=localhost"], "--job_endpoint=localhost must be HOST:PORT"),
        (["--runner=PortableRunner", "--job_endpoint=:1"], "--job_endpoint=:1 must be HOST:PORT"),
        (["--runner=PortableRunner", "--job_endpoint=h:0"], "--job_endpoint=h:0 must be HOST:PORT"),
        (["--runner=PortableRunner", "--job_endpoint=h:99999"], "--job_endpoint=h:99999 must be HOST:PORT"),
        (["--runner=PortableRunner", "--job_endpoint=http://h:x"], "--job_endpoint=http://h:x must be HOST:PORT"),
        (
            ["--runner=SparkRunner", "--spark_job_server_jar=/no/x.jar"],
            "--spark_job_server_jar=/no/x.jar: this file does not",
        ),
        (
            ["--runner=FlinkRunner", "--flink_job_server_jar=x.jar"],
            "--flink_job_server_jar=x.jar: this file does not exist",
        ),
        (["--runner=SparkRunner", "--job_server_java_launcher=/no/java"], "--runner=SparkRunner starts a job server"),
        (
            ["--runner=FlinkRunner", "--job_server_java_launcher=nojava"],
            "--runner=FlinkRunner starts a job server",
        ),
        (["--dry_run=True"], "--dry_run works only with --runner=DataflowRunner"),
        (
            ["--temp_location=gs://My_Bucket/x"],
            "--temp_location=gs://My_Bucket/x: 'My_Bucket' is not the name of a bucket",
        ),
        (["--staging_location=s3:///x"], "--staging_location=s3:///x: '' is not the name of a bucket"),
        (
            ["--temp_location=gs://bucket"],
            "--temp_location=gs://bucket is a bucket without a folder: name a folder, such as gs://buck",
        ),
    ],
)
def test_what_is_missing_is_named(flags: list[str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_job(pipeline_options(flags))
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("with_gcp")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--project=p": ""}, "--runner=DataflowRunner needs --project=PROJECT"),
        ({"--region=europe-west4": ""}, "--runner=DataflowRunner needs --region=REGION"),
        ({"--temp_location=gs://bucket/tmp": ""}, "--runner=DataflowRunner needs --temp_location=gs://BUCKET/FOLDER"),
        ({"--temp_location=gs://bucket/tmp": "--temp_location=/tmp/x"}, "--temp_location=/tmp/x: Dataflow's workers"),
        (
            {"--temp_location=gs://bucket/tmp": "--temp_location=gs://b/x"},
            "--temp_location=gs://b/x: 'b' is not the name",
        ),
    ],
)
def test_what_dataflow_needs(changed: dict[str, str], said: str) -> None:
    flags = [changed.get(flag, flag) for flag in DATAFLOW]
    with pytest.raises(OptionError) as caught:
        check_job(pipeline_options([flag for flag in flags if flag]))
    assert str(caught.value).startswith(said)


@pytest.mark.usefixtures("with_gcp")
@pytest.mark.parametrize(
    "flags",
    [
        [],
        DATAFLOW,
        [*DATAFLOW, "--dry_run"],
        ["--dry_run", *DATAFLOW],
        [*DATAFLOW, "--dry_run", "True"],
        ["--dry_run=False"],
        ["--runner=DirectRunner"],
    ],
)
def test_what_can_be_run_passes(flags: list[str]) -> None:
    check_job(pipeline_options(flags))


def test_dataflow_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundtrace.config.extras._is_installed", lambda _: False)
    with pytest.raises(MissingExtra, match=r"--runner=DataflowRunner needs the extra gcp: pip install"):
        check_job(pipeline_options(DATAFLOW))


@pytest.mark.parametrize("command", ["run", "preview", "validate"])
def test_every_command_looks_before_it_reads_anything(command: str, closed: int, run_beam: Any, tmp_path: Path) -> None:
    """Neither the input nor the config is looked at, which both are wrong."""
    flags = ["--runner=PortableRunner", f"--job_endpoint=localhost:{closed}"]
    words = ["--set", "no.such=1", "--", *flags]
    if command == "validate":
        from groundtrace.pipelines.commands.cli import main

        assert main(["validate", "grounded_cot", "--input", str(tmp_path / "none"), *words]) == 2
    else:
        ran = run_beam(tmp_path / "none", tmp_path / "run", *words, command=command)
        ran.check_refused(2, f"no job server runs at localhost:{closed}")
    assert not (tmp_path / "run").exists()
