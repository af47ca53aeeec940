"""One input, one model server, one run on this machine and one Spark cluster for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import RECORDS, SHARDS, Bench, Cluster, Outcome, bench, started
from .moments import Moments


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The input and the server."""
    with bench(tmp_path_factory.mktemp("bench")) as made:
        yield made


@pytest.fixture(scope="session")
def local(here: Bench) -> tuple[Outcome, int]:
    """What a run on this machine gives, and how many requests it sends."""
    here.server.ask("reset", b"")
    outcome = here.run("local")
    assert outcome.code == 0, outcome.said
    assert outcome.ends == RECORDS
    assert outcome.paid == here.requests()
    assert len([name for name in outcome.files if name.startswith("sft/")]) == SHARDS
    return outcome, here.requests()


@pytest.fixture(scope="session")
def holds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is said which workers are held (holding/sitecustomize.py)."""
    return tmp_path_factory.mktemp("holds")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, holds: Path) -> Iterator[Cluster]:
    """The cluster, with workers that can be held."""
    held = {"HOLDS": str(holds), "PYTHONPATH": str(Path(__file__).parent / "holding")}
    with started("spark", tmp_path_factory.mktemp("spark"), **held) as made:
        yield made


@pytest.fixture
def moments(here: Bench, cluster: Cluster, holds: Path) -> Moments:
    """The moments of a run on the cluster; the server forgets what it was asked before."""
    here.server.ask("reset", b"")
    return Moments(here, cluster, holds)
