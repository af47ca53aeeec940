"""Checks which layers of isolation this machine has, such as namespaces and a seccomp filter.

If a required layer is missing, no model-written code runs.
"""

import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from groundtrace.sandbox import bubblewrap, groups
from groundtrace.sandbox.errors import SandboxRefused
from groundtrace.sandbox.filter import can_filter
from groundtrace.sandbox.inside.kernel import landlock_version

_TRIAL_S = 20
_MIN_VERSION = (0, 8)
"""The first version of bubblewrap that has the options ``--disable-userns`` and ``--size``."""


@dataclass(frozen=True)
class Layer:
    """Describes a layer of isolation, and whether this machine has it.

    Attributes:
        name: the name of the layer, such as ``namespaces``.
        does: the effect of the layer.
        missing: the reason why this machine lacks the layer; "" if the machine has it.
        remedy: how to get the layer.
        is_needed: whether the layer is required. If so, no code runs on a machine without it.
    """

    name: str
    does: str
    missing: str
    remedy: str
    is_needed: bool = True


def _linux() -> str:
    return "" if platform.system() == "Linux" else f"this is {platform.system()}"


def _bubblewrap() -> str:
    found = bubblewrap.version()
    if not found:
        return "the program bwrap is not on PATH"
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    return "" if numbers >= _MIN_VERSION else f"bubblewrap {found} is older than {'.'.join(map(str, _MIN_VERSION))}"


def _namespaces() -> str:
    """Return why the program bubblewrap cannot create namespaces and mounts on this machine; "" if it can."""
    if _linux() or _bubblewrap():
        return _linux() or _bubblewrap()
    full = bubblewrap.command(1)
    words = [*full[: full.index("--")], "--", bubblewrap.interpreter(), "-S", "-c", "pass"]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_TRIAL_S)
    except subprocess.TimeoutExpired:
        return f"bwrap did not end within {_TRIAL_S} s"
    return "" if ran.returncode == 0 else ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else "bwrap fails"


def _process_limits() -> str:
    """Return why the limit on processes would have no effect; "" if it has an effect.

    There are two such reasons:

    - This process is root and may not become another user. The kernel does not limit root's processes.
    - This process is not root, Linux is older than 5.14, and no control group can limit the processes. Before 5.14, the
      kernel does not count processes by user namespace.
    """
    if os.geteuid() == 0:
        rights = _rights()
        return "" if rights >> 7 & rights >> 6 & 1 else "root may not become another user here (CAP_SETUID, CAP_SETGID)"
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    is_counted = release >= (5, 14) or "pids" in groups.parents()
    return "" if is_counted else f"Linux {platform.release()}, older than 5.14, does not count a namespace's processes"


def _rights() -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)


def _groups() -> str:
    lacking = {"memory", "pids"} - set(groups.parents())
    return f"this user cannot create control groups for {' and '.join(sorted(lacking))}" if lacking else ""


def _landlock() -> str:
    return "" if _linux() == "" and landlock_version() else "this kernel has none, or it is switched off"


_PARTS: tuple[tuple[str, str, Callable[[], str], str, bool], ...] = (
    ("Linux", "has all that follows", _linux, "run on Linux, or in a virtual machine with it", True),
    ("bubblewrap", "starts each trajectory", _bubblewrap, "install the package bubblewrap", True),
    (
        "namespaces",
        "hide files, processes, network and users of this machine",
        _namespaces,
        "in a container: `--cap-add SYS_ADMIN --security-opt seccomp=unconfined`, or user namespaces (docs/sandbox.md)",
        True,
    ),
    (
        "seccomp",
        "refuses system calls that Python does not need",
        can_filter,
        "pip install 'groundtrace[sandbox]', and the package libseccomp2",
        True,
    ),
    (
        "process limit",
        "ends bombs of processes and threads",
        _process_limits,
        "docs/sandbox.md names the kernels",
        True,
    ),
    (
        "control groups",
        "limit the memory of all processes together",
        _groups,
        "without them memory is counted every 30 ms: docs/sandbox.md",
        False,
    ),
    (
        "Landlock",
        "hides files once more, and other processes from signals",
        _landlock,
        "Linux 5.13 or later has it",
        False,
    ),
)


def layers() -> list[Layer]:
    """Check all layers of isolation, and return all of them.

    If this machine lacks a layer, the attribute ``missing`` of the layer holds the reason why.
    """
    return [Layer(name, does, missing(), remedy, needed) for name, does, missing, remedy, needed in _PARTS]


def check() -> list[Layer]:
    """Check all layers of isolation, and return them.

    Raises SandboxRefused if a required layer is missing. The message names the layer and the remedy.
    """
    found = layers()
    for part in found:
        if part.is_needed and part.missing:
            raise SandboxRefused(
                f"this machine cannot run a sandbox, because the part '{part.name}' is missing or does not work: "
                f"{part.missing}. Remedy: {part.remedy}"
            )
    return found
