"""Finds the revision of the code that makes a result: the git commit of Groundtrace, and a digest of the user's code.

SFT and RL rows hold the revision in their column ``lineage``. Each run, training and evaluation holds it in its file
``run.json``.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import subprocess
from collections.abc import Collection
from pathlib import Path

from groundtrace.schemas.user_modules import used_files

PACKAGES = ("schemas", "prompts", "stages", "pipelines", "groundtrace")

_WITH = " with own code "
"""Separates the revision of Groundtrace from the digest of the user's code."""


@functools.cache
def code_revision() -> str:
    """Return the git commit of the running code. If files differ from the commit, the result also has ``+`` and 12
    digits of a hash of the differences.

    If the code is not in its own git checkout, for example if it was installed as a package, the result is
    ``groundtrace`` and the version. The result is computed once in each process: if files change later, the process
    still runs the code that it has loaded.
    """
    home = Path(__file__).resolve().parent.parent
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if Path(os.fsdecode(_git(home, "rev-parse", "--show-toplevel").rstrip(b"\n"))).resolve() == home:
            commit = _git(home, "rev-parse", "HEAD").decode().strip()
            changes = _git(home, "diff", "HEAD", "--", *PACKAGES)
            return f"{commit}+{hashlib.sha256(changes).hexdigest()[:12]}" if changes else commit
    return f"groundtrace {importlib.metadata.version('groundtrace')}"


def revision_with(own_code: Collection[tuple[Path, Path]]) -> str:
    """Return the revision of Groundtrace (:func:`code_revision`), followed by a digest of the user's code.

    ``own_code`` are pairs of a file of the user and the folder from which the file is imported. The files that these
    files import from their folders count, too. If ``own_code`` is empty, the result is :func:`code_revision` alone.
    """
    digests = sorted(digest for _, digest in own_digests(own_code))
    if not digests:
        return code_revision()
    return f"{code_revision()}{_WITH}{hashlib.sha256(''.join(digests).encode()).hexdigest()[:12]}"


def own_code_in(revision: str) -> str:
    """Return the digest of the user's code in a revision (:func:`revision_with`); "" if it contains no such digest."""
    return revision.partition(_WITH)[2]


def own_digests(own_code: Collection[tuple[Path, Path]]) -> list[tuple[str, str]]:
    """Return the name and the SHA-256 of each file of the user's code, sorted by name.

    ``own_code`` are pairs of a file of the user and the folder from which the file is imported. The files that these
    files import from their folders are in the result, too; files that do not exist are left out. A name is the path of
    the file in its folder, such as ``rewards/form.py``.
    """
    names = {
        used: used.relative_to(folder).as_posix()
        for file, folder in sorted(own_code)
        for used in used_files(file, folder)
        if used.is_file()
    }
    return sorted((name, hashlib.sha256(file.read_bytes()).hexdigest()) for file, name in names.items())


def _git(home: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(home), *arguments], capture_output=True, check=True).stdout
