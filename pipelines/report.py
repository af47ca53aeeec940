"""The report of a run."""

from pathlib import Path
from typing import Any


def write_report(staging: Path, run_root: Path, summary: dict[str, Any]) -> None:
    """Write ``report.html``."""
    (staging / "report.html").write_text(f"<title>{summary['recipe']}</title>", "utf-8")
