"""Runs to export: one of the bundled sample, and folders with the rows that a test gives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.publishing.exports.made_runs import ROOT


@pytest.fixture(scope="session")
def sample_run(made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A run of the bundled sample that kept the traces that were not chosen, by a teacher that sees badly."""
    from groundtrace.pipelines.commands import cli

    settings = ["write.other_traces=true", "trace.n=4", "roles.teacher=coarse"]
    words = ["--input", str(ROOT / "data/sample"), *(word for each in settings for word in ("--set", each))]

    def make(folder: Path) -> None:
        assert cli.main(["run", "grounded_cot", *words, "--output", str(folder / "run")]) == 0

    return made_once("sample_run", make) / "run"
