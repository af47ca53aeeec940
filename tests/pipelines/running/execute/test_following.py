"""A command that is stopped cancels its job; one whose job server goes says so, and ends."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from groundtrace.pipelines.running.endings import JobIncomplete
from groundtrace.pipelines.running.execute.following import follow
from groundtrace.pipelines.running.plan.options import pipeline_options
from tests.pipelines.shipping.cluster import Cluster, cluster

pytestmark = pytest.mark.faults

SLEEPS = """
import time

import apache_beam as beam

from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.config.settings import settings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.plumbing.recipe import Ends, Recipe


@settings
class Settings(RunSettings):
    pass


def slept(draft):
    time.sleep(120)
    return draft


def build(root, run, settings):
    ingested = root | IngestRecords(run.sources, settings.input, run.roots, run.limit)
    return Ends(rl=ingested["kept"] | beam.Map(slept))


RECIPE = Recipe("sleeps", Settings, build, makes="Nothing.")
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


@pytest.fixture
def begun(
    workers: Cluster, write_questions: Callable[[Path, int], Path], tmp_path: Path
) -> Iterator[subprocess.Popen[str]]:
    """A run that sleeps on a worker, into the folder ``run``."""
    questions = write_questions(tmp_path / "questions", 2)
    recipe, run = tmp_path / "sleeps.py", tmp_path / "run"
    recipe.write_text(SLEEPS, "utf-8")
    command = [sys.executable, "-m", "groundtrace", "run", str(recipe), "--input", str(questions), "--output", str(run)]
    with subprocess.Popen(
        [*command, "--", *workers.options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        deadline = time.monotonic() + 60
        while beam_job_api_pb2.JobState.RUNNING not in states(endpoint_of(workers)).values() or not list(
            workers.folder.iterdir()
        ):
            assert time.monotonic() < deadline and started.poll() is None, started.communicate()
            time.sleep(0.1)
        time.sleep(1)
        yield started


def endpoint_of(workers: Cluster) -> str:
    """Where the job server is."""
    return workers.options[1].partition("=")[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_cancels_its_job(
    number: signal.Signals, workers: Cluster, begun: subprocess.Popen[str], tmp_path: Path
) -> None:
    begun.send_signal(number)
    out, err = begun.communicate(timeout=20)
    [(job, state)] = states(endpoint_of(workers)).items()
    assert (begun.returncode, out, state) == (130, "", beam_job_api_pb2.JobState.CANCELLED)
    runner, first, last = [line for line in err.splitlines() if " done, " not in line]
    assert runner == f"runner: PortableRunner, job server {endpoint_of(workers)}"
    assert first == f"beam: cancelling the job {job}"
    assert last.startswith("beam: interrupted; run the same command again to resume (")
    assert f"(the job {job} was cancelled)" in last
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_killed_job_server_ends_the_command(workers: Cluster, begun: subprocess.Popen[str], tmp_path: Path) -> None:
    """It says so in one line with what is to be done, and the page of the failed run says it too."""
    workers.job_server.kill()
    out, err = begun.communicate(timeout=20)
    _runner, line = [line for line in err.splitlines() if " done, " not in line]
    assert (begun.returncode, out) == (3, "")
    assert line.startswith(f"beam: the job server at {endpoint_of(workers)} stopped in the middle of the job (")
    assert "): start it again, see docs/engines.md, then run the same command again to resume (" in line
    assert "stopped in the middle of the job" in (tmp_path / "run" / "failed.html").read_text("utf-8")


class ServersError(grpc.RpcError):
    """What a call raises that a server answers with an error."""

    def code(self) -> grpc.StatusCode:
        """INTERNAL."""
        return grpc.StatusCode.INTERNAL

    def details(self) -> str:
        """Words on several lines."""
        return "no such\n  thing"


@pytest.mark.parametrize(
    ("flags", "error", "said"),
    [
        (
            ["--runner=PortableRunner", "--job_endpoint=h:1"],
            ServersError(),
            "the job server at h:1 ended the job with an error (INTERNAL: no such thing): see the server's log",
        ),
        (
            ["--runner=SparkRunner"],
            grpc.RpcError(),
            "the job server ended the job with an error (UNKNOWN: no message): see the server's log",
        ),
    ],
)
def test_another_error_of_a_job_server_is_told_in_its_words(flags: list[str], error: Exception, said: str) -> None:
    class Refused:
        def run(self) -> None:
            raise error

    with pytest.raises(JobIncomplete) as caught:
        follow(Refused(), pipeline_options(flags), is_local=False)  # type: ignore[arg-type]
    assert str(caught.value) == said
