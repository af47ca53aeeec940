"""``beam serve-reward``: what it refuses to start with, and how it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.responses.speech import Speech
from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.commands.serve_reward import TOKEN_VARIABLE, check_address, runs_named
from groundtrace.pipelines.commands.serving import ServeError
from groundtrace.publishing.rewards.settings import SpeechSettings
from groundtrace.schemas.coordinates import CoordinateFrame

from ...publishing.rewards.worlds import Written, argos, sail_rl, written
from ...trainer.runs import Judge, judging

ROOT = Path(__file__).parents[3]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Written]:
    """A world on the disk, for a model that writes pixels."""
    speech = Speech(CoordinateFrame.PX, 1)
    return lambda world, base_url="": written(world, "plain", speech, SpeechSettings(), base_url, tmp_path)


class Served:
    """The command in a process of its own, up when this is made."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "groundtrace", "serve-reward", "--port", "0", *words],
            cwd=ROOT,
            env=os.environ | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.lines = [self.process.stderr.readline()]
        while "serving" not in self.lines[-1] and self.lines[-1]:
            self.lines.append(self.process.stderr.readline())
        self.said = self.lines[-1]
        found = re.search(r"on http://127\.0\.0\.1:(\d+);", self.said)
        assert found, self.said + self.process.stderr.read()
        self.port = int(found[1])

    def post(self, items: Any) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", "/score", json.dumps({"items": items}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it(number: int, write: Any) -> None:
    found = write(argos(2))
    served = Served("--config", str(found.config), "--data", str(found.run))
    assert served.said.startswith("beam: serving argos for 2 rows of 1 run on ")
    reference, text = found.items[0]
    status, said = served.post([{"reference": reference, "response": text}])
    assert (status, said["scores"][0]["reward"]) == (200, 1.0)
    assert served.end(number) == (0, "")


@pytest.fixture
def slow() -> Iterator[threading.Event]:
    """A judge that answers when the event is set."""
    yield threading.Event()


@pytest.mark.slow
def test_what_is_being_scored_is_answered_before_the_end(write: Any, slow: threading.Event, monkeypatch: Any) -> None:
    step = Judge.step
    monkeypatch.setattr(Judge, "step", lambda *given: slow.wait(20) and step(*given))
    world = sail_rl()
    with judging((200, world.judge)) as judge:
        found = write(world, judge.base_url)
        served = Served("--config", str(found.config), "--data", str(found.run))
        reference, text = found.items[0]
        answers: list[tuple[int, Any]] = []
        item = {"reference": reference, "response": text}
        asking = threading.Thread(target=lambda: answers.append(served.post([item])))
        asking.start()
        time.sleep(1.0)
        threading.Timer(0.5, slow.set).start()
        assert served.end(signal.SIGTERM) == (0, "")
        asking.join()
    assert answers[0][0] == 200
    assert answers[0][1]["scores"][0]["outcome"] == 1.0


REFUSED = [
    (["--data", "nowhere"], "--data nowhere: the folder nowhere does not exist"),
    (["--data", "a=nowhere"], "--data a=nowhere: the folder nowhere does not exist"),
    (["--config", "none.toml"], "cannot read the config none.toml"),
    (["--host", "0.0.0.0"], f"requests from other machines: set the environment variable {TOKEN_VARIABLE}"),
    (["--host", "::"], "--host :: accepts requests from other machines"),
    (["--port", "99999"], "cannot listen on 127.0.0.1:99999"),
    (["--max-batch", "0"], "argument --max-batch: the number must be at least 1, got 0"),
    (["--max-waiting", "-1"], "argument --max-waiting: the number must be at least 0, got -1"),
    (["--timeout-s", "nan"], "argument --timeout-s: the number of seconds must be finite and above 0, got nan"),
    (["--max-batch", "x"], "argument --max-batch: invalid"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_it_does_not_start_with(
    words: list[str], said: str, write: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    found = write(argos(1))
    try:
        code = main(["serve-reward", "--config", str(found.config), "--data", str(found.run), *words])
    except SystemExit as exit:
        code = int(exit.code or 0)
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beam: ")]
    assert code == 2
    assert said in line


def test_a_port_that_is_taken(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = write(argos(1))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["serve-reward", "--config", str(found.config), "--data", str(found.run), "--port", port]
        assert main(words) == 2
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_run_that_the_recipe_can_score_nothing_of(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = write(argos(1))
    text = found.config.read_text("utf-8").replace('recipe = "argos"', 'recipe = "codedance"')
    found.config.write_text(text, "utf-8")
    assert main(["serve-reward", "--config", str(found.config), "--data", str(found.run)]) == 2
    assert "none of them has this: how the code of each turn ended" in capsys.readouterr().err


@pytest.fixture
def closed_url() -> str:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def test_a_judge_that_is_not_there(write: Any, closed_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = write(sail_rl(), closed_url)
    assert main(["serve-reward", "--config", str(found.config), "--data", str(found.run)]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beam: ")]
    assert f"endpoint judge (judge), model judge at {closed_url}: cannot be reached" in line
    assert "Start the server, or correct reward.endpoints.judge.base_url, or add --allow-unready" in line


@pytest.mark.slow
def test_it_may_start_before_its_judge(write: Any, closed_url: str) -> None:
    found = write(sail_rl(), closed_url)
    served = Served("--config", str(found.config), "--data", str(found.run), "--allow-unready")
    assert any("not ready: endpoint judge (judge)" in line for line in served.lines)
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["roles"]) == (503, {"judge": "connection"})
    assert served.end(signal.SIGTERM)[0] == 0


def test_a_detector_that_cannot_be_served(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = write(argos(1))
    text = found.config.read_text("utf-8").replace('detector = "edges"', 'detector = "colour"')
    found.config.write_text(text, "utf-8")
    words = ["serve-reward", "--config", str(found.config), "--data", str(found.run), "--allow-unready"]
    assert main(words) == 2
    said = "endpoint colour (detector), model colour: it cannot answer detect."
    assert said in capsys.readouterr().err


ADDRESSES = [
    ("127.0.0.1", False, False, True),
    ("127.8.8.8", False, False, True),
    ("::1", False, False, True),
    ("localhost", False, False, True),
    ("0.0.0.0", False, False, False),
    ("0.0.0.0", True, False, True),
    ("0.0.0.0", False, True, True),
    ("192.168.1.9", False, False, False),
    ("somewhere.example", False, False, False),
]


@pytest.mark.parametrize(("host", "token", "remote", "is_taken"), ADDRESSES)
def test_who_may_reach_it(host: str, token: bool, remote: bool, is_taken: bool) -> None:
    if is_taken:
        check_address(host, token, remote)
        return
    with pytest.raises(ServeError, match="accepts requests from other machines"):
        check_address(host, token, remote)


def test_runs_have_names(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    found = runs_named([str(tmp_path), f"x={tmp_path}", str(tmp_path / "a=b")])
    assert found == {str(tmp_path): tmp_path, "x": tmp_path, str(tmp_path / "a=b"): tmp_path / "a=b"}
    with pytest.raises(ServeError, match="two --data options have the name x"):
        runs_named([f"x={tmp_path}", f"x={tmp_path}"])
