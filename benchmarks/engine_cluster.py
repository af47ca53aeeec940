"""Starts a Beam engine on this machine with scripts/: its processes, and the Beam options of a run on it."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT_LIMIT_S = 900
PORTS = 12


@dataclass(frozen=True)
class Cluster:
    """A running engine: the folder of its processes' ids and logs, Beam options for runs on it, and its environment."""

    state: Path
    options: tuple[str, ...]
    environment: dict[str, str]

    def pid(self, name: str) -> int:
        """Return the process id of one of its processes."""
        return int((self.state / f"{name}.pid").read_text())

    def log(self, name: str) -> str:
        """Return the log of one of its processes so far."""
        return (self.state / f"{name}.log").read_text("utf-8", "replace")

    def kill(self, name: str) -> None:
        """Kill one of its processes (SIGKILL), as the kernel does if memory is short."""
        os.kill(self.pid(name), signal.SIGKILL)

    def restart(self, engine: str) -> None:
        """Stop its remaining processes and start it again, on the same ports."""
        run_script(engine, "stop", self.environment)
        run_script(engine, "start", self.environment)


def free_ports() -> int:
    """Return the first of ``PORTS`` consecutive free ports, below the ports that the system assigns to connections."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for number in range(port, port + PORTS):
                held.enter_context(socket.socket()).bind(("127.0.0.1", number))
            return port


@contextmanager
def started(engine: str, state: Path, **environment: str) -> Iterator[Cluster]:
    """Start an engine of scripts/; stop it at the end of the block. Raises RuntimeError if it does not start."""
    env = os.environ | {"ENGINE_STATE": str(state), "ENGINE_PORT": str(free_ports()), "PYTHON": sys.executable}
    env |= environment
    try:
        yield Cluster(state, tuple(run_script(engine, "start", env).split()), env)
    finally:
        run_script(engine, "stop", env)


def run_script(engine: str, name: str, environment: dict[str, str]) -> str:
    """Run one of the engine's scripts; returns its output. Raises RuntimeError if it fails."""
    script = ROOT / "scripts" / engine / f"{name}.sh"
    ran = subprocess.run([script], env=environment, capture_output=True, text=True, timeout=SCRIPT_LIMIT_S, check=False)
    if ran.returncode:
        raise RuntimeError(f"{engine}: {name}: {ran.stderr}")
    return ran.stdout
