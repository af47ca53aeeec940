"""Creates control groups, a feature of the Linux kernel that limits the memory and the processes of a trajectory.

A trajectory is a series of calls (executions of code) that share their state. If this process may not create control
groups, the supervisor, which is the first process in the sandbox, measures the memory itself every 30 ms. The limit on
processes then applies to all processes of the user together.
"""

import contextlib
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "groundtrace-sandbox-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-\w+")
_WAIT_S = 2.0
_LIMITS = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max",)}
_SWAP = ("memory.memsw.limit_in_bytes", "memory.swap.max")


@dataclass(frozen=True)
class ControlGroup:
    """Holds the control group of a trajectory: the group's folders, and the names of the limits that are set.

    The names are ``memory`` (a limit on the memory) and ``pids`` (a limit on the number of processes).

    A control group is a feature of Linux; here it sets these limits for a trajectory, which is a series of executions
    of code. In version 2 of control groups, a group has one folder. In version 1, it has one folder for each
    controller. Without folders, there is no group and no limit.
    """

    folders: tuple[Path, ...] = ()
    controllers: frozenset[str] = field(default_factory=frozenset)

    @property
    def joining(self) -> list[str]:
        """Return the paths of the files to which a process must write its id to join the control group."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def out_of_memory_kills(self) -> int:
        """Return how many processes of the control group the kernel has killed because they needed too much memory.

        The result is 0 if there is no control group.
        """
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    found = re.search(r"^oom_kill (\d+)$", (folder / name).read_text("ascii"), re.MULTILINE)
                    if found:
                        return int(found[1])
        return 0

    def remove(self) -> None:
        """Remove the folders of the control group as soon as its processes have ended.

        If the processes do not end within 2 s, the folders stay, and no error is raised.
        """
        deadline = time.monotonic() + _WAIT_S
        for folder in self.folders:
            while folder.exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005 if folder.exists() else 0)


def parents() -> dict[str, Path]:
    """Return the folders in which this process may create control groups, by controller (``memory``, ``pids``).

    A controller is missing in the result if this process may not create groups with it.
    """
    found = {}
    for controller in ("memory", "pids"):
        for folder in _own_groups(controller):
            if os.access(folder, os.W_OK) and _passes_on(folder, controller):
                found[controller] = folder
                break
    return found


def _own_groups(controller: str) -> list[Path]:
    """Return the folders of the Linux control groups (cgroups) to which this process belongs.

    ``controller`` is the limited resource, ``memory`` or ``pids``. In version 1 of control groups, the process has a
    group for this controller; in version 2, it has one group for all controllers. The folder of a group has one of
    several possible paths. The result has those of these paths that exist.
    """
    folders = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                folders += [_ROOT / names / path.lstrip("/"), _ROOT / controller / path.lstrip("/")]
            elif not names:
                folders += [root / path.lstrip("/") for root in (_ROOT, _ROOT / "unified")]
    return [folder for folder in folders if folder.is_dir()]


def _passes_on(folder: Path, controller: str) -> bool:
    """Return whether new control groups in ``folder`` get the controller, so that a limit can be set for them.

    ``controller`` is ``memory`` or ``pids``. In version 2 of control groups, a file in ``folder`` lists the controllers
    that new groups in this folder get. In version 1, this file does not exist, and the result is True.
    """
    control = folder / "cgroup.subtree_control"
    if not control.exists():
        return True
    with contextlib.suppress(OSError):
        return controller in control.read_text("ascii").split()
    return False


def make_group(name: str, memory_mb: int, max_processes: int) -> ControlGroup:
    """Create a control group, which limits the memory and the processes of a trajectory, and return it.

    A trajectory is a series of executions of code that share their state. ``name`` is the name of the group,
    ``memory_mb`` is its memory limit in MiB, and ``max_processes`` its limit on processes and threads.

    A control group consists of one or more folders, which this function creates below ``/sys/fs/cgroup``. A folder in
    which no limit can be set is removed again. If no folder is left, ``folders`` of the result is empty, and there is
    no group.
    """
    limits = {"memory": memory_mb << 20, "pids": max_processes}
    made: set[Path] = set()
    held: dict[str, Path] = {}
    for controller, parent in parents().items():
        folder = parent / f"{_PREFIX}{os.getpid()}-{name}"
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            made.add(folder)
            _set_limit(folder, controller, limits[controller])
            held[controller] = folder
    for folder in made - set(held.values()):
        with contextlib.suppress(OSError):
            folder.rmdir()
    return ControlGroup(tuple(dict.fromkeys(held.values())), frozenset(held))


def _set_limit(folder: Path, controller: str, limit: int) -> None:
    """Write the limit of a controller (bytes or processes) to the controller's file in the folder.

    Raises OSError if the folder does not have this file, or if the file cannot be written.
    """
    files = [folder / name for name in _LIMITS[controller] if (folder / name).exists()]
    if not files:
        raise FileNotFoundError(f"the control group {folder} has no file {' or '.join(_LIMITS[controller])}")
    files[0].write_text(str(limit), "ascii")
    for swap in _SWAP if controller == "memory" else ():
        with contextlib.suppress(OSError):  # not every kernel counts it
            (folder / swap).write_text(str(limit) if "memsw" in swap else "0", "ascii")


def remove_left_over() -> None:
    """Remove the control groups that earlier processes of Groundtrace did not remove before they ended."""
    for parent in set(parents().values()):
        for folder in parent.glob(f"{_PREFIX}*"):
            owner = _NAME.fullmatch(folder.name)
            if owner and not Path("/proc", owner[1]).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
