"""The main pipeline on engines beside Beam's Python runner: the same files, figures and requests as on one machine.

Run by ``make test-flink`` and ``make test-prism``; tests/spark has Spark's, with processes killed. Another engine is a
folder of scripts/ and a line of ENGINES.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..spark.cluster import RECORDS, SHARDS, Bench, Outcome, bench, started

# The folder of scripts/, and what its start.sh is told.
ENGINES = [
    pytest.param("flink", {}, id="flink", marks=pytest.mark.flink),
    pytest.param("flink", {"FLINK": "cluster"}, id="flink-two-workers", marks=pytest.mark.flink),
    pytest.param("prism", {}, id="prism", marks=pytest.mark.prism),
]


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
    """Funnel, ledger and the agreement of judges in a run's summary, all that the runner must not change."""
    summary = json.loads((run / "run.json").read_text("utf-8"))
    return {name: summary[name] for name in ("stages", "ledger", "judges", "paid")}


@pytest.mark.parametrize(("engine", "environment"), ENGINES)
def test_a_run_is_that_of_one_machine(here, local, tmp_path, engine, environment, request):
    whole, requests = local
    name = request.node.callspec.id
    here.server.ask("reset", b"")
    with started(engine, tmp_path, **environment) as cluster:
        outcome = here.run(name, cluster.options)
    assert outcome.code == 0, outcome.said
    assert (outcome.counts, outcome.files) == (whole.counts, whole.files)
    assert told(here.folder / name) == told(here.folder / "local")
    assert here.requests() == requests
