"""Makes a wheel of Groundtrace itself, for workers on other machines. The wheel holds the same code that runs here."""

import importlib.metadata
import os
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from groundtrace import schemas
from groundtrace.pipelines.shipping.wheels import write_wheel

NAME = "groundtrace"
IN_EVERY_IMAGE = frozenset({"apache-beam"})
"""The packages that every worker image (container image of a Beam worker) contains, in the version that the job needs.

The wheel of Groundtrace does not require these packages, so that no other version of them is installed.
"""
TOO_HEAVY = frozenset({"train", "trl", "video", "vision", "vllm"})
"""The extras (groups of optional packages) that install torch, which has several gigabytes.

The wheel does not require their packages. A run that needs such an extra uses a worker image with it.
"""


def write_own_wheel(folder: Path, extras: Collection[str] = ()) -> Path:
    """Write a wheel of Groundtrace into a folder, and return the wheel's path.

    ``folder`` is an existing folder. ``extras`` are the names of the extras (groups of optional packages) that the run
    needs. The wheel requires the packages that the code needs, and the packages of the ``extras``. There are two
    exceptions: the package ``apache-beam`` and all extras in :data:`TOO_HEAVY` are left out. Each required package is
    pinned to the version that is installed here, so that a worker reads pixels with the same version of a library. A
    package that is not installed here is not pinned.
    """
    home = Path(schemas.__file__).parents[2]
    project = _project(home)
    if project is None:
        return _from_installed(folder, extras)
    about = project["project"]
    data = project["tool"]["setuptools"]["package-data"]
    files = {str(path.relative_to(home)): path.read_bytes() for path in _sources(home, data)}
    optional = about["optional-dependencies"]
    requires = [*about["dependencies"], *(line for extra in _travelling(extras, optional) for line in optional[extra])]
    return write_wheel(folder, NAME, about["version"], files, _as_installed(requires))


def _project(home: Path) -> dict | None:
    """Return the content of ``home``/pyproject.toml; None if ``home`` is not a source checkout of Groundtrace."""
    try:
        project = tomllib.loads((home / "pyproject.toml").read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return project if project.get("project", {}).get("name") == NAME else None


def _sources(home: Path, data: dict[str, list[str]]) -> Iterator[Path]:
    """Yield the modules of the checkout ``home``, including those in linked folders, and its data files.

    ``data`` is the section ``package-data`` of pyproject.toml: for each package, the patterns of its data files.
    """
    for folder, _, names in os.walk(home / NAME, followlinks=True):
        yield from (Path(folder, name) for name in names if name.endswith(".py"))
    for package, patterns in data.items():
        for pattern in patterns:
            yield from home.joinpath(*package.split(".")).glob(pattern)


def _from_installed(folder: Path, extras: Collection[str]) -> Path:
    """Write a wheel with the files of the installed Groundtrace, and return the wheel's path.

    ``folder`` is an existing folder for the wheel. ``extras`` are the names of extras (groups of optional packages)
    whose packages the wheel also requires.
    """
    installed = importlib.metadata.distribution(NAME)
    files = {
        str(file): Path(str(file.locate())).read_bytes()
        for file in installed.files or ()
        if file.suffix != ".pyc" and ".." not in file.parts and not file.parts[0].endswith(".dist-info")
    }
    chosen = _travelling(extras, installed.metadata.get_all("Provides-Extra") or ())
    requires = []
    for line in installed.requires or ():
        needed = Requirement(line)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *chosen)):
            needed.marker = None
            requires.append(str(needed))
    return write_wheel(folder, NAME, Version(installed.version).public, files, _as_installed(requires))


def _travelling(extras: Collection[str], declared: Collection[str]) -> list[str]:
    return sorted(set(extras).intersection(declared) - TOO_HEAVY)


def _as_installed(requires: Sequence[str]) -> list[str]:
    """Return the requirements (names of packages) in ``requires``, sorted and pinned to the installed versions.

    Packages that every worker image has are left out. The requirement of a package that is not installed stays
    unchanged.
    """
    pinned = {}
    for line in requires:
        needed = Requirement(line)
        if canonicalize_name(needed.name) in IN_EVERY_IMAGE:
            continue
        try:
            version = Version(importlib.metadata.version(needed.name)).public
        except importlib.metadata.PackageNotFoundError:
            pinned[needed.name] = str(needed)
            continue
        brought = f"[{','.join(sorted(needed.extras))}]" if needed.extras else ""
        pinned[needed.name] = f"{needed.name}{brought}=={version}"
    return [pinned[name] for name in sorted(pinned)]
