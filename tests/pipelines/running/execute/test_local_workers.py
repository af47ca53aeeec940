"""Worker processes of this machine: none outlives its run, and a run does not wait for one that was killed."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import apache_beam as beam
import pytest

from groundtrace.inference.open_files import TooFewFiles
from groundtrace.pipelines.running.endings import RunPaused
from groundtrace.pipelines.running.execute.runner import choose_runner  # with the modules that declare records
from groundtrace.pipelines.running.plan.loading import PipelineError
from groundtrace.pipelines.running.plan.options import pipeline_options  # with the modules that declare records

pytestmark = pytest.mark.faults

FLAGS = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
PATIENCE_S = 20.0


def note_and_die(path: str) -> None:
    """In a worker: say which process this is, and be killed."""
    (Path(path) / str(os.getpid())).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def note_and_sleep(path: str) -> None:
    """In a worker: say which process this is, and work for ever."""
    (Path(path) / str(os.getpid())).touch()
    time.sleep(600)


def note_and_wait(path: str) -> None:
    """In a worker: work for some seconds, and make a file."""
    time.sleep(4)
    Path(path).touch()


def note(path: str) -> None:
    """In a worker: make a file."""
    Path(path).touch()


def run(work: str, folder: str) -> None:
    """A job of one element on worker processes."""
    options = pipeline_options(FLAGS)
    pipeline = beam.Pipeline(runner=choose_runner(options), options=options)
    _ = pipeline | beam.Create([folder]) | beam.Map(globals()[work])
    pipeline.run()


def ended(folder: Path) -> bool:
    """Whether the processes that noted themselves in the folder have ended, soon."""
    pids = [int(path.name) for path in folder.iterdir()]
    assert pids, "no worker began"
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        if not any(Path(f"/proc/{pid}/cmdline").is_file() and _is_alive(pid) for pid in pids):
            return True
        time.sleep(0.1)
    return False


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_killed_worker_ends_the_run(tmp_path: Path) -> None:
    began_s = time.monotonic()
    with pytest.raises(RunPaused, match=r"a worker process was killed \(.+\), usually because memory ran out: run the"):
        run("note_and_die", str(tmp_path))
    assert time.monotonic() - began_s < 60
    assert ended(tmp_path)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_command(tmp_path: Path, stop: signal.Signals) -> None:
    code = f"from {__name__} import run; run('note_and_sleep', {str(tmp_path)!r})"
    temporary = tmp_path.with_name(f"{tmp_path.name}-temporary")
    temporary.mkdir()
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary)}
    command = subprocess.Popen([sys.executable, "-c", code], env=where, stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < end_s:
            time.sleep(0.1)
        command.send_signal(stop)
        command.wait(PATIENCE_S)
        assert ended(tmp_path)
        end_s = time.monotonic() + PATIENCE_S
        while list(temporary.glob("groundtrace-workers-*")) and time.monotonic() < end_s:
            time.sleep(0.1)
        assert not list(temporary.glob("groundtrace-workers-*")), "the folder of the workers is left"
    finally:
        command.kill()


def test_the_run_ends_if_the_process_that_forks_workers_is_killed(tmp_path: Path) -> None:
    def kill_template() -> None:
        while not (notes := list(tmp_path.iterdir())):
            time.sleep(0.1)
        os.kill(int(Path(f"/proc/{notes[0].name}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)

    killer = threading.Thread(target=kill_template, daemon=True)
    killer.start()
    with pytest.raises(RunPaused, match="a worker process was killed"):
        run("note_and_sleep", str(tmp_path))
    killer.join()
    assert ended(tmp_path)


@pytest.mark.parametrize("name", ["x" * 100, "ü" * 50, "odd {name} 'of' \"a\" folder", "not UTF-8 \udcff"])
def test_a_run_works_with_any_folder_of_temporary_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    run("note", str(tmp_path / "noted"))
    assert (tmp_path / "noted").is_file()


@pytest.mark.parametrize("line", ["raise RuntimeError('not here')", "import sys; sys.exit('not here')"])
def test_a_module_that_fails_only_in_a_worker_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "only_in_the_driver.py"
    file.write_text(f"import os\nif os.getpid() != {os.getpid()}:\n    {line}\n", "utf-8")
    options = pipeline_options(FLAGS)
    pipeline = beam.Pipeline(runner=choose_runner(options, file), options=options)
    _ = pipeline | beam.Create([str(tmp_path / "noted")]) | beam.Map(note)
    with pytest.raises(PipelineError, match=r"a worker process cannot start: .*only_in_the_driver.*not here"):
        pipeline.run()


def test_a_signal_of_another_program_does_not_end_the_run(tmp_path: Path) -> None:
    threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    run("note_and_wait", str(tmp_path / "noted"))
    assert (tmp_path / "noted").is_file()


def test_too_few_open_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    with pytest.raises(TooFewFiles, match="worker processes need 64 open files, but this process may open only 20"):
        choose_runner(pipeline_options(FLAGS))
