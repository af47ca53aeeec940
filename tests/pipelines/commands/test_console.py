"""The end of the ``beam`` process: what a Python program does at its end, without freeing every object."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import atexit, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from groundtrace.pipelines.commands import console

class Freed:
    def __del__(self):
        sys.stderr.write("freed;")
        sys.stderr.flush()

freed = Freed()
pool = ThreadPoolExecutor(1)

def run(_=None):
    threading.Thread(target=lambda: (time.sleep(0.3), print("thread", end=";"))).start()
    pool.submit(lambda: (time.sleep(0.2), print("pool", end=";")))
    atexit.register(lambda: print("atexit", end=";"))
    print("main", end=";")
    {body}
    return {code}

console.run_command = run
console.main()
"""


def ended(body: str = "pass", code: int = 0, **outputs: object) -> "subprocess.CompletedProcess[str]":
    script = SCRIPT.format(body=body, code=code)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | outputs
    return subprocess.run([sys.executable, "-c", script], text=True, check=False, timeout=60, **pipes)  # type: ignore[call-overload]


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_threads_and_exit_functions_run_to_their_end_and_objects_are_not_freed(code: int) -> None:
    done = ended(code=code)
    assert (done.returncode, done.stdout, done.stderr) == (code, "main;pool;thread;atexit;", "")


def test_with_a_child_process_python_ends_as_usual() -> None:
    done = ended(body="run.child = subprocess.Popen(['sleep', '2'])", code=3)
    assert (done.returncode, done.stdout, done.stderr) == (3, "main;pool;thread;atexit;", "freed;")


def test_where_children_cannot_be_seen_python_ends_as_usual() -> None:
    """As on macOS before Python 3.13."""
    done = ended(body="del console.os.waitid", code=3)
    assert (done.returncode, done.stdout, done.stderr) == (3, "main;pool;thread;atexit;", "freed;")


def test_an_interrupt_while_the_command_is_imported_is_one_line() -> None:
    script = """
import sys
from groundtrace.pipelines.commands import console

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "groundtrace.pipelines.commands.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
console.main()
"""
    done = subprocess.run([sys.executable, "-c", script], text=True, check=False, timeout=60, capture_output=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "beam: interrupted; run the same command again\n"


def test_an_error_of_the_command_is_raised_as_usual() -> None:
    done = ended(body="raise SystemExit(141)")
    assert (done.returncode, done.stderr) == (141, "freed;")


@pytest.mark.slow
def test_a_full_disk_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "groundtrace", "config"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "beam: a disk is full: OSError: [Errno 28] No space left on device\n")


def test_a_reader_that_is_slow_gets_everything() -> None:
    """More output than a pipe holds is flushed before the process ends."""
    script = SCRIPT.format(body="print('x' * 300_000, end=';')", code=0)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = process.stdout.read()
    assert text == "main;" + "x" * 300_000 + ";pool;thread;atexit;" and process.wait() == os.EX_OK


def test_closed_outputs_are_no_error() -> None:
    script = SCRIPT.format(body="print(1, file=sys.stderr); sys.stdout.isatty()", code=7)
    shell = "import os, sys; os.close(1); os.close(2); os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    assert subprocess.run([sys.executable, "-c", shell, script], check=False, timeout=60).returncode == 7
