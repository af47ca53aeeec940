"""The template of a command's workers, which the command forks from itself."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import colorsys, os, subprocess, sys, threading
from groundtrace.pipelines.running.execute import worker_forks as forks

{before}
forks.fork_template()
forked = forks._forked
template = forks.Template(sys.executable, "import calendar", {work!r})
with template.running():
    codes = [subprocess.run(template.command, shell=True).returncode for _ in range(2)]
assert forks._forked is None
print(codes, forked is not None, template.failure())
"""
WORK = "import os, sys; print(os.getppid(), 'colorsys' in sys.modules, 'calendar' in sys.modules, flush=True)"


def is_running(process_id: int) -> bool:
    """Whether a process runs; one that has ended, but that nobody has waited for, does not."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ran(tmp_path: Path, work: str, before: str = "") -> tuple[list[str], str]:
    program = PROGRAM.format(work=work, before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    return done.stdout.splitlines(), done.stderr


def test_workers_have_what_the_command_has_imported(tmp_path: Path) -> None:
    (*workers, end), err = ran(tmp_path, WORK)
    assert end.strip() == "[0, 0] True" and err == ""
    assert len(workers) == 2 and {worker.split()[0] for worker in workers} == {workers[0].split()[0]}
    assert all(worker.split()[1:] == ["True", "True"] for worker in workers)


def test_a_process_with_threads_starts_a_new_template(tmp_path: Path) -> None:
    (*workers, end), err = ran(tmp_path, WORK, "threading.Thread(target=threading.Event().wait, daemon=True).start()")
    assert end.strip() == "[0, 0] False" and err == ""
    assert all(worker.split()[1:] == ["False", "True"] for worker in workers)


def test_a_new_template_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    for name in ("signal", "socketserver", "calendar"):
        (tmp_path / f"{name}.py").write_text(f"open('foreign', 'a').write('{name} ')")
    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    program = PROGRAM.format(work="print('worked', flush=True)", before=thread)
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[:2] == ["worked", "worked"] and "[0, 0] False" in done.stdout
    assert not (tmp_path / "foreign").exists()


def test_the_error_of_a_worker_is_kept(tmp_path: Path) -> None:
    lines, _ = ran(tmp_path, "raise ValueError('no\\nluck')")
    assert lines == ["[1, 1] True ValueError: no\\nluck"]


def test_an_error_of_the_imports_is_printed_and_ends_the_clients(tmp_path: Path) -> None:
    program = PROGRAM.format(work=WORK, before="").replace("import calendar", "import no_such_module")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60
    )
    assert "[1, 1] True" in done.stdout and "No module named 'no_such_module'" in done.stderr


@pytest.mark.parametrize("end", ["pass", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_template_without_a_run_ends_with_its_command(end: str, tmp_path: Path) -> None:
    code = "import os; from groundtrace.pipelines.running.execute import worker_forks as forks; forks.fork_template();"
    code += f"print(forks._forked[0], flush=True); {end}"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    limit_s = time.monotonic() + 20
    while is_running(int(done.stdout)):
        assert time.monotonic() < limit_s
        time.sleep(0.01)
