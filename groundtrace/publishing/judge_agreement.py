"""Reads from a run's ``judges.json`` how often each judge is right about texts with and without planted faults.

A planted fault was added to a text on purpose, to test the judge.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class JudgeRow:
    """Holds how often one judge is right, as the data card shows it.

    ``clean`` is the share of right verdicts about texts without planted faults, as text (``9 of 10 (0.60 to 0.98)``).
    ``planted`` is this share for texts with planted faults. ``unjudged`` is the number of texts without a verdict.
    """

    judge: str
    clean: str
    planted: str
    unjudged: int


def judge_rows(staging: Path) -> list[JudgeRow]:
    """Return one row for each judge that the run measured; empty if it measured no judge."""
    file = staging / "judges.json"
    if not file.is_file():
        return []
    judges = json.loads(file.read_text("utf-8"))["judges"]
    return [
        JudgeRow(name, _shown(figures["clean"]), _shown(figures["planted"]), figures["all"]["unjudged"])
        for name, figures in judges.items()
    ]


def _shown(figures: dict[str, object]) -> str:
    """Return a share as ``9 of 10 (0.60 to 0.98)``, or "none judged" if no text has a verdict."""
    match figures:
        case {"judged": int(judged), "agree": int(agree), "interval": [float(low), float(high)]}:
            return f"{agree} of {judged} ({low:.2f} to {high:.2f})"
    return "none judged"
