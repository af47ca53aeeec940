"""What must not outlive its parent: the guard alone, and the servers under it when the serving process is killed."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.endpoints.vllm_server import GUARD, serving
from groundtrace.inference.settings import EndpointSettings, ModelsSettings

MODEL = "org/tiny"
WAIT_S = 60.0
DATA = Path(__file__).parents[1] / "data"
NOBODY = 2**22 + 1
"""No process has this id: it is above Linux's largest."""


@pytest.fixture
def pids_path(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture
def log_folder(tmp_path: Path) -> str:
    return str(tmp_path / "logs")


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, pids_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in vLLM's place, named in the environment; locks are under the test's folder."""
    path = tmp_path / "stand-in"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {DATA / "stand_in_vllm.py"} "$@"\n', "utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("STAND_IN_PIDS", str(pids_path))
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def running(pids_path: Path) -> list[int]:
    """Which of the noted processes exist, zombies included."""
    pids = map(int, pids_path.read_text("utf-8").split())
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def end_of(pids: list[int]) -> None:
    """Wait until all of the processes have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid)) as handle:
            assert select.select([handle], [], [], WAIT_S)[0], f"process {pid} goes on"


def guarded(*command: str, parent: int | None = None) -> "subprocess.Popen[bytes]":
    """The guard, running a command."""
    arguments = [sys.executable, "-I", "-S", str(GUARD), str(parent or os.getpid()), *command]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("/no/such/command",), 127),
        (("/etc",), 127),
    ],
)
def test_the_guard_ends_as_its_command_does(command: tuple[str, ...], status: int) -> None:
    guard = guarded(*command)
    _, problem = guard.stdout.read(), guard.stderr.read().decode()  # type: ignore[union-attr]
    assert guard.wait(WAIT_S) == status
    assert (command[0] in problem) == (status == 127)
    guard.communicate()


def test_what_the_command_leaves_behind_is_cleared_away() -> None:
    guard = guarded("sh", "-c", "setsid sleep 60 & sleep 60 & echo $!")
    guard.stdout.readline()  # type: ignore[union-attr]
    guard.wait(WAIT_S)
    # The pipe ends when the last process that has it is gone.
    assert guard.stdout.read() == b""  # type: ignore[union-attr]
    guard.communicate()


@pytest.mark.parametrize("way", ["input closes", "SIGTERM", "another parent"])
def test_the_command_is_stopped_when_it_is_not_wanted_any_more(way: str) -> None:
    script = "trap 'echo stopped; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    guard = guarded("sh", "-c", script, parent=NOBODY if way == "another parent" else None)
    assert guard.stdout is not None
    assert guard.stdin is not None
    if way == "SIGTERM":
        assert guard.stdout.readline() == b"started\n"
        guard.terminate()
    elif way == "input closes":
        assert guard.stdout.readline() == b"started\n"
        guard.stdin.close()
        guard.stdin = None
    output = guard.stdout.read()
    assert guard.wait(WAIT_S) in ((0,) if way != "another parent" else (0, 128 + signal.SIGTERM))
    assert output.endswith(b"stopped\n") or way == "another parent"
    guard.communicate()


@pytest.fixture
def parent(tmp_path: Path, log_folder: str) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """Start another process that serves; how it waits is the argument."""
    started = []

    def start(mode: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(DATA / "serving_parent.py"), MODEL, log_folder, mode]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.faults
@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("alone", signal.SIGKILL),
        ("forked", signal.SIGKILL),
        ("alone", signal.SIGTERM),
        ("alone", signal.SIGINT),
        ("alone", signal.SIGHUP),
    ],
)
def test_a_killed_parent_leaves_no_process(
    mode: str, number: signal.Signals, parent: Callable[[str], Any], pids_path: Path
) -> None:
    process = parent(mode)
    pids = running(pids_path)
    assert len(pids) == 3
    process.send_signal(number)
    assert process.wait(WAIT_S) != 0
    end_of(pids)


def test_a_parent_that_forked_stops_its_server(parent: Callable[[str], Any], pids_path: Path) -> None:
    process = parent("forked")
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.wait(WAIT_S) == 0
    assert running(pids_path) == []


@pytest.mark.faults
def test_a_killed_guard_takes_the_server_along(tmp_path: Path, log_folder: str, pids_path: Path) -> None:
    endpoints = (("tiny", EndpointSettings("vllm", MODEL)),)
    models = ModelsSettings(endpoints, (("policy", "tiny"),), ":memory:", str(tmp_path), str(tmp_path))
    with serving(models, log_folder):
        server = running(pids_path)[0]
        guard = int(Path(f"/proc/{server}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        end_of([server])
    for pid in running(pids_path):
        os.kill(pid, signal.SIGKILL)
