"""Servers that a run starts itself: looked for by ``validate``, and one readable message when they do not start."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace import pipelines
from groundtrace.pipelines.commands.cli import main

PIPELINE = str(Path(pipelines.__file__).parent / "grounded_cot.py")


@pytest.fixture
def data(tmp_path: Path, write_records: Callable[..., Path], write_scene: Callable[..., Path]) -> Path:
    """One picture with its question."""
    write_scene(tmp_path / "data/0.png")
    return write_records(tmp_path / "data", [{"id": "q0", "media": "0.png"}])


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--resume", "never")])
def test_a_run_inside_its_parquet_folder_is_the_same_again(
    more: tuple[str, ...], tmp_path: Path, write_scene: Callable[..., Path], run_beam: Callable[..., Any]
) -> None:
    write_scene(tmp_path / "pq/0.png")
    row = {"id": "q0", "media": "0.png", "question": "How many?", "answer": "3", "source": "s", "license": "MIT"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "pq/rows.parquet")
    for run in ("run", "run", "run2"):
        ran = run_beam(tmp_path / "pq", tmp_path / "pq" / run, *more)
        assert ran.out.startswith("1 record: "), ran.err


def test_a_run_inside_a_folder_that_datasets_reads_is_refused(data: Path, run_beam: Callable[..., Any]) -> None:
    (data / "records.jsonl").unlink()
    row = {"file_name": "0.png", "id": "q0", "question": "How many?", "answer": "3", "source": "s", "license": "MIT"}
    (data / "metadata.csv").write_text("\n".join(",".join(cells) for cells in (row, row.values())), "utf-8")
    ran = run_beam(data, data / "run")
    assert ran.code == 2
    assert (
        "run is inside the input folder, so the next run would read the outputs as input: choose another --output"
        in ran.err
    )
    assert not (data / "run").exists()


@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_wrong_column_is_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"query": ["How many?"]}), tmp_path / "rows.parquet")
    words = [command, PIPELINE, "--input", str(tmp_path / "rows.parquet"), "--set", "input.columns.question=querry"]
    assert main([*words, *(("--output", str(tmp_path / "run")) if command == "run" else ())]) == 2
    told = capsys.readouterr()
    line = "beam: input.columns.question: the input has no column 'querry'; did you mean query?\n"
    assert (told.out, told.err) == ("", line)
    assert not (tmp_path / "run").exists()


def test_validate_only_looks_for_a_server_that_the_run_starts(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = [word for f in ("kind=vllm", "model=small") for word in ("--set", f"endpoints.own.{f}")]
    served += ["--set", "roles.judge=own"]
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(tmp_path / "none"))
    assert main(["validate", PIPELINE, "--input", str(data), *served]) == 2
    assert (
        "endpoint own (judge): NOT READY: the environment variable GROUNDTRACE_VLLM is set to"
        in capsys.readouterr().out
    )
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
    assert ran.err.splitlines()[1].startswith("beam: vllm serve small ended with status 3")
    assert ran.err.endswith(f"no accelerator here\n(report: {tmp_path / 'run/failed.html'})\n")
    assert (tmp_path / "run/logs/vllm-own.log").is_file()
