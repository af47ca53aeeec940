"""The plan of a run with a target: how many questions each wave draws.

A wave runs the whole DAG on the questions whose ids hash below a threshold, including those of the waves before, whose
replies come from the cache. All sizes depend on counts only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groundtrace.pipelines.running.counts import Figures
from groundtrace.schemas.run_summary import FileEntry
from groundtrace.stages.draw_questions import CUT, DRAW, OVER_QUOTA

MIN_FIRST_WAVE = 32
FIRST_PER_ROW = 4
MIN_GROWTH, MAX_GROWTH = 1.5, 8.0
_HASH_BITS = 64


@dataclass(frozen=True)
class Wave:
    """The result of one wave: its figures, and its files in the staging folder."""

    figures: Figures
    files: Mapping[str, FileEntry] = field(default_factory=dict)

    @property
    def questions(self) -> int:
        """The number of questions."""
        return self.figures.seen(DRAW.name)

    @property
    def drawn(self) -> int:
        """The number of questions that the wave drew."""
        return self.figures.passed(DRAW.name)

    @property
    def accepted(self) -> int:
        """The number of SFT rows, including those beyond the target."""
        counts = self.figures.counts
        return counts.sft + counts.rejected.get(CUT.name, {}).get(OVER_QUOTA, 0)

    def summary(self) -> dict[str, Any]:
        """The wave's entry in run.json."""
        return {"questions": self.questions, "drawn": self.drawn, "accepted": self.accepted}


def first_share(target: int, questions: int | None) -> float:
    """The share of the questions that the first wave draws; 0 (only count them) when their number is not known."""
    if questions is None:
        return 0.0
    wanted = max(MIN_FIRST_WAVE, FIRST_PER_ROW * target)
    return min(1.0, wanted / questions) if questions else 1.0


def next_share(target: int, accepted: int, drawn: int, questions: int, share: float) -> float:
    """The share that the next wave draws, when ``drawn`` of the ``questions`` gave ``accepted`` rows, too few.

    The yield seen is extrapolated with two standard deviations to spare, so that a further wave is seldom needed. A
    wave is at least 1.5 times and at most 8 times as large as the one before.
    """
    if share <= 0:
        return first_share(target, questions)
    wanted = (target + 2 * target**0.5) * (drawn + 1) / (accepted + 1)
    grown = wanted / questions if questions else 1.0
    return min(1.0, max(grown, MIN_GROWTH * share), MAX_GROWTH * share)


def threshold(share: float) -> str:
    """The hash below which this share of all ids is, for :class:`groundtrace.stages.plumbing.recipe.Draw`."""
    if share >= 1:
        return ""
    return f"{int(max(share, 0.0) * 2**_HASH_BITS):0{_HASH_BITS // 4}x}"
