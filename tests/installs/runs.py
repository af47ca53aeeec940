"""What the runs in these environments share."""

import json
from pathlib import Path

KEEP_EASY = ("--set", "difficulty.include_high=true")
"""A server that answers "3" is always right where the answer is 3, and never elsewhere."""
EMBEDDED = """
[reward]
recipe = "argos"

[reward.endpoints.colour]
kind = "classical"
model = "colour"

[reward.endpoints.edges]
kind = "classical"
model = "edges"

[reward.roles]
detector = "edges"
segmenter = "edges"
judge = "colour"
"""


def rows_of(folder: Path) -> int:
    """How many rows a run kept."""
    counts = json.loads((folder / "run.json").read_text("utf-8"))["counts"]
    return counts["sft"] + counts["rl"]
