"""Tests the sandbox on this machine with programs that try to escape from it.

In a correct sandbox, none of the programs succeeds.
"""

import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from groundtrace.sandbox.errors import SandboxLost
from groundtrace.sandbox.sandbox import Sandbox
from groundtrace.sandbox.settings import SandboxSettings

_LIMITS = SandboxSettings(call_timeout_s=3.0, memory_mb=512, sessions=1, warm=1)
_LATE_S = 5.0
"""The number of seconds within which the sandbox must end a call after the call's time limit. If the sandbox needs
longer, the program counts as escaped.
"""
_SECRET = "a secret of this machine"
ESCAPED = "ESCAPED"
PROGRAMS = {
    "read a file of this machine": f"print('{ESCAPED}', open(FILE).read())",
    "write to a file of this machine": "open(FILE, 'w').write('x')",
    "write to the system": f"import os; open(os.__file__, 'a'); print('{ESCAPED}')",
    "connect to this machine": f"import socket; socket.create_connection(('127.0.0.1', PORT), 2); print('{ESCAPED}')",
    "start a program": f"import subprocess; subprocess.run(['/bin/sh', '-c', 'true']); print('{ESCAPED}')",
    "signal other processes": f"import os; os.kill(os.getppid(), 9); print('{ESCAPED}')",
    "make a namespace": f"import ctypes; print('{ESCAPED}' if ctypes.CDLL(None).unshare(0x10000000) == 0 else '')",
    "start processes without end": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "take all memory": "held = []\nwhile True: held.append(bytearray(1 << 24))",
    "fill the disk": "n = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'wb').write(bytes(1 << 22))",
    "never end": "while True: pass",
}


@dataclass(frozen=True)
class TrialOutcome:
    """Holds the result of one program that tried to escape from the sandbox.

    Attributes:
        name: what the program tries, such as "start a program".
        status: how its execution ended, such as ``error``; ``lost`` if its sandbox session could not continue.
        duration_s: how long the test took, in seconds.
        escaped: a description of how the program escaped; "" if it did not escape.
    """

    name: str
    status: str
    duration_s: float
    escaped: str


def trial() -> Iterator[TrialOutcome]:
    """Run each program that tries to escape from the sandbox, and yield the results, one after the other.

    Raises SandboxRefused if this machine cannot isolate code.
    """
    with tempfile.NamedTemporaryFile("w+") as file, socket.create_server(("127.0.0.1", 0)) as server:
        file.write(_SECRET)
        file.flush()
        Path(file.name).chmod(0o666)
        with Sandbox(_LIMITS) as sandbox:
            for name, program in PROGRAMS.items():
                code = f"FILE, PORT = {file.name!r}, {server.getsockname()[1]}\n{program}"
                yield _outcome(sandbox, name, code, Path(file.name))


def _outcome(sandbox: Sandbox, name: str, code: str, file: Path) -> TrialOutcome:
    began, status, escaped = time.monotonic(), "lost", ""
    with sandbox.open() as session:
        session.run("kept = 41")
        try:
            seen = session.run(code)
            status, escaped = seen.status, "it got what it wanted" if ESCAPED in seen.stdout else ""
            if session.run("print(kept)").stdout != "41\n":
                escaped = "it changed the state of the trajectory"
        except SandboxLost as error:
            escaped = f"the trajectory is lost: {error}"
    duration_s = time.monotonic() - began
    if duration_s > _LIMITS.call_timeout_s + _LATE_S:
        escaped = escaped or "it ran on after its time"
    if file.read_text("utf-8") != _SECRET:
        escaped = "it wrote to a file of this machine"
    return TrialOutcome(name, status, duration_s, escaped)
