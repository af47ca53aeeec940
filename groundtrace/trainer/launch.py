"""Starts a training on several GPUs. Each GPU has one process, which is called a *rank*.

All ranks end together. If a rank fails or dies, the launcher (the process that started them) ends the other ranks. It
then shows one line about the rank that failed first, and returns the exit code of this rank. If a signal killed this
rank, the exit code is 128 plus the signal's number. The launcher passes signals on to all ranks. If the launcher is
killed, its ranks end immediately.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from groundtrace.schemas.errors import UserError
from groundtrace.trainer.ranks import ENV, Place, Report

GRACE_S = 30.0
"""The number of seconds after which the other ranks are killed, if they do not end after one rank has failed."""
_POLL_S = 0.05
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ranks:
    """Starts and watches the processes (ranks) of a training on several GPUs.

    ``words`` are the arguments of the ``trainer`` command in each process. ``gpus`` is the number of processes. The
    first rank writes to the terminal. The other ranks write to log files in ``folder``, or to the terminal if
    ``is_verbose`` is True.
    """

    def __init__(self, words: Sequence[str], gpus: int, folder: Path, is_verbose: bool = False) -> None:
        self._folder, self._gpus = folder, gpus
        self._store = _store()
        self._read_fd, self._write_fd = os.pipe()
        self._ended: list[int] = []
        self._signals = 0
        self.processes = [self._start(words, index, is_verbose) for index in range(gpus)]
        os.close(self._read_fd)

    def _start(self, words: Sequence[str], index: int, is_verbose: bool) -> "subprocess.Popen[bytes]":
        place = Place(index, self._gpus, self._store.port, self._read_fd, str(self._folder / f"report-{index}.json"))
        own = {ENV: json.dumps(asdict(place))}
        threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // self._gpus))}
        # -P: a module in the current folder, such as a stranger's data folder, cannot take the place of one of ours
        command = [sys.executable, "-P", "-m", "groundtrace.trainer.cli", *words]
        with contextlib.ExitStack() as stack:
            log = None
            if index and not is_verbose:
                log = stack.enter_context((self._folder / f"rank-{index}.log").open("wb"))
            return subprocess.Popen(
                command,
                env=threads | os.environ | own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[self._read_fd],
                start_new_session=True,  # the terminal's signals reach the launcher alone, which passes them on once
            )

    def wait(self) -> Report | None:
        """Wait until all processes (ranks) have ended, and return the failure of the rank that failed first.

        The result is None if no rank failed. Ranks that ended only because another rank failed are ignored, unless all
        failed ranks are of this kind. If a rank fails, the other ranks that are still running after ``GRACE_S`` seconds
        are killed.
        """
        with self._forwarding():
            kill_at_s: float | None = None
            while len(self._ended) < self._gpus:
                running = [number for number in range(self._gpus) if number not in self._ended]
                self._ended += [number for number in running if self.processes[number].poll() is not None]
                if kill_at_s is None and any(self.processes[number].returncode for number in self._ended):
                    kill_at_s = time.monotonic() + GRACE_S
                if kill_at_s is not None and time.monotonic() > kill_at_s:
                    self.kill()
                time.sleep(_POLL_S)
        failed = [number for number in self._ended if self.processes[number].returncode]
        reports = [self._report_of(number) for number in failed]
        return next((report for report in reports if not report.is_elsewhere), reports[0] if reports else None)

    def kill(self) -> None:
        """Kill all processes (ranks) of the training that are still running, without waiting for their end."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()

    def close(self) -> None:
        """Kill all processes (ranks) that are still running, wait for their end, and close the pipe to them.

        Each rank watches this pipe, and ends if the launcher (the process that started the ranks) has ended.
        """
        self.kill()
        for process in self.processes:
            process.wait()
        with contextlib.suppress(OSError):
            os.close(self._write_fd)

    def _report_of(self, number: int) -> Report:
        path = self._folder / f"report-{number}.json"
        if path.is_file():
            return Report(**json.loads(path.read_text("utf-8")))
        code, log = self.processes[number].returncode, self._folder / f"rank-{number}.log"
        ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with the exit code {code}"
        lines = log.read_text("utf-8", errors="replace").split("\n") if log.is_file() else []
        last = next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
        cause = f" (its last line: {last})" if last and code > 0 else ""
        return Report(128 - code if code < 0 else code, f"the process of GPU {number} {ended}{cause}", is_dead=True)

    @contextlib.contextmanager
    def _forwarding(self) -> Iterator[None]:
        """Handle signals while the body of the ``with`` runs.

        The first signal is passed on to all ranks (training processes). If a second signal arrives, all ranks are
        killed.
        """
        heard = [number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._forward) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward(self, number: int, _: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            self.kill()
            return
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)


def _store() -> Any:
    """Return a TCP store (``TCPStore`` of torch), by which the ranks (training processes) exchange values.

    The store listens on 127.0.0.1, so only this machine can reach it. By default, torch's store listens on all network
    addresses of the machine.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    how = {"is_master": True, "wait_for_workers": False, "master_listen_fd": listener.detach()}
    return dist.TCPStore("127.0.0.1", port, **how)  # type: ignore[reportPrivateImportUsage] (it is documented)


def launch(words: Sequence[str], gpus: int, is_verbose: bool = False) -> Report | None:
    """Run a training on several GPUs; return the failure of the rank that failed first, or None if none failed.

    ``words`` are the arguments of the ``trainer`` command, without the program's name. ``gpus`` is the number of GPUs,
    each with one process (rank). If ``is_verbose`` is True, all ranks write to the terminal, else only the first. On a
    machine without a GPU, the ranks use the CPU, and a line about this is printed. Raises UserError if the machine has
    too few GPUs.
    """
    if not torch.cuda.is_available():
        print(
            f"trainer: torch finds no GPU on this machine, so the {gpus} processes of --gpus use the CPU",
            file=sys.stderr,
        )
    elif gpus > torch.cuda.device_count():
        raise UserError(
            f"--gpus is {gpus}, but the number of GPUs of this machine is {torch.cuda.device_count()}: lower --gpus"
        )
    with tempfile.TemporaryDirectory(prefix="groundtrace-ranks-") as folder:
        running = Ranks(words, gpus, Path(folder), is_verbose)
        try:
            return running.wait()
        finally:
            running.close()
