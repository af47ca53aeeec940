"""A job server that is killed in the middle of a run: the command ends, and goes on with another job server."""

import pytest

from .cluster import WINDOW
from .moments import check_same
from .workers import workers_of

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.mark.parametrize("stage", ["trace", "write"])
def test_a_run_whose_job_server_is_killed_goes_on_with_a_new_one(here, local, cluster, moments, stage):
    whole, requests = local
    name = f"abandoned-{stage}"
    with moments.within(stage):
        process = here.begin(name, cluster.options)
        moments.worker_within(stage, process)
        workers = workers_of(cluster)
        cluster.kill("job-server")
        ended = here.end(name, process)
        lost = moments.lost(workers)
    sent = here.requests()
    cluster.restart("spark")
    assert ended.code == 3, ended.said
    [line] = [line for line in ended.said.splitlines() if line.startswith("beam: ")]
    assert "the job server at 127.0.0.1:" in line
    assert "): start it again, see docs/engines.md, then run the same command again to resume (" in line
    assert "Traceback" not in ended.said

    outcome = here.run(name, cluster.options)
    check_same(outcome, whole)
    under_way = WINDOW * len(workers)
    assert requests <= here.requests() <= requests + under_way, "only what was not answered is asked for again"
    assert outcome.paid == here.requests() - sent
    # A reply that came as its worker ended is in nobody's notes either.
    assert here.requests() - under_way <= outcome.paid_in_all <= here.requests() - lost
