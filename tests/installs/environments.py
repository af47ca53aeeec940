"""Fresh environments with the wheel of this checkout in them, and commands as their users run them.

What is installed comes through uv, which links the files of packages that it has: an environment takes seconds and
little space. Commands run with the few variables that any shell sets, in a home that is empty, away from the checkout.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data" / "sample"
INSTALL_TIMEOUT_S = 900
COMMAND_TIMEOUT_S = 300
UV_NAMES = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
"""How uv calls what leads pip to the package index."""


class Failed(AssertionError):
    """A command ended otherwise than it should; its output is in the message."""


def checkout(folder: Path) -> Path:
    """A copy of the checkout without what git ignores: a clone, with the changes of its user."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_symlink() or source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name, follow_symlinks=False)
    return folder


def build_wheel(folder: Path) -> Path:
    """The wheel of the checkout; it holds all data files of its packages."""
    _uv("build", "--wheel", "--quiet", "--out-dir", str(folder / "dist"), str(checkout(folder / "source")))
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel


def python_of(version: str) -> str:
    """A Python of this version: the command of that name, or one beside the Python that runs this (as pyenv has them).

    Raises Failed where there is none.
    """
    command = f"python{version}"
    beside = Path(sys.base_prefix).parent.glob(f"{version}*/bin/{command}")
    for found in filter(None, [shutil.which(command), *map(str, sorted(beside))]):
        asked = subprocess.run([found, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
        if asked.stdout.startswith(version):
            return found
    raise Failed(f"there is no {command} on this machine: install it (Debian: {command}-venv, pyenv: {version})")


@dataclass(frozen=True)
class Installed:
    """An environment, and an empty folder as home and place of work."""

    venv: Path
    home: Path

    def run(self, *words: object, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the environment, with these variables too. Raises Failed unless it ends with 0."""
        command = list(map(str, words))
        done = subprocess.run(
            [str(self.venv / "bin" / command[0]), *command[1:]],
            cwd=self.home,
            env=self.environment(variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
        )
        if done.returncode:
            said = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            raise Failed(f"`{' '.join(command)}` ended with {done.returncode}:\n{said}")
        return done

    def python(self, code: str, **variables: str) -> str:
        """What a piece of Python prints in the environment."""
        return self.run("python", "-c", code, **variables).stdout

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables of a command: those of a bare shell, and these."""
        path = os.pathsep.join([str(self.venv / "bin"), "/usr/local/bin", "/usr/bin", "/bin"])
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", **variables}


def add(env: Installed, *packages: str) -> None:
    """Install further packages as they are, without what they require."""
    _uv("pip", "install", "--quiet", "--no-deps", "--python", str(env.venv), *packages)


def install(folder: Path, wheel: Path, extra: str = "") -> Installed:
    """A fresh environment of this Python with the wheel, one of its extras, and nothing else."""
    venv, home = folder / "venv", folder / "home"
    home.mkdir(parents=True)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    _uv("venv", "--quiet", "--python", str(base), str(venv))
    wanted = f"groundtrace[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    _uv("pip", "install", "--quiet", "--python", str(venv), "-c", str(ROOT / "constraints.txt"), wanted)
    _uv("pip", "check", "--quiet", "--python", str(venv))
    return Installed(venv, home)


def modules_in(wheel: Path) -> list[str]:
    """The modules that the wheel holds, by their names."""
    with zipfile.ZipFile(wheel) as held:
        names = [name for name in held.namelist() if name.endswith(".py")]
    return sorted(re.sub(r"(/__init__)?\.py$", "", name).replace("/", ".") for name in names)


def run_command(*words: str, folder: Path | None = None) -> None:
    """Run a command that installs, with what leads to the package index here and nothing that is set for Python.

    Raises Failed where it ends with another code than 0.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "MAKE"))}
    known = {UV_NAMES[name]: value for name, value in kept.items() if name in UV_NAMES}
    done = subprocess.run(
        words, cwd=folder, env=known | kept, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
    )
    if done.returncode:
        raise Failed(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def _uv(*words: str) -> None:
    run_command(sys.executable, "-m", "uv", *words)
