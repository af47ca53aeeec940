"""A command that is stopped cancels its job, and says so."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from tests.pipelines.shipping.cluster import Cluster, cluster

SLEEPS = """
import time

import apache_beam as beam

from pipelines.running.settings import RunSettings
from schemas.config import settings
from stages.ingest_records import IngestRecords
from stages.plumbing.recipe import Ends, Recipe


@settings
class Settings(RunSettings):
    pass


def slept(draft):
    time.sleep(120)
    return draft


def build(root, run, settings):
    ingested = root | IngestRecords(run.sources, settings.input, run.roots, run.limit)
    return Ends(rl=ingested["kept"] | beam.Map(slept), rejected=[ingested["rejected"]])


RECIPE = Recipe("sleeps", Settings, build, stages=(IngestRecords.stage,), makes="Nothing.")
"""


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster") as running:
        yield running


def states(endpoint: str) -> dict[str, int]:
    """The jobs of a job server and their states."""
    with grpc.insecure_channel(endpoint) as channel:
        server = beam_job_api_pb2_grpc.JobServiceStub(channel)
        return {job.job_id: job.state for job in server.GetJobs(beam_job_api_pb2.GetJobsRequest()).job_info}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_cancels_its_job(
    number: signal.Signals, workers: Cluster, write_questions: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    questions = write_questions(tmp_path / "questions", 2)
    recipe, run = tmp_path / "sleeps.py", tmp_path / "run"
    recipe.write_text(SLEEPS, "utf-8")
    command = [sys.executable, "-m", "pipelines", "run", str(recipe), "--input", str(questions), "--output", str(run)]
    started = subprocess.Popen(
        [*command, "--", *workers.options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    endpoint = workers.options[1].partition("=")[2]
    deadline = time.monotonic() + 60
    while beam_job_api_pb2.JobState.RUNNING not in states(endpoint).values() or not list(workers.folder.iterdir()):
        assert time.monotonic() < deadline and started.poll() is None, started.communicate()
        time.sleep(0.1)
    time.sleep(1)
    started.send_signal(number)
    out, err = started.communicate(timeout=20)
    [(job, state)] = states(endpoint).items()
    assert (started.returncode, out, state) == (130, "", beam_job_api_pb2.JobState.CANCELLED)
    first, last = [line for line in err.splitlines() if " done, " not in line]
    assert first == f"beam: cancelling the job {job}"
    assert last.startswith("beam: interrupted; run the same command again to resume (")
    assert f"(the job {job} was cancelled)" in last
    assert not (run / "run.json").exists()
