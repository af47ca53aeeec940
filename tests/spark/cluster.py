"""Runs on a Spark cluster of this machine, which scripts/spark starts, against a model server that counts."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))  # they have the input and the server that runs are killed with
from bench_kill import CONFIG, PIPELINE, ROLES, write_input  # noqa: E402
from model_access import Server, serving  # noqa: E402

RECORDS, SHARDS, WINDOW = 500, 4, 32
RUN_LIMIT_S = 400
PORTS = 12


@dataclass(frozen=True)
class Cluster:
    """A running engine: its processes' files, and the Beam options of a run on it."""

    state: Path
    options: tuple[str, ...]
    environment: dict[str, str]

    def pid(self, name: str) -> int:
        """The process id of one of its processes."""
        return int((self.state / f"{name}.pid").read_text())

    def kill_executor(self) -> None:
        """Kill the first worker's executor as the system does when memory is short; waits until there is one."""
        worker = self.pid("worker1")
        until = time.monotonic() + 60
        while not (found := children_of(worker)):
            if time.monotonic() > until:
                raise TimeoutError("no executor came up")
            time.sleep(0.1)
        os.kill(found[0], signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """The processes that any thread of a process has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


def free_ports() -> int:
    """The first of a row of free ports."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
        if port + PORTS < 32768 or port + PORTS > 65535:
            continue
        try:
            for number in range(port, port + PORTS):
                with socket.socket() as each:
                    each.bind(("127.0.0.1", number))
        except OSError:
            continue
        return port


@contextmanager
def started(engine: str, state: Path, **environment: str) -> Iterator[Cluster]:
    """An engine of scripts/, which ends with the block. Raises RuntimeError when it does not start."""
    env = os.environ | {"ENGINE_STATE": str(state), "ENGINE_PORT": str(free_ports()), "PYTHON": sys.executable}
    env |= environment
    begun = subprocess.run(
        [ROOT / "scripts" / engine / "start.sh"], env=env, capture_output=True, text=True, timeout=180
    )
    try:
        if begun.returncode:
            raise RuntimeError(f"{engine} does not start: {begun.stderr}")
        yield Cluster(state, tuple(begun.stdout.split()), env)
    finally:
        subprocess.run([ROOT / "scripts" / engine / "stop.sh"], env=env, check=True, timeout=120)


@dataclass(frozen=True)
class Outcome:
    """What a run left: exit code and output, counts, calls of its ledger, digests of its sft and rl files."""

    code: int
    said: str
    counts: dict[str, Any]
    calls: dict[str, int]
    files: dict[str, str]

    @property
    def ends(self) -> int:
        """How many records have an end."""
        rejected = sum(sum(reasons.values()) for reasons in self.counts["rejected"].values())
        return self.counts["sft"] + self.counts["rl"] + rejected


@dataclass(frozen=True)
class Bench:
    """An input, a counting server and the folder of the runs."""

    folder: Path
    server: Server

    def begin(self, name: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """Start ``beam run`` into a folder of that name, with a cache beside it."""
        command = [sys.executable, "-m", "pipelines", "run", PIPELINE, "--input", self.folder / "input"]
        command += ["--output", self.folder / name, "--cache", self.folder / f"{name}-cache"]
        command += ["--config", self.folder / "config.toml", *(["--", *options] if options else [])]
        return subprocess.Popen(
            list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def end(self, name: str, process: "subprocess.Popen[str]") -> Outcome:
        """Wait for the run; what it left."""
        said, _ = process.communicate(timeout=RUN_LIMIT_S)
        run = self.folder / name
        if process.returncode:
            return Outcome(process.returncode, said, {}, {}, {})
        summary = json.loads((run / "run.json").read_text("utf-8"))
        paths = sorted(path for side in ("sft", "rl") for path in (run / side).glob("*.parquet"))
        files = {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
        calls = {role: entry["calls"] for role, entry in summary["ledger"].items()}
        return Outcome(0, said, summary["counts"], calls, files)

    def run(self, name: str, options: tuple[str, ...] = ()) -> Outcome:
        """Run to the end."""
        return self.end(name, self.begin(name, options))

    def requests(self) -> int:
        """How many requests the server has counted since it was last told to forget."""
        return self.server.ask("figures")["requests"]


@contextmanager
def bench(folder: Path, latency_s: float = 0.1) -> Iterator[Bench]:
    """The input and the server."""
    write_input(folder / "input", RECORDS)
    with serving("--script", "--latency-s", str(latency_s)) as server:
        roles = "\n".join(f'{role} = "server"' for role in ROLES)
        config = CONFIG.format(url=server.base_url, window=WINDOW, samples=16, roles=roles)
        (folder / "config.toml").write_text(f"{config}\n[write]\nshards = {SHARDS}\n", "utf-8")
        yield Bench(folder, server)
