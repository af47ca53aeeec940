"""The process of a step: its output, its exit code, and how it ends with its loop."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from groundtrace.pipelines.loop import process as module
from groundtrace.pipelines.loop.process import run_process
from groundtrace.schemas.loop_step import step_environment
from groundtrace.schemas.safe_files import UnsafeFile

STEP = """
import os, signal, sys, time
if sys.argv[1] == "fail":
    print("out"); print("err", file=sys.stderr); sys.exit(7)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "orphan":
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print(os.getpid(), flush=True); sys.exit(0)
def stop(number, frame):
    open(sys.argv[2], "a").write("saved\\n"); sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(60)
"""
LOOP = """
import sys, signal
from pathlib import Path
from groundtrace.pipelines.loop import process
process.PROGRAMS = {"step": "a_step"}
try:
    process.run_process(["step", "wait", sys.argv[1]], Path(sys.argv[2]), {})
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture(autouse=True)
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a_step.py").write_text(textwrap.dedent(STEP))
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *([before] if before else [])]))
    monkeypatch.setattr(module, "PROGRAMS", {"step": "a_step"})
    return tmp_path


def test_output_goes_to_the_terminal_and_to_the_log(step: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = step / "logs/one.log"
    assert run_process(["step", "fail"], log, {}) == 7
    assert sorted(log.read_text().split()) == ["err", "out"]
    assert sorted(capfd.readouterr().err.split()) == ["err", "out"]


def test_a_step_gets_environment_variables(step: Path) -> None:
    (step / "a_step.py").write_text("import os; print(os.environ['OF_STEP'], 'PATH' in os.environ)")
    assert run_process(["step", "x"], step / "logs/one.log", {"OF_STEP": "yes"}) == 0
    assert (step / "logs/one.log").read_text() == "yes True\n", "and those of the loop"


def test_a_file_beside_the_users_config_does_not_replace_a_module_of_python(step: Path) -> None:
    """A plug-in beside the user's config is found, although the config of the step is a copy in another folder."""
    beside = step / "beside"
    beside.mkdir()
    (beside / "mine.py").write_text("PART = 'found'\n")
    (beside / "statistics.py").write_text("")
    (step / "a_step.py").write_text(
        "from groundtrace.schemas.registry import load\nprint(load('mine:PART'))\n"
        "import statistics\nprint(statistics.mean([1, 2, 3]))\n"
    )
    assert run_process(["step", "x"], step / "one.log", step_environment("curate", [str(beside)])) == 0
    assert (step / "one.log").read_text() == "found\n2\n"
    assert run_process(["step", "x"], step / "one.log", step_environment("sft")) == 1, "of another config"


def test_a_log_is_replaced(step: Path) -> None:
    log = step / "logs/one.log"
    for _ in range(2):
        run_process(["step", "fail"], log, {})
    assert sorted(log.read_text().split()) == ["err", "out"]


def test_a_log_that_is_no_file_of_the_loop_is_refused(step: Path) -> None:
    (step / "own").write_text("of the user")
    (step / "link.log").symlink_to(step / "own")
    os.mkfifo(step / "pipe.log")
    for name in ("link.log", "pipe.log"):
        with pytest.raises(UnsafeFile):
            run_process(["step", "fail"], step / name, {})
    assert (step / "own").read_text() == "of the user"


def test_a_killed_step(step: Path) -> None:
    assert run_process(["step", "killed"], step / "log", {}) == -signal.SIGKILL


def test_a_process_that_a_step_left_does_not_hold_the_loop(step: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.3)
    started_s = time.monotonic()
    assert run_process(["step", "orphan"], step / "log", {}) == 0
    assert time.monotonic() - started_s < 20
    os.killpg(int((step / "log").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(
            signal.SIGKILL, -9, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the child")
        ),
    ],
)
def test_a_step_saves_when_its_loop_is_stopped(number: signal.Signals, code: int, step: Path) -> None:
    loop = subprocess.Popen([sys.executable, "-c", LOOP, str(step / "saved"), str(step / "log")])
    _await(lambda: (step / "log").exists() and "ready" in (step / "log").read_text())
    loop.send_signal(number)
    assert loop.wait(30) == code
    _await(lambda: (step / "saved").exists())
    time.sleep(0.2)
    assert (step / "saved").read_text() == "saved\n", "it was stopped once"


def test_a_second_interrupt_kills_a_step_that_does_not_end(step: Path) -> None:
    (step / "a_step.py").write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    loop = subprocess.Popen([sys.executable, "-c", LOOP, str(step / "saved"), str(step / "log")])
    _await(lambda: (step / "log").exists() and "ready" in (step / "log").read_text())
    loop.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        loop.wait(1)
    loop.send_signal(signal.SIGINT)
    assert loop.wait(30) == 130


def _await(is_so: object) -> None:
    ends_s = time.monotonic() + 30
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < ends_s
        time.sleep(0.05)
