"""Finds the git commit of this code. SFT and RL rows hold it in their column ``lineage``. Each run holds it in its file
``run.json``.
"""

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


def _git(home: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(home), *arguments], capture_output=True, check=True).stdout
