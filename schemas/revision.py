"""Finds the commit of this code. Lineage and run records contain it."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import subprocess
from pathlib import Path

PACKAGES = ("schemas", "prompts", "stages", "pipelines", "groundtrace")


@functools.cache
def code_revision() -> str:
    """Return the commit of the code; if files differ from it, ``+`` and a digest of the differences are added.

    The result is cached in each process: if files change later, the process still runs the code that it has loaded. If
    the code is not in its own git checkout, for example if it was installed as a package, the result is ``groundtrace``
    and the version.
    """
    home = Path(__file__).resolve().parent.parent
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if Path(os.fsdecode(_git(home, "rev-parse", "--show-toplevel").rstrip(b"\n"))).resolve() == home:
            commit = _git(home, "rev-parse", "HEAD").decode().strip()
            changes = _git(home, "diff", "HEAD", "--", *PACKAGES)
            return f"{commit}+{hashlib.sha256(changes).hexdigest()[:12]}" if changes else commit
    return f"groundtrace {importlib.metadata.version('groundtrace')}"


def _git(home: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(home), *arguments], capture_output=True, check=True).stdout
