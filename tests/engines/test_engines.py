"""The main pipeline on engines beside Beam's Python runner: the same files, figures and requests as on one machine.

Run by ``make test-flink``, ``make test-prism`` and ``make test-engines-full``; tests/spark has Spark's, with processes
killed. Another engine is a folder of scripts/ and a line of ENGINES.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..spark.cluster import RECORDS, ROOT, SHARDS, Bench, Cluster, Outcome, bench, started

# The folder of scripts/, and what its start.sh is told.
ENGINES = [
    pytest.param(("flink", {}), id="flink", marks=pytest.mark.flink),
    pytest.param(("flink", {"FLINK": "cluster"}), id="flink-cluster", marks=pytest.mark.flink),
    pytest.param(("prism", {}), id="prism", marks=pytest.mark.prism),
]
RECIPES = ["grounded_cot", "judge_think_answer", "dual_stream", "rubric_curriculum", "crop_and_answer"]
TIMES = {"finished", "wall_s"}
STAGE_TIMES = ("wall_s", "in_flight_s")


@pytest.fixture(scope="module", params=ENGINES)
def cluster(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    engine, environment = request.param
    with started(engine, tmp_path_factory.mktemp(engine), **environment) as made:
        yield made


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("bench"), latency_s=0.02) as made:
        yield made


@pytest.fixture(scope="module")
def local(here: Bench) -> tuple[Outcome, int]:
    """What a run on this machine gives, and how many requests it sends."""
    here.server.ask("reset", b"")
    outcome = here.run("local")
    assert outcome.code == 0, outcome.said
    assert outcome.ends == RECORDS
    assert [sum(name.startswith(f"{side}/") for name in outcome.files) for side in ("sft", "rl")] == [SHARDS, SHARDS]
    return outcome, here.requests()


def told(run: Path) -> dict[str, Any]:
    """A run's summary without its times: counts, funnel, ledger, agreement of judges, and the digest of each file."""
    summary = json.loads((run / "run.json").read_text("utf-8"))
    for figures in summary["stages"].values():
        for name in STAGE_TIMES:
            figures.pop(name, None)
    return {name: value for name, value in summary.items() if name not in TIMES}


def test_a_run_is_that_of_one_machine(here, local, cluster):
    whole, requests = local
    here.server.ask("reset", b"")
    outcome = here.run(cluster.state.name, cluster.options)
    assert outcome.code == 0, outcome.said
    assert outcome.files == whole.files
    assert told(here.folder / cluster.state.name) == told(here.folder / "local")
    assert here.requests() == requests


@pytest.fixture(scope="module")
def sample_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each recipe has been run over the sample on this machine, in a folder of its name."""
    folder = tmp_path_factory.mktemp("sample")
    for recipe in RECIPES:
        run_sample(recipe, folder / recipe)
    return folder


def run_sample(recipe: str, run: Path, options: tuple[str, ...] = ()) -> None:
    command = [sys.executable, "-m", "groundtrace", "run", recipe, "--input", "data/sample", "--output", run]
    done = subprocess.run([*command, *(["--", *options] if options else [])], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_runs_as_on_one_machine(sample_runs, cluster, tmp_path, recipe):
    run_sample(recipe, tmp_path / "run", cluster.options)
    # Embedded models cost nothing: what two processes want of them at one moment each asks for itself.
    without_ledger = [{**told(run), "ledger": None, "paid": None} for run in (tmp_path / "run", sample_runs / recipe)]
    assert without_ledger[0] == without_ledger[1]
