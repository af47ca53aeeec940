"""Sandboxes for the tests: one for each set of limits, and the state of the host that no program may change."""

import contextlib
import io
import os
import time
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


def host_state() -> dict[str, set[object]]:
    """What of this machine a program may not change: processes, mounts, groups, queues and memory of the system, names,
    open files, and the folders that it might reach. Each is a set, so that what a program left can be told from what
    other tests, here and in other processes, end meanwhile.
    """
    mine = psutil.Process()
    return {
        "processes": {each.pid for each in mine.children(recursive=True)},
        "mounts": {line for line in lines_of("/proc/self/mountinfo") if "/pytest-of-" not in line},
        "groups": {str(f) for parent in parents().values() for f in parent.glob(f"*{os.getpid()}*")},
        "shm": lines_of("/proc/sysvipc/shm"),
        "keys": set(Path("/dev/shm").glob("*")),
        "names": {os.uname().nodename, *Path("/sys/class/net").glob("*")},
        "open files": set(open_files()),
        "threads": {each.id for each in mine.threads()},
    }


def lines_of(path: str) -> set[object]:
    return set(Path(path).read_text("utf-8").splitlines())


def open_files() -> Iterator[tuple[str, str]]:
    """Numbers and targets of this process's descriptors, without the one that lists them."""
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield file.name, str(file.readlink())


def changed_on_the_host(before: dict[str, set[object]], timeout_s: float = 20) -> dict[str, set[object]]:
    """What is new since `before` and remains for `timeout_s`, and the mounts and names that are gone."""
    end = time.monotonic() + timeout_s
    while True:
        now = host_state()
        changed = {kind: now[kind] - before[kind] for kind in now}
        for kind in ("mounts", "names"):
            changed[kind] |= before[kind] - now[kind]
        changed = {kind: found for kind, found in changed.items() if found}
        if not changed or time.monotonic() > end:
            return changed
        time.sleep(0.2)
