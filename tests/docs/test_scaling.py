"""The table of docs/scaling.md is the one that its script prints."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks/scaling_table.py"


def printed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False)


def test_the_table_is_what_the_script_prints() -> None:
    assert printed().stdout in (ROOT / "docs/scaling.md").read_text("utf-8")


def test_figures_of_ones_own() -> None:
    table = printed("--questions", "1000", "--days", "1", "--set", "yield=0.5", "--set", "sft_ratio=1").stdout
    assert "| SFT rows | 500 |" in table
    assert "| RL rows | 0 |" in table
    wrong = printed("--set", "yeld=1")
    assert (wrong.returncode, "there is no 'yeld': band," in wrong.stderr) == (2, True)
