"""Submissions to Dataflow, as a stand-in for it and for its storage gets them. It runs what it is told to run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from groundtrace.storage.places import RemotePath

from .cluster import cluster

try:
    from google.cloud.dataflow import JobState

    from tests.pipelines.shipping.dataflow_server import Dataflow, dataflow
except ImportError:  # the extra gcp: who asks for these tests is told by their fixture
    JobState = Dataflow = dataflow = None

pytestmark = pytest.mark.dataflow

RECIPE = """
from colours import Palette
from groundtrace.pipelines.grounded_cot import RECIPE
"""
BESIDE = """
from groundtrace.schemas.coding import record


@record
class Palette:
    name: str
"""
RECORDS = 3
FIRST = ("Ingest", "Attempt", "Difficulty", "Verify")
"""Some of the stages of the bundled recipe."""


@pytest.fixture
def server() -> Iterator[Dataflow]:
    if dataflow is None:
        pytest.fail("the extra gcp is not installed: make test-dataflow")
    with dataflow() as served:
        yield served


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path_factory.mktemp("questions"), RECORDS)


@pytest.fixture
def bucket(new_bucket: Callable[[str], RemotePath]) -> RemotePath:
    """Where input and run folder are."""
    return new_bucket("gs")


@pytest.fixture
def questions(on_disk: Path, bucket: RemotePath) -> RemotePath:
    for file in (path for path in on_disk.rglob("*") if path.is_file()):
        (bucket / "questions" / file.relative_to(on_disk).as_posix()).write_bytes(file.read_bytes())
    return bucket / "questions"


@pytest.fixture
def run(bucket: RemotePath) -> RemotePath:
    return bucket / "run"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A recipe of one's own with a module beside it."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/colours.py").write_text(BESIDE, "utf-8")
    (tmp_path / "mine/my_recipe.py").write_text(RECIPE, "utf-8")
    return tmp_path / "mine/my_recipe.py"


def command(server: Dataflow, recipe: object, questions: RemotePath, run: RemotePath, *options: str) -> list[str]:
    words = ["run", str(recipe), "--input", str(questions), "--output", str(run)]
    words += ["--set", f"storage.gs_endpoint_url={run.storage.gs_endpoint_url}", "--", *server.options, *options]
    return [sys.executable, "-m", "groundtrace", *words]


def beam_run(server: Dataflow, *words: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | server.environment
    given = command(server, *words)  # type: ignore[arg-type]
    return subprocess.run(given, capture_output=True, text=True, env=environment, check=False, timeout=120)


def submitted(server: Dataflow) -> beam_runner_api_pb2.Pipeline:
    """The graph that was put where the job says that it is."""
    location = server.jobs[0]["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
    return beam_runner_api_pb2.Pipeline.FromString(server.objects[location.removeprefix("gs://")])


def test_what_is_submitted(server: Dataflow, mine: Path, questions: RemotePath, run: RemotePath) -> None:
    """Graph, staged files and options. And a job that is done without having written anything is a failed run."""
    done = beam_run(server, mine, questions, run, "--num_workers=3", "--worker_machine_type=n2-standard-4")
    assert done.returncode == 1
    message = (
        "the runner reports that the job is done, but it did not write its manifest, the list of its output files: look"
    )
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (run / "run.json").exists()
    assert done.stdout == ""

    [job] = server.jobs
    [pool] = job["environment"]["workerPools"]
    assert (pool["numWorkers"], pool["machineType"]) == (3, "n2-standard-4")
    assert job["environment"]["version"]["job_type"] == "FNAPI_BATCH"
    options = job["environment"]["sdkPipelineOptions"]["options"]
    assert options["save_main_session"] is False

    graph = submitted(server)
    labels = {transform.unique_name for transform in graph.components.transforms.values()}
    assert all(any(label.split("/")[0] == stage for label in labels) for stage in FIRST), sorted(labels)[:20]
    [environment] = graph.components.environments.values()
    image = beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image
    assert re.search(r"beam_python3\.\d+_sdk:2\.77\.0$", image)

    staged = {}
    for artifact in environment.dependencies:
        assert artifact.type_urn == common_urns.artifact_types.URL.urn
        where = beam_runner_api_pb2.ArtifactUrlPayload.FromString(artifact.type_payload)
        name = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload).staged_name
        staged[name] = server.objects[where.url.removeprefix("gs://")]
        assert hashlib.sha256(staged[name]).hexdigest() == where.sha256
    ours, recipes, *others = sorted(staged, key=lambda name: (not name.endswith(".whl"), name))
    assert others == ["extra_packages.txt", "submission_environment_dependencies.txt"]
    assert staged["extra_packages.txt"].decode().split() == [ours, recipes]
    assert len(server.written) == len(set(server.written)) == len(staged) + 1

    module = recipes.partition("-")[0]
    assert module in options["beam_plugins"]
    assert "groundtrace.schemas.records" in options["beam_plugins"] and "colours" not in options["beam_plugins"]
    with zipfile.ZipFile(BytesIO(staged[recipes])) as wheel:
        assert {f"{module}/files/my_recipe.py", f"{module}/files/colours.py"} < set(wheel.namelist())
    with zipfile.ZipFile(BytesIO(staged[ours])) as wheel:
        assert {"groundtrace/pipelines/grounded_cot.py", "groundtrace/stages/ingest_records.py"} < set(wheel.namelist())
        [about] = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        assert re.search(r"^Requires-Dist: gcsfs==", wheel.read(about).decode(), re.MULTILINE), "what reads the store"


def test_what_a_failed_job_said_is_told(server: Dataflow, questions: RemotePath, run: RemotePath) -> None:
    server.states, server.error = ["JOB_STATE_RUNNING", "JOB_STATE_FAILED"], "The zone has no such machine."
    done = beam_run(server, "grounded_cot", questions, run)
    assert (done.returncode, done.stdout) == (1, "")
    assert "The zone has no such machine." in done.stderr.splitlines()[-1]
    assert not (run / "run.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_cancels_the_job(
    number: signal.Signals, server: Dataflow, questions: RemotePath, run: RemotePath
) -> None:
    server.states = ["JOB_STATE_RUNNING"]
    given = command(server, "grounded_cot", questions, run)
    environment, pipe = os.environ | server.environment, subprocess.PIPE
    started = subprocess.Popen(given, stdout=pipe, stderr=pipe, text=True, env=environment)
    deadline = time.monotonic() + 60
    while not server.jobs:
        assert time.monotonic() < deadline and started.poll() is None, started.communicate()
        time.sleep(0.1)
    time.sleep(1)
    started.send_signal(number)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, out) == (130, "")
    assert server.asked_states == [JobState.JOB_STATE_CANCELLED]
    assert "(the job job-1 was cancelled)" in err.splitlines()[-1]


def test_an_image_of_ones_own_is_all_that_workers_get_but_the_recipe(
    server: Dataflow, mine: Path, questions: RemotePath, run: RemotePath
) -> None:
    image = "europe-docker.pkg.dev/me/groundtrace:1"
    server.states, server.error = ["JOB_STATE_FAILED"], "no"  # Beam waits for a message for 50 s
    beam_run(server, mine, questions, run, f"--sdk_container_image={image}")
    [pool] = server.jobs[0]["environment"]["workerPools"]
    assert pool["workerHarnessContainerImage"] == image
    wheels = [name.rsplit("/")[-1] for name in server.written if name.endswith(".whl")]
    assert [name.partition("_")[0] for name in wheels] == ["groundtrace"] and "_recipe_" in wheels[0]


@pytest.mark.parametrize("flag", ["--dry_run", "--dry_run=True"])
def test_a_dry_run_builds_the_job_and_touches_nothing(
    flag: str, server: Dataflow, mine: Path, questions: RemotePath, run: RemotePath
) -> None:
    done = beam_run(server, mine, questions, run, flag)
    assert (done.returncode, done.stderr) == (0, "")
    first, graph, where, *staged = done.stdout.splitlines()
    assert first.startswith("dry run, nothing was submitted: beamapp-") and first.endswith(" in p, europe-west4")
    assert int(graph.split()[1]) > 50
    assert where.startswith("staged under gs://bucket/tmp/")
    names = [line.split(",")[0].strip().partition("-")[0] for line in staged]
    assert [re.sub(r"_\w{12}$", "", name) for name in names] == [
        "extra_packages.txt",
        "groundtrace",
        "groundtrace_recipe",
        "submission_environment_dependencies.txt",
    ]
    assert not server.jobs and not server.objects and not run.exists()


def test_a_job_that_runs_is_followed_to_its_end(
    server: Dataflow, mine: Path, questions: RemotePath, run: RemotePath, on_disk: Path, tmp_path: Path
) -> None:
    """What was submitted runs on workers with what was staged; the driver then reads what they left in the store."""
    with cluster(tmp_path, XDG_CACHE_HOME=str(tmp_path / "home")) as server.workers:
        done = beam_run(server, mine, questions, run)
    assert done.returncode == 0, done.stderr
    assert "the job job-1 runs on Dataflow: https://" in done.stderr
    assert f"{RECORDS} records: " in done.stdout and f"report: {run}/report.html" in done.stdout
    near = [sys.executable, "-m", "groundtrace", "run", mine, "--input", on_disk, "--output", tmp_path / "near"]
    subprocess.run(list(map(str, near)), check=True, capture_output=True)
    here, there = (json.loads((folder / "run.json").read_text("utf-8")) for folder in (tmp_path / "near", run))
    assert there["counts"] == here["counts"] and there["files"].keys() == here["files"].keys()
    sets = {name: told["sha256"] for name, told in here["files"].items() if name.startswith(("sft/", "rl/"))}
    assert {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in sets} == sets != {}
    assert not (run / "jobs").exists()


@pytest.mark.parametrize("option", ["--input", "--output", "--cache"])
def test_a_folder_of_this_machine_is_refused(
    option: str, server: Dataflow, questions: RemotePath, run: RemotePath, on_disk: Path
) -> None:
    given = command(server, "grounded_cot", questions, run)
    if option in given:
        given[given.index(option) + 1] = str(on_disk)
    else:
        given[5:5] = [option, str(on_disk)]
    done = subprocess.run(given, capture_output=True, text=True, env=os.environ | server.environment, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert f"beam: {option} {on_disk}" in line and "Dataflow's workers cannot read this machine's disk" in line
    assert not server.jobs
