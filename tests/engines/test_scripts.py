"""The scripts that start engines: where one cannot start, they end with 1, print no options, and say why."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..spark.cluster import ROOT

from engine_cluster import free_ports  # isort: skip  (cluster.py names the folder)

POOL = f"""#!/bin/bash
# A Python that does nothing but listen, as the pool of workers does.
exec {sys.executable} -S -c 'import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1].split("=")[1])))
time.sleep(60)' "${{@: -1}}"
"""
ENDS = "#!/bin/bash\nfor line in $(seq 100); do echo line $line; done\necho no such flag >&2\nexit 2\n"
MAVEN = '#!/bin/bash\nfolder=${@: -1}\nmkdir -p "${folder#*=}"\ntouch "${folder#*=}/a"\n'
"""Brings one jar into the folder of -DoutputDirectory."""
Start = Callable[..., "subprocess.CompletedProcess[str]"]


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Parts, state and ports of this test, and a pool that only listens."""
    python = executable(tmp_path / "bin/python", POOL)
    paths = {"ENGINE_PARTS": tmp_path / "parts", "ENGINE_STATE": tmp_path / "state", "PYTHON": python}
    return os.environ | {"ENGINE_PORT": str(free_ports())} | {name: str(path) for name, path in paths.items()}


@pytest.fixture
def start(environment: dict[str, str]) -> Start:
    def run(engine: str, **more: str) -> "subprocess.CompletedProcess[str]":
        script = ROOT / "scripts" / engine / "start.sh"
        return subprocess.run([script], env=environment | more, capture_output=True, text=True, timeout=60, check=False)

    return run


def listening(environment: dict[str, str]) -> list[bool]:
    """Whether somebody listens on the ports of the pool and of the job server."""
    first = int(environment["ENGINE_PORT"])
    found = []
    for port in (first, first + 1):
        with socket.socket() as asking:
            found.append(asking.connect_ex(("127.0.0.1", port)) == 0)
    return found


@pytest.mark.parametrize(
    ("engine", "missing"),
    [
        ("spark", "the jars of scripts/spark/pom.xml are"),
        ("flink", "the jars of scripts/flink/pom.xml are"),
        ("prism", "parts/prism/prism is"),
    ],
)
def test_an_engine_that_is_not_set_up(engine: str, missing: str, start: Start) -> None:
    done = start(engine)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"{missing} missing: run scripts/{engine}/setup.sh\n")


@pytest.mark.parametrize("engine", ["spark", "flink"])
def test_jars_of_another_pom_are_not_used(engine: str, start: Start, tmp_path: Path) -> None:
    (tmp_path / "parts" / engine).mkdir(parents=True)
    (tmp_path / "parts" / engine / "jars.pom").write_text("<project/>")
    assert f"missing: run scripts/{engine}/setup.sh" in start(engine).stderr


def test_jars_are_fetched_once_for_each_pom(environment: dict[str, str], tmp_path: Path) -> None:
    executable(tmp_path / "bin/java", "#!/bin/bash\n")
    executable(
        tmp_path / "bin/mvn", "#!/bin/bash\nfolder=${@: -1}; folder=${folder#*=}; mkdir -p $folder; touch $folder/a"
    )
    parts = tmp_path / "parts/flink"
    env = environment | {"PATH": f"{tmp_path / 'bin'}:{environment['PATH']}"}

    def set_up() -> list[str]:
        subprocess.run([ROOT / "scripts/flink/setup.sh"], env=env, check=True, timeout=60)
        return sorted(path.name for path in (parts / "jars").iterdir())

    assert set_up() == ["a"]
    (parts / "jars/b").touch()
    assert set_up() == ["a", "b"], "nothing is fetched again"
    (parts / "jars.pom").write_text("<project/>")
    assert set_up() == ["a"], "what another pom has brought is gone"


def test_what_ends_shows_the_end_of_its_log_and_nothing_stays(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    executable(tmp_path / "parts/prism/prism", ENDS)
    done = start("prism")
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[0] == f"the end of {tmp_path / 'state/prism.log'}:"
    assert lines[-3:] == ["line 100", "no such flag", "prism has ended: see the end of its log above"]
    assert "line 1" not in lines, "the end only"
    assert not list((tmp_path / "state").glob("*.pid"))
    assert listening(environment) == [False, False], "the pool has ended too"


def test_a_pool_that_ends_is_told_likewise(start: Start, tmp_path: Path) -> None:
    executable(tmp_path / "parts/prism/prism", ENDS)
    done = start("prism", PYTHON=str(tmp_path / "no-such-python"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "no-such-python" in done.stderr and done.stderr.endswith("pool has ended: see the end of its log above\n")


def test_a_port_that_is_taken_is_refused(start: Start, environment: dict[str, str], tmp_path: Path) -> None:
    """A run would take whoever listens there for the engine."""
    executable(tmp_path / "parts/prism/prism", ENDS)
    port = int(environment["ENGINE_PORT"]) + 1
    with socket.create_server(("127.0.0.1", port)):
        done = start("prism")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"port {port} is taken: stop.sh ends what start.sh began; ENGINE_PORT moves all ports\n"
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_a_second_start_leaves_the_first_alone(start: Start, environment: dict[str, str], tmp_path: Path) -> None:
    listens = POOL.replace('"${@: -1}"', '"$1"')
    executable(tmp_path / "parts/prism/prism", listens)
    try:
        first, second = start("prism"), start("prism")
        assert first.returncode == 0, first.stderr
        assert first.stdout.startswith("--runner=PortableRunner\n--job_endpoint=127.0.0.1:")
        assert (second.returncode, second.stdout) == (1, "")
        assert listening(environment) == [True, True]
    finally:
        stopped = subprocess.run([ROOT / "scripts/prism/stop.sh"], env=environment, timeout=60, check=False)
    assert stopped.returncode == 0 and listening(environment) == [False, False]
