"""A stand-in Hub, and the ``beam`` command and Python run against it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from groundtrace.pipelines.commands import cli

from .stand_in import TOKEN, StandIn

ROOT = Path(__file__).resolve().parents[3]
Beam = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[StandIn]:
    server = StandIn(tmp_path / "hub")
    yield server
    server.close()


@pytest.fixture
def environment(hub: StandIn, tmp_path: Path) -> dict[str, str]:
    """Of a client: the stand-in's address and token, and caches of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return kept | {
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf-home"),
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def python(environment: dict[str, str]) -> Beam:
    """Runs Python with these words in a process of its own."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def beam(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Beam:
    """Runs ``beam`` with these words in this process, the client told of the stand-in as its environment would tell it
    at its first import; ``variables`` are further ones.
    """

    def run(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
        told = environment | variables
        monkeypatch.setenv("HF_TOKEN", told["HF_TOKEN"])
        monkeypatch.setattr(constants, "ENDPOINT", told["HF_ENDPOINT"])
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", told["HF_HOME"])
        capsys.readouterr()
        code = cli.main([*map(str, words)])
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, said.out, said.err)

    return run


@pytest.fixture(scope="session")
def finished(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A finished run over a part of the bundled sample; tests that change it copy it."""

    def make(folder: Path) -> None:
        words = ["run", "grounded_cot", "--input", str(ROOT / "data/sample"), "--output", str(folder / "run")]
        assert cli.main([*words, "--limit", "60"]) == 0

    return made_once("finished", make) / "run"
