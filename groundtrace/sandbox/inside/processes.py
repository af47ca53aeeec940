"""Lists the processes in the sandbox, as /proc shows them, and sets their resource limits and their user."""

import contextlib
import os
import resource
import signal
from collections.abc import Iterable
from typing import Any

MAX_OPEN_FILES = 256
_MAX_SIGNALS = 128
"""The maximum number of queued signals and timers. The kernel counts them for all processes of a user together, also
for those outside the sandbox.
"""
_MEMORY = ("RssAnon", "RssShmem", "VmSwap", "VmPTE")
_SOCKET_KIB = 208
"""The maximum size, in KiB, of the unread data in a socket. The kernel does not count this data as memory of any
process, so :func:`sockets_kib` estimates its size.
"""


def others() -> set[int]:
    """Return the ids of all processes in the sandbox except this process and process 1, which reaps ended processes."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}


def _status_of(pid: int, of: str = "status") -> dict[str, str]:
    """Return the fields in the status file of a process, or of one of its threads; empty if the process has ended.

    ``of`` is the path of the file below ``/proc/<pid>``. The result is a dict from the name of a field to its value.
    The file has one line "name: value" for each field. Only ``\\n`` ends a line, for this reason: a value can be the
    process's name, which the process chooses itself. If ``\\r`` also ended a line, a name with ``\\r`` could add false
    fields.
    """
    path = f"/proc/{pid}/{of}"
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    return {}


def running(pids: Iterable[int]) -> dict[int, int]:
    """Return those of the given processes that have not ended, as a dict from the process id to the id of its parent.

    Stopped processes are included. Zombies (processes that have ended but still have an entry in the system) are left
    out, except zombies that still have running threads. The status file of each process is read only once, since the
    process might end before it is read again.
    """
    found = {}
    for pid in pids:
        lines = _status_of(pid)
        if int(lines.get("Threads", "0")) > 1 or not lines.get("State", "Z").startswith(("Z", "X")):
            found[pid] = int(lines["PPid"])
    return found


def threads_of(pid: int) -> int:
    """Return the number of threads of the process with this id; 0 if the process has ended."""
    return int(_status_of(pid).get("Threads", "0"))


def memory_kib(pid: int) -> int:
    """Return the memory of the process with this id in KiB.

    The memory includes swap and page tables, but not mapped files. It is 0 if the process has ended.
    """
    lines = _status_of(pid)
    if "RssAnon" not in lines:  # its first thread has ended, the others have not
        with contextlib.suppress(OSError):
            found = (_status_of(pid, f"task/{thread}/status") for thread in os.listdir(f"/proc/{pid}/task"))
            lines = next((each for each in found if "RssAnon" in each), {})
    return sum(int(lines[name].split()[0]) for name in _MEMORY if name in lines)


def sockets_kib() -> int:
    """Return an estimate, in KiB, of the memory that the data in all Unix sockets of the sandbox uses.

    The estimate is the number of Unix sockets, multiplied by the maximum size of the unread data in a socket. So it is
    never too low. The result is 0 if the number of sockets cannot be read.
    """
    with contextlib.suppress(OSError), open("/proc/net/protocols", encoding="ascii") as file:
        return sum(int(line.split()[2]) for line in file if line.startswith("UNIX")) * _SOCKET_KIB
    return 0


def limit(limits: dict[str, Any]) -> None:
    """Set the resource limits of this process and of the processes that it starts.

    ``limits`` holds the limits by name, such as ``memory_mb``
    (:attr:`groundtrace.sandbox.settings.SandboxSettings.limits`).
    """
    for kind, most in (
        (resource.RLIMIT_NPROC, limits["max_processes"]),
        (resource.RLIMIT_DATA, limits["memory_mb"] << 20),
        (resource.RLIMIT_AS, limits["address_space_mb"] << 20),
        (resource.RLIMIT_FSIZE, limits["folder_mb"] << 20),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, _MAX_SIGNALS),
    ):
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows too large is an OSError


def become(uid: int, folder: str) -> None:
    """Change this process from the user root to the user with the id ``uid``, who becomes the owner of ``folder``."""
    os.chown(folder, uid, uid)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
