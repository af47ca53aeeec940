"""Builds the command that starts a trajectory in a sandbox.

The sandbox is the program bubblewrap with all its namespaces, a read-only system, and one folder in which the code can
write. A trajectory is a series of executions of code that share their state.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from groundtrace.sandbox.inside.holder import FOLDER

INSIDE = Path(__file__).parent / "inside"
_PLACE = "/sandbox"
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime")
"""The system files that the sandbox shows: shared libraries and the files of the time zone. The programs of the system
are not included, so that the code cannot start them.
"""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_ENVIRONMENT = {
    "HOME": FOLDER,
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # so that the same code prints the same for the same image
    "PYTHONDONTWRITEBYTECODE": "1",
    "MPLBACKEND": "module://inside.backend",
    "MPLCONFIGDIR": f"{FOLDER}/.matplotlib",
    # A fork does not have its parent's threads: a library that had started threads would wait for them without end.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
}
_MAIN = f"import sys; sys.path.insert(0, {_PLACE!r}); from inside.main import main; main()"


@cache
def interpreter() -> str:
    """Return the path of the Python program that runs now, with the links of a virtual environment resolved."""
    return os.path.realpath(sys.executable)


@cache
def library_paths() -> tuple[str, ...]:
    """Return the folders of installed Python packages, in the order in which Python searches them."""
    named = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path}
    found = [path for path in dict.fromkeys([*sys.path, *named]) if path in named and _holds_packages(path)]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in found))


def _holds_packages(path: str) -> bool:
    return Path(path).name in ("site-packages", "dist-packages") and Path(path).is_dir()


def binds() -> dict[str, str]:
    """Return the files and folders of this machine that exist in the sandbox, too.

    The result is a dict from the path in the sandbox to the path on this machine. All paths except the devices are
    read-only. The Python interpreter has the same path as on this machine, since Python finds its own files by this
    path. There is one exception: an interpreter below /tmp gets the path /sandbox/python instead, because /tmp in the
    sandbox is the folder in which the code can write.
    """
    same = [path for path in (*_SYSTEM, *_DEVICES) if Path(path).exists()]
    prefix = sys.base_prefix
    found = dict(zip(same, same, strict=True))
    if Path(prefix) in (Path("/usr"), Path("/")):
        found[interpreter()] = interpreter()
    else:
        found[_moved(prefix)] = prefix
    return {**found, **dict(zip(packages(), library_paths(), strict=True)), f"{_PLACE}/inside": str(INSIDE)}


def _moved(path: str) -> str:
    return f"{_PLACE}/python" if Path(path).is_relative_to(FOLDER) else path


def packages() -> list[str]:
    """Return the paths that the folders of installed Python packages have in the sandbox, such as /sandbox/packages0.

    They are in the order of :func:`library_paths`.
    """
    return [f"{_PLACE}/packages{number}" for number in range(len(library_paths()))]


def command(folder_mb: int) -> list[str]:
    """Return the command line that starts the supervisor of a trajectory, which is the first process in the sandbox.

    A trajectory is a series of calls (executions of code) that share their state. ``folder_mb`` is the maximum size, in
    MiB, of the files that a call may leave in the trajectory's folder. The command line limits the folder to twice this
    size, for this reason: after a failed call, the supervisor restores the files from a copy in memory. The code may
    have removed a file that a process still has open. The kernel keeps such a file until it is closed. So the removed
    file and the restored file need space at the same time.
    """
    bwrap = shutil.which("bwrap") or "bwrap"
    is_root = os.geteuid() == 0
    isolated = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    # Root starts the code as a real user without rights: in a user namespace, root would stay root for the kernel.
    user = (
        ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_CHOWN"]
        if is_root
        else ["--unshare-user", "--disable-userns"]
    )
    bound = binds()
    above = dict.fromkeys(str(parent) for path in bound for parent in reversed(Path(path).parents[:-1]))
    folders = [word for folder in above for word in ("--perms", "0755", "--dir", folder)]  # else bwrap gives them 0700
    bind = [word for inside, path in bound.items() for word in _bind(path, inside)]
    python = _moved(sys.base_prefix) + interpreter().removeprefix(os.path.realpath(sys.base_prefix))
    variables = [word for name, value in _ENVIRONMENT.items() for word in ("--setenv", name, value)]
    return [
        *(bwrap, *isolated, *user, "--hostname", "sandbox", "--die-with-parent", "--new-session", "--clearenv"),
        *(*variables, *folders, *bind, "--proc", "/proc"),
        *("--perms", "0700", "--size", str(2 * folder_mb << 20), "--tmpfs", FOLDER),
        *("--remount-ro", "/", "--chdir", "/", "--", python, "-s", "-S", "-P", "-B", "-c", _MAIN),
    ]


def _bind(path: str, inside: str) -> Sequence[str]:
    if path in _DEVICES:
        return ("--dev-bind", path, inside)
    if path in _SYSTEM and Path(path).is_symlink():
        return ("--symlink", str(Path(path).readlink()), inside)
    return ("--ro-bind", path, inside)


def version() -> str:
    """Return the version of the program bubblewrap, such as "0.8.0"; "" if it is not installed."""
    if not shutil.which("bwrap"):
        return ""
    found = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False, timeout=10)
    return found.stdout.strip().removeprefix("bubblewrap ")
