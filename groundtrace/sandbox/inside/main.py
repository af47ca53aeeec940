"""Runs in the sandbox, and answers the requests of the host.

The host is the process that opened the sandbox. Its requests arrive on stdin, and the answers are written to stdout.
"""

import contextlib
import os
import sys
from typing import Any

from . import frames, holder, kernel, processes
from .supervisor import Supervisor


def _exactly(size: int) -> bytes:
    """Return exactly ``size`` bytes from the host. Raises EOFError if the host has closed the pipe."""
    found = bytearray()
    while len(found) < size:
        data = os.read(0, size - len(found))
        if not data:
            raise EOFError
        found += data
    return bytes(found)


def _reply(header: dict[str, Any], parts: list[bytes]) -> None:
    data = memoryview(frames.pack(header, parts))
    while data:
        data = data[os.write(1, data) :]


def main() -> None:
    """Answer the host's requests until the host closes one of the pipes.

    The host is the process that opened the sandbox. Requests are read from stdin, and answers are written to stdout. If
    an error occurs, the last answer has the field ``lost`` with the error.
    """
    try:
        header, parts = frames.read(_exactly, frames.MAX_HEADER)
        if header["uid"]:
            processes.become(header["uid"], holder.FOLDER)
        kernel.hide_memory()
        kernel.adopt_orphans()
        sys.path += header["paths"]
        max_bytes = header["max_bytes"]
        supervisor = Supervisor(header["limits"])
        _reply({"landlock": supervisor.start(parts[0], header["readable"])}, [])
        while True:
            header, parts = frames.read(_exactly, max_bytes)
            if header["do"] == "open":
                supervisor.open(parts)
                _reply({"opened": True}, [])
            else:
                _reply(*supervisor.run(parts[0].decode("utf-8", "surrogatepass"), header["timeout_s"]))
                supervisor.settle()
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        with contextlib.suppress(OSError):
            _reply({"lost": f"{type(error).__name__}: {error}"[:500]}, [])
