"""Runs to export: one of the bundled sample, and folders with the rows that a test gives."""

from pathlib import Path

import pytest

from tests.publishing.exports.made_runs import ROOT


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the bundled sample that kept the traces that were not chosen, by a teacher that sees badly."""
    from groundtrace.pipelines.commands import cli

    folder = tmp_path_factory.mktemp("sample") / "run"
    settings = ["write.other_traces=true", "trace.n=4", "roles.teacher=coarse"]
    words = [word for each in settings for word in ("--set", each)]
    assert cli.main(["run", "grounded_cot", "--input", str(ROOT / "data/sample"), "--output", str(folder), *words]) == 0
    return folder
