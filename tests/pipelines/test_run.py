"""Servers that a run starts itself: looked for by ``validate``, and one readable message when they do not start."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipelines
from pipelines.cli import main

PIPELINE = str(Path(pipelines.__file__).parent / "grounded_cot.py")


@pytest.fixture
def data(tmp_path: Path, write_records: Callable[..., Path], write_scene: Callable[..., Path]) -> Path:
    """One picture with its question."""
    write_scene(tmp_path / "data/0.png")
    return write_records(tmp_path / "data", [{"id": "q0", "media": "0.png"}])


def test_validate_only_looks_for_a_server_that_the_run_starts(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = [word for f in ("kind=vllm", "model=small") for word in ("--set", f"endpoints.own.{f}")]
    served += ["--set", "roles.judge=own"]
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(tmp_path / "none"))
    assert main(["validate", PIPELINE, "--input", str(data), *served]) == 2
    assert "endpoint own (judge): NOT READY: GROUNDTRACE_VLLM names" in capsys.readouterr().out
    executable = tmp_path / "vllm"
    executable.write_text("#!/bin/sh\nexit 3\n", "utf-8")
    executable.chmod(0o755)
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(executable))
    assert main(["validate", PIPELINE, "--input", str(data), *served]) == 0
    assert f"endpoint own (judge): a run starts small with {executable}" in capsys.readouterr().out


def test_a_server_that_does_not_start_is_no_traceback(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_beam: Callable[..., Any]
) -> None:
    executable = tmp_path / "vllm"
    executable.write_text("#!/bin/sh\necho no accelerator here\nexit 3\n", "utf-8")
    executable.chmod(0o755)
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(executable))
    served = [word for f in ("kind=vllm", "model=small") for word in ("--set", f"endpoints.own.{f}")]
    ran = run_beam(data, tmp_path / "run", *served, "--set", "roles.judge=own")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("beam: vllm serve small ended with status 3")
    assert ran.err.endswith("no accelerator here\n")
    assert (tmp_path / "run/logs/vllm-own.log").is_file()
