"""Which code this is: the commit, for lineage and run records."""

import hashlib
import importlib.metadata
import subprocess
from pathlib import Path

PACKAGES = ("schemas", "prompts", "vision", "inference", "rewards", "stages", "trainer", "pipelines")


def code_revision() -> str:
    """The commit of the code, with ``+`` and a digest of the difference when files are changed; the version outside
    git.
    """
    home = Path(__file__).resolve().parent.parent
    try:
        commit = _git(home, "rev-parse", "HEAD").decode().strip()
        changes = _git(home, "diff", "HEAD", "--", *PACKAGES)
    except (OSError, subprocess.CalledProcessError):
        return f"groundtrace {importlib.metadata.version('groundtrace')}"
    return f"{commit}+{hashlib.sha256(changes).hexdigest()[:12]}" if changes else commit


def _git(home: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(home), *arguments], capture_output=True, check=True).stdout
