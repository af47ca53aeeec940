"""The wheels that travel: pip takes them, and the same content is the same file."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from setuptools import build_meta

from groundtrace.pipelines.shipping.own_code import write_own_wheel
from groundtrace.pipelines.shipping.wheels import write_wheel
from tests.pipelines.shipping.cluster import PACKAGES

ROOT = Path(__file__).resolve().parents[3]


def held(wheel: Path) -> set[str]:
    """The files of a wheel, without those that describe it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def required(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(metadata).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_own_wheel(tmp_path_factory.mktemp("own"), ["gemini", "video", "vllm", "unheard-of"])


@pytest.fixture(scope="module")
def installed(own: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(own)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    return folder


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    wheels = [write_wheel(folder, "x", "1.0", {"x.py": b"a = 1"}, ["y"]) for folder in (tmp_path, tmp_path / "again")]
    assert wheels[0].name == wheels[1].name
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


@pytest.mark.parametrize(
    ("files", "requires"),
    [({"x.py": b"a = 2"}, ["y"]), ({"z.py": b"a = 1"}, ["y"]), ({"x.py": b"a = 1"}, ["y>1"]), ({}, ["y"])],
)
def test_another_content_is_another_version(files: dict[str, bytes], requires: list[str], tmp_path: Path) -> None:
    one = write_wheel(tmp_path, "x", "1.0", {"x.py": b"a = 1"}, ["y"])
    assert write_wheel(tmp_path, "x", "1.0", files, requires).name != one.name


def test_it_holds_what_setuptools_would_put_there(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the ``*.egg-info`` that a build leaves, setuptools reads the tree only."""
    for entry in ROOT.iterdir():
        if entry.name[0] != "." and entry.name not in ("runs", "build", "dist") and entry.suffix != ".egg-info":
            (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    assert held(own) == held(tmp_path / "out" / build_meta.build_wheel(str(tmp_path / "out")))


def test_it_requires_what_is_installed_here_without_beam_and_without_torch(own: Path) -> None:
    names = {line.partition("==")[0] for line in required(own)}
    assert {"opencv-python-headless", "pydantic", "google-genai", "math-verify[antlr4-13-2]"} <= names
    assert all("==" in line for line in required(own))
    assert not names & {"apache-beam", "vllm", "torch", "molmo-utils"}


@pytest.mark.slow
def test_it_is_made_again_from_what_pip_installed(own: Path, installed: Path, tmp_path: Path) -> None:
    """A worker's wheel can be made where there is no checkout."""
    code = (
        f"import sys; sys.path[:0] = [{str(installed)!r}]; sys.path.append({PACKAGES!r})\n"
        "from pathlib import Path; from groundtrace.pipelines.shipping.own_code import write_own_wheel\n"
        f"print(write_own_wheel(Path({str(tmp_path)!r})))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    again = Path(done.stdout.strip())
    assert held(again) == held(own)
    assert [line for line in required(own) if "google-genai" not in line] == [
        line for line in required(again) if "google-genai" not in line
    ]
