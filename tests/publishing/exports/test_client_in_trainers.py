"""The client's file in the trainers that load it, without our packages, against a server that fails in the middle."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.rewards import groundtrace_client
from groundtrace.publishing.rewards.settings import SpeechSettings
from tests.publishing.exports.reward_server import Server
from tests.publishing.rewards.client_server import free_port
from tests.publishing.rewards.worlds import Written, argos, written

PLENTY_S, LITTLE_S = 100.0, 1.0
TRAINERS = [
    pytest.param("verl", marks=pytest.mark.loaders),
    pytest.param("swift", marks=pytest.mark.loaders),
    pytest.param("trl", marks=pytest.mark.trl),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Rows and responses of which some are right, some look right and some are wrong."""
    bounds = SpeechSettings()
    home = tmp_path_factory.mktemp("world")
    return written(argos(4), "qwen3-vl", bounds.speech_of("qwen3-vl"), bounds, "", home)


class Trainer:
    """A process with the packages of this one, but ours."""

    def __init__(self, name: str, client: Path, items: Path, url: str) -> None:
        folders = [path for path in sys.path if Path(path).name == "site-packages"]
        side = Path(__file__).with_name("trainer_side.py")
        start = "import runpy, sys; sys.path += sys.argv.pop(1).split(':'); sys.argv.pop(0)\n"
        start += "runpy.run_path(sys.argv[0], run_name='__main__')"
        command = [sys.executable, "-I", "-S", "-c", start, ":".join(folders), side, name, client, items]
        environment = os.environ | {"GROUNDTRACE_REWARD_URL": url, "GROUNDTRACE_REWARD_REQUEST_TIMEOUT_S": "2"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(list(map(str, command)), env=environment, cwd=client.parent, **pipes)
        assert self.answer() == "ready"

    def ask(self, timeout_s: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{timeout_s}\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, ""):
            if line.startswith("CALL "):
                return json.loads(line.removeprefix("CALL "))
        raise AssertionError("the trainer's process has ended")

    def rewards(self, timeout_s: float = PLENTY_S) -> Any:
        self.ask(timeout_s)
        return self.answer()


@pytest.fixture
def port() -> int:
    return free_port()


@contextlib.contextmanager
def trainer(name: str, found: Written, folder: Path, port: int) -> Iterator[Trainer]:
    client = Path(shutil.copy(groundtrace_client.__file__, folder))
    items = folder / "items.json"
    items.write_text(json.dumps(found.items), "utf-8")
    started = Trainer(name, client, items, f"http://127.0.0.1:{port}")
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


@pytest.mark.parametrize("name", TRAINERS)
def test_no_fault_of_the_server_changes_a_score(name: str, found: Written, port: int, tmp_path: Path) -> None:
    """In this order: all is well; the server stands still for longer than a request may take; it is killed while it is
    asked and started again; it is killed for good.
    """
    [expected] = found.by_trainer(tmp_path / "own")
    wanted = [each.reward for each in expected]
    assert len(set(wanted)) > 2
    server = Server(found.config, found.run, port)
    with trainer(name, found, tmp_path, port) as asking, contextlib.ExitStack() as stack:
        stack.callback(lambda: server.kill())
        assert asking.rewards() == pytest.approx(wanted, abs=1e-9)

        server.process.send_signal(signal.SIGSTOP)
        asking.ask(PLENTY_S)
        time.sleep(3)  # so that the first request, which may take 2 s, is given up
        server.process.send_signal(signal.SIGCONT)
        assert asking.answer() == pytest.approx(wanted, abs=1e-9)

        server.process.send_signal(signal.SIGSTOP)
        asking.ask(PLENTY_S)
        time.sleep(0.5)
        server.kill()
        server = Server(found.config, found.run, port)
        assert asking.answer() == pytest.approx(wanted, abs=1e-9)

        server.kill()
        assert "sent no reward within" in asking.rewards(LITTLE_S)
