"""The programs that try to get out, as a user without rights: namespaces of users instead of a user of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundtrace.sandbox.bubblewrap import library_paths

pytestmark = pytest.mark.sandbox
ROOT = Path(__file__).resolve().parents[2]
NOBODY = 1_234_567
SYSTEM_PACKAGES = Path("/usr/lib/python3/dist-packages")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user reaches; this checkout may be in a folder of root's."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="as-user-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_all_of_them_as_a_user_without_rights(reachable: Path) -> None:
    """With the system's Python; checkout and packages are mounted where the user reaches them, for it alone."""
    if os.geteuid() != 0:  # then all tests here run so
        assert not os.access("/root", os.R_OK)
        return
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    assert Path(python).exists(), f"{python} is missing: install it, or run these tests as a user without rights"
    places = {str(ROOT): reachable / "repo"}
    places |= {path: reachable / str(n) / "site-packages" for n, path in enumerate(library_paths())}
    for place in places.values():
        place.mkdir(parents=True)
    mounts = "".join(f"mount --bind '{path}' '{place}' && " for path, place in places.items())
    if SYSTEM_PACKAGES.is_dir():  # those of this environment must not be mixed with the system's
        mounts += f"mount -t tmpfs none '{SYSTEM_PACKAGES}' && "
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    tests = "-m pytest -m sandbox -p no:cacheprovider -x -n 2 tests/sandbox/test_escapes.py"
    script = f"{mounts} cd '{places[str(ROOT)]}' && exec {user} {python} {tests}"
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": os.pathsep.join(map(str, places.values())),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0 and "[100%]" in ran.stdout, (ran.stdout + ran.stderr)[-4000:]
