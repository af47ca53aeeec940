"""The main pipeline on a real Spark cluster of two workers: the same files as on one machine, whatever is killed.

Run by ``make test-spark`` (one healthy run and one kill) and ``make test-spark-full``.
"""

from collections.abc import Iterator

import pytest

from .cluster import RECORDS, SHARDS, WINDOW, Bench, Cluster, Outcome, bench, started

pytestmark = pytest.mark.spark
# Where the run is, by the share of its requests that have been sent.
MOMENTS = {"ingest": 0.0, "attempt": 0.06, "split": 0.15, "trace": 0.6, "write": 1.0}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("bench")) as made:
        yield made


@pytest.fixture(scope="module")
def local(here: Bench) -> tuple[Outcome, int]:
    """What a run on this machine gives, and how many requests it sends."""
    here.server.ask("reset", b"")
    outcome = here.run("local")
    assert outcome.code == 0, outcome.said
    assert outcome.ends == RECORDS
    assert len([name for name in outcome.files if name.startswith("sft/")]) == SHARDS
    return outcome, here.requests()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started("spark", tmp_path_factory.mktemp("spark")) as made:
        yield made


def check_same(outcome: Outcome, local: Outcome) -> None:
    assert outcome.code == 0, outcome.said
    assert (outcome.counts, outcome.files) == (local.counts, local.files)
    assert outcome.calls == local.calls, "the ledger holds each answer once"


@pytest.mark.parametrize("turn", [1, *(pytest.param(turn, marks=pytest.mark.full) for turn in range(2, 6))])
def test_a_healthy_run_is_that_of_one_machine(here, local, cluster, turn):
    here.server.ask("reset", b"")
    check_same(here.run(f"healthy-{turn}", cluster.options), local[0])


@pytest.mark.parametrize(
    "moment", [name if name == "trace" else pytest.param(name, marks=pytest.mark.full) for name in MOMENTS]
)
def test_a_killed_executor_changes_nothing(here, local, cluster, moment):
    here.server.ask("reset", b"")
    whole, requests = local
    process = here.begin(f"killed-{moment}", cluster.options)
    here.server.ask(f"reached/{int(MOMENTS[moment] * requests)}")
    cluster.kill_executor()
    check_same(here.end(f"killed-{moment}", process), whole)
    assert requests <= here.requests() <= requests + WINDOW
