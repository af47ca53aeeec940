"""The main pipeline on a real Spark cluster of two workers: the same files as on one machine, whatever is killed.

Run by ``make test-spark`` (one healthy run and one kill) and ``make test-spark-full``.
"""

import pytest

from .cluster import WINDOW
from .moments import ASKING, check_same

pytestmark = pytest.mark.spark
STAGES = ("ingest", "attempt", "split", "trace", "write")


@pytest.mark.parametrize("turn", [1, *(pytest.param(turn, marks=pytest.mark.full) for turn in range(2, 6))])
def test_a_healthy_run_is_that_of_one_machine(here, local, cluster, turn):
    here.server.ask("reset", b"")
    whole, requests = local
    outcome = here.run(f"healthy-{turn}", cluster.options)
    check_same(outcome, whole)
    assert outcome.paid == here.requests() == requests


@pytest.mark.parametrize(
    "stage", [stage if stage == "trace" else pytest.param(stage, marks=pytest.mark.full) for stage in STAGES]
)
def test_an_executor_killed_within_a_stage_changes_nothing(here, local, cluster, moments, stage):
    """It is killed while its worker is within the stage. What was asked for and lost with it is asked for again."""
    whole, requests = local
    with moments.within(stage):
        process = here.begin(f"killed-{stage}", cluster.options)
        worker = moments.worker_within(stage, process)
        worker.kill_executor()
        lost = moments.lost([worker])
    assert stage not in ASKING or 0 < lost <= WINDOW
    outcome = here.end(f"killed-{stage}", process)
    check_same(outcome, whole)
    assert requests <= here.requests() <= requests + lost
    assert outcome.paid == here.requests() - lost, "what was answered is in the ledger"
