"""Sandboxes for the tests: one for each set of limits, and the state of the host that no program may change."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from PIL import Image

from groundtrace.sandbox import Sandbox, SandboxSettings, Session
from groundtrace.sandbox.groups import parents

LIMITS = SandboxSettings(call_timeout_s=4.0, memory_mb=512, sessions=4, warm=1)


def encoded(color: str = "red", size: tuple[int, int] = (200, 100)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as made:
        yield made


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[Session]:
    with sandbox.open([encoded()]) as opened:
        yield opened


def host_state() -> dict[str, object]:
    """What of this machine a program may not change: processes, mounts, groups, queues and memory of the system, names,
    open files, and the folders that it might reach.
    """
    mine = psutil.Process()
    return {
        "processes": sorted(each.pid for each in mine.children(recursive=True)),
        "mounts": Path("/proc/self/mountinfo").read_text("utf-8"),
        "groups": sorted(str(f) for parent in parents().values() for f in parent.glob(f"*{os.getpid()}*")),
        "shm": Path("/proc/sysvipc/shm").read_text("ascii"),
        "keys": sorted(Path("/dev/shm").glob("*")),
        "names": (os.uname().nodename, sorted(Path("/sys/class/net").glob("*"))),
        "open files": mine.num_fds(),
        "threads": mine.num_threads(),
    }
