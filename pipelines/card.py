"""The data card of a run."""

from pathlib import Path
from typing import Any


def write_card(staging: Path, summary: dict[str, Any]) -> None:
    """Write ``README.md``."""
    (staging / "README.md").write_text(f"# {summary['recipe']}\n", "utf-8")
