"""The table of docs/scaling.md is the one that its script prints."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks/scaling_table.py"


def run_script(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_the_table_is_what_the_script_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script(monkeypatch)
    table = capsys.readouterr().out
    assert table
    assert table in (ROOT / "docs/scaling.md").read_text("utf-8")


def test_figures_of_ones_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_script(monkeypatch, "--questions", "1000", "--days", "1", "--set", "yield=0.5", "--set", "sft_ratio=1")
    table = capsys.readouterr().out
    assert "| SFT rows | 500 |" in table
    assert "| RL rows | 0 |" in table
    with pytest.raises(SystemExit) as ended:
        run_script(monkeypatch, "--set", "yeld=1")
    assert (ended.value.code, "there is no 'yeld': band," in capsys.readouterr().err) == (2, True)
