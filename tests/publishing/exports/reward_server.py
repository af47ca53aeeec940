"""A reward server as users start it, beside tests that ask it."""

import subprocess
import sys
import threading
from pathlib import Path

from tests.publishing.exports.made_runs import ROOT


class Server:
    """``beam serve-reward`` as a process on one port."""

    def __init__(self, config: Path, run: Path, port: int) -> None:
        words = ["serve-reward", "--config", str(config), "--data", str(run), "--port", str(port)]
        command = [sys.executable, "-m", "groundtrace", *words]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        lines = iter(self.process.stderr.readline, "")
        assert any("serving argos" in line for line in lines), "the server did not start"
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
