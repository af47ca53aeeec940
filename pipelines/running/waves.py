"""The plan of a run with a target: how many questions each wave draws, and the figures of all waves together.

A wave runs the whole DAG on the questions whose ids hash below a threshold; each wave's threshold includes those
before, whose replies come from the cache. All sizes are functions of counts only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.usage import USAGE_FIELDS
from stages.draw_questions import CUT, DRAW, OVER_QUOTA

MIN_FIRST_WAVE = 32
FIRST_PER_ROW = 4
MIN_GROWTH, MAX_GROWTH = 1.5, 8.0
SENT_FIELDS = (*(set(USAGE_FIELDS) - {"calls", "cached", "repairs", "cost_usd", "worth_usd"}), "cost_microusd")
_HASH_BITS = 64

Counters = Mapping[tuple[str, str], int]
Written = tuple[int, int, dict[str, dict[str, int]]]
"""Rows of sft and of rl, and of rejected by stage and reason."""


@dataclass(frozen=True)
class Wave:
    """What one wave gave: its counters, the rows it wrote, and of how many ``questions`` how many were ``drawn``.

    ``accepted`` counts its SFT rows with those beyond the target.
    """

    counters: Counters
    written: Written
    questions: int
    drawn: int
    accepted: int

    def summary(self) -> dict[str, Any]:
        """What run.json says of it."""
        return {"questions": self.questions, "drawn": self.drawn, "accepted": self.accepted}


def wave_of(counters: Counters, written: Written) -> Wave:
    """The wave that these counters and files tell of."""
    accepted = written[0] + written[2].get(CUT.name, {}).get(OVER_QUOTA, 0)
    questions, drawn = (counters.get((f"stage/{DRAW.name}", name), 0) for name in ("in", "kept"))
    return Wave(counters, written, questions, drawn, accepted)


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
    """The hash below which that share of all ids lies, as :class:`stages.draw_questions.Draw` takes it."""
    if share >= 1:
        return ""
    return f"{int(max(share, 0.0) * 2**_HASH_BITS):0{_HASH_BITS // 4}x}"


def joined_counters(waves: Sequence[Counters]) -> dict[tuple[str, str], int]:
    """The counters of a run: those of the last wave, with what was sent and paid in all of them.

    Calls, repairs and replies from the cache are those of the last wave: it makes every call of the waves before it
    again, and what these had sent is among what it finds in the cache.
    """
    joined = dict(waves[-1])
    for counters in waves[:-1]:
        for (namespace, name), value in counters.items():
            if namespace.startswith("ledger/") and name in SENT_FIELDS:
                joined[namespace, name] = joined.get((namespace, name), 0) + value
    return joined
