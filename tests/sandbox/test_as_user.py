"""The programs that try to get out, as a user without rights: namespaces of users instead of a user of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from groundtrace.sandbox.bubblewrap import library_paths

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 1_234_567


pytestmark = pytest.mark.sandbox


def test_all_of_them_as_a_user_without_rights(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the system's Python, which such a user reaches; this one's may be in root's home."""
    if os.geteuid() != 0:  # then all tests here run so
        assert not os.access("/root", os.R_OK)
        return
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    assert Path(python).exists(), f"{python} is missing: install it, or run these tests as a user without rights"
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", python, "-m", "pytest"]
    chosen = ["-m", "sandbox", "-p", "no:cacheprovider", "-x", "-n", "2"]
    paths = os.pathsep.join([str(ROOT), *library_paths()])
    ran = subprocess.run(
        [*words, *chosen, "tests/sandbox/test_escapes.py"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": paths, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0 and " passed" in ran.stdout, (ran.stdout + ran.stderr)[-4000:]
