"""A command imports only what it needs: those that look at a run or a cache start without Beam, torch and datasets."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.pipelines.commands import dispatch
from groundtrace.schemas.run_summary import Counts, RunSummary
from groundtrace.stages.sources.base import InputError

CHECK = """
import contextlib, sys
from groundtrace.pipelines.commands.cli import main
with contextlib.suppress(SystemExit):
    assert main(sys.argv[1:]) == 0
print(sorted({"apache_beam", "torch", "datasets"} & sys.modules.keys()))
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run without rows, and with a cache without replies."""
    ReplyCache(str(tmp_path / "cache/replies.sqlite")).close()
    facts = dict.fromkeys(("recipe", "input", "finished", "revision", "config_sha256"), "x")
    nothing = {name: {} for name in ("stages", "ledger", "roles", "prompts")}
    summary = RunSummary(**facts, **nothing, counts=Counts(0, 0, 0, {}), wall_s=0.0, self_judged=False)
    (tmp_path / "run.json").write_text(json.dumps(summary.to_fields()))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["cache", "export", "--help"],
        ["inspect", "RUN"],
        ["inspect", "RUN", "--sql", "SELECT count(*) FROM sft"],
        ["cache", "stats", "RUN"],
        ["cache", "prune", "RUN", "--truncated"],
        ["cache", "export", "RUN", "--to", "RUN/replies.parquet"],
    ],
    ids=" ".join,
)
def test_looking_does_without_what_is_slow_to_import(words: list[str], run: Path) -> None:
    given = [word.replace("RUN", str(run)) for word in words]
    done = subprocess.run([sys.executable, "-c", CHECK, *given], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "[]"


PLANNING = """
import sys
from groundtrace.pipelines.running.quick_imports import quick_imports
with quick_imports():
    import groundtrace.pipelines.commands.run
import duckdb, pyarrow
pyarrow.Table.from_pylist([{"a": [1]}])
print(sorted({"apache_beam", "pandas"} & sys.modules.keys()))
from apache_beam.typehints import pandas_type_compatibility
print(len(pyarrow.table({"a": [1]}).to_pandas()) + len(duckdb.sql("SELECT 1").df()))
"""


@pytest.mark.slow
def test_a_run_imports_pandas_only_if_it_uses_it() -> None:
    done = subprocess.run([sys.executable, "-c", PLANNING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["['apache_beam']", "2"]), done.stderr


@pytest.mark.parametrize("through_a_step", [True, False])
def test_a_mistake_that_a_worker_meets_is_one_line(
    through_a_step: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beam raises an error of the same kind that says where it was, or another one with the first as its cause."""

    def act(*_: object) -> int:
        if through_a_step:
            raise RuntimeError("a step failed") from InputError("a.parquet is damaged [while running 'Ingest/Read']")
        raise InputError("a.parquet is damaged [while running 'Ingest/Read']")

    monkeypatch.setattr(dispatch, "_act", act)
    assert dispatch.dispatch(argparse.Namespace(verbose=False), []) == 2
    assert capsys.readouterr().err == "beam: a.parquet is damaged\n"
